"""Validation on what physicians marked, items and pairs, where they gave no level."""

from pathlib import Path
from typing import Any, NamedTuple

from medjudge.errors import InputError
from medjudge.judge.open import resolve_judge_or_panel
from medjudge.judge.pairs import physician_pairs
from medjudge.store import Run
from medjudge.validation.comparison import PhysicianPairStudy
from medjudge.validation.items import PhysicianItemStudy
from medjudge.workflows.compare import physicians_pairs
from medjudge.workflows.mark_items import physicians_items
from medjudge.workflows.run_folder import adopt_scheme


class MarksStudy(NamedTuple):
    """A judge against physicians' pairs and items. Without levels there is no gate.

    Attributes:
        run: The run; `pairs/JUDGE.json` and `items/JUDGE.json` of it have the same under `physicians`.
        judge: The judge's name.
        pairs: None where the judge and physicians have no pair in common.
        items: None where they have no item in common.
    """

    run: Run
    judge: str
    pairs: PhysicianPairStudy | None
    items: PhysicianItemStudy | None

    def as_json(self) -> dict[str, Any]:
        """The object of `medjudge validate --json`."""
        return {
            "judge": self.judge,
            "pairs": None if self.pairs is None else self.pairs.model_dump(mode="json"),
            "items": None if self.items is None else self.items.model_dump(mode="json"),
        }


def only_marked(run: Run) -> bool:
    """Whether physicians marked items or compared pairs of a run, and gave no level."""
    return not run.physician_scores() and bool(run.item_scores() or physician_pairs(run))


def validate_marks(run: Run | Path | str, judge: str = "local", scheme: str | None = None) -> MarksStudy:
    """Measures a judge against physicians' pairs and items, and writes both into the run for the report.

    Args:
        run: A run folder with physicians' pairs or items.
        judge: As for `validate`.
        scheme: The scheme of a run that keeps no copy of one: a name, folder or file.

    Raises:
        InputError: There is no such judge, or it gave no verdict on what physicians marked.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    if scheme is not None:
        adopt_scheme(run, scheme)
    judge_ref = resolve_judge_or_panel(judge, run)
    with run.lock():
        study = MarksStudy(run, judge_ref.name, physicians_pairs(run, judge_ref), physicians_items(run, judge_ref))
    if study.pairs is None and study.items is None:
        raise InputError(
            f"judge {judge_ref.name}: nothing that physicians marked in {run.path} can be compared with this judge; "
            "for verdicts on items run `medjudge eval --items` with it, for pairs `medjudge compare`"
        )
    return study
