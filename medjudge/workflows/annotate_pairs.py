"""Sends forms of pairs to physicians, serves the pages on which they compare, and imports what comes back."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.pair_forms import write_pair_project, write_pair_workbook
from medjudge.annotate.pair_intake import AddedPairs, import_pairs
from medjudge.annotate.pair_plan import PairPlan, PairPlanOptions, draw_pair_plan, pairs_to_compare, write_pair_plan
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.annotate import FormFormat
from medjudge.workflows.compare import models_to_compare


class PairForms(NamedTuple):
    """The forms of a plan of pairs: rater -> file."""

    plan: PairPlan
    files: dict[str, Path]


def export_pairs(
    run: Run, options: PairPlanOptions, form_format: FormFormat = "xlsx", out: Path | None = None
) -> PairForms:
    """Draws a plan of pairs, and writes a form for each rater; the same options write the same forms again.

    Args:
        options: `models` may be empty for all of the run.
        form_format: A workbook for each rater, or projects for Label Studio.
        out: Folder for the forms; None for `annotation/pair_forms/` in the run.

    Raises:
        InputError: A form exists already, the run has another plan, or no plan can be drawn.
    """
    plan = draw_pair_plan(run, options._replace(models=models_to_compare(run, options.models)))
    folder = out or run.path / "annotation" / "pair_forms"
    ending = ".xlsx" if form_format == "xlsx" else "-pairs.json"
    names = {rater: folder / f"{rater}{ending}" for rater in plan.by_rater}
    for file in names.values():
        if file.exists():
            raise InputError(f"{file}: exists already and may be filled in; move it away, or choose another --out")
    write_pair_plan(run, plan)
    for rater, listed in pairs_to_compare(run, plan).items():
        if form_format == "xlsx":
            write_pair_workbook(names[rater], rater, listed)
        else:
            write_pair_project(folder, rater, listed)
    return PairForms(plan, names)


def import_pair_forms(run: Run, files: Sequence[Path], replace: bool = False, accept_valid: bool = False) -> AddedPairs:
    """As `import_pairs`."""
    return import_pairs(run, files, replace, accept_valid)
