"""Sends forms of items to physicians."""

from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.item_forms import write_item_project, write_item_workbook
from medjudge.annotate.item_plan import ItemPlan, ItemPlanOptions, answers_to_mark, draw_item_plan, write_item_plan
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.annotate import FormFormat


class ItemForms(NamedTuple):
    """The forms of a plan of items: rater -> file."""

    plan: ItemPlan
    files: dict[str, Path]


def export_items(
    run: Run, options: ItemPlanOptions, form_format: FormFormat = "xlsx", out: Path | None = None
) -> ItemForms:
    """Draws a plan of items, and writes a form for each rater; the same options write the same forms again.

    Args:
        form_format: A workbook for each rater, or projects for Label Studio.
        out: Folder for the forms; None for `annotation/item_forms/` in the run.

    Raises:
        InputError: A form exists already, the run has another plan, or no plan can be drawn.
    """
    plan = draw_item_plan(run, options)
    folder = out or run.path / "annotation" / "item_forms"
    ending = ".xlsx" if form_format == "xlsx" else "-items.json"
    names = {rater: folder / f"{rater}{ending}" for rater in plan.by_rater}
    for file in names.values():
        if file.exists():
            raise InputError(f"{file}: exists already and may be filled in; move it away, or choose another --out")
    write_item_plan(run, plan)
    for rater, listed in answers_to_mark(run, plan).items():
        if form_format == "xlsx":
            write_item_workbook(names[rater], rater, listed)
        else:
            write_item_project(folder, rater, listed)
    return ItemForms(plan, names)
