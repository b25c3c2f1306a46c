"""What a judge's verdicts on items say: `items/JUDGE.json`, and a part of `agreement/JUDGE.json`.

`medjudge.validation.items` fills these records. They live here because studies hold them.
"""

from pydantic import BaseModel, ConfigDict

from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_text
from medjudge.judge.alt_test_study import AltTestResult
from medjudge.judge.items import item_study_file
from medjudge.records import Importance
from medjudge.statistics.estimates import Estimate
from medjudge.store import Run


class _Model(BaseModel):
    # Fields that a later version adds are ignored.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class ModelItems(_Model):
    """A model's answers by their items.

    Attributes:
        model: Its name.
        answers: The answers with verdicts.
        share: The mean share of points, clipped to 0..1.
        levels: The number of answers at each level, level 1 first; of questions with core items.
        usable: The share of these at a usable level; None where no question has core items.
    """

    model: str
    answers: int
    share: Estimate
    levels: list[int]
    usable: Estimate | None


class ThemeItems(_Model):
    """Items of one theme, or of one importance where they have no theme: how many verdicts, and the share met."""

    theme: str
    verdicts: int
    met: Estimate


class ItemAgreement(_Model):
    """Agreement of two sides on the same items of the same answers; see `statistics.item_agreement`."""

    verdicts: int
    answers: int
    agreement: Estimate
    kappa: Estimate
    macro_f1: Estimate


class AgreementOnItem(_Model):
    """One item over the answers to its question; kappa is None where one verdict was given throughout.

    There are no intervals: all verdicts on an item come from one conversation, which leaves nothing to resample.
    """

    question_id: str
    item: str
    theme: str
    importance: Importance | None
    verdicts: int
    disagreements: int
    kappa: float | None
    macro_f1: float | None


class PhysicianItemStudy(_Model):
    """A judge's verdicts on items against physicians'.

    Attributes:
        raters: Their names.
        constructed: Whether the verdicts were written with the answers, by no physician.
        judge: The judge against the verdict of more than half of the raters; an item on which they tie is left out.
        by_theme: The same by theme.
        by_item: The same by item, the ones with the most disagreements first.
        among: Physicians with each other; None where no item has two raters.
        alt_test: Whether the judge could take a physician's place; None where no item has two raters.
    """

    raters: list[str]
    constructed: bool
    judge: ItemAgreement
    by_theme: dict[str, ItemAgreement]
    by_item: list[AgreementOnItem]
    among: ItemAgreement | None
    alt_test: AltTestResult | None


class ItemStudy(_Model):
    """The scores of a run by items, and the judge against physicians.

    Attributes:
        judge: The judge's name.
        questions: The questions with items.
        items: The items of all these questions.
        answers: The answers that were to be checked.
        judged: The answers with verdicts.
        unjudged: Reasons for none, with how often each occurs.
        models: A row for each model, the highest share of points first.
        themes: A row for each theme.
        physicians: None where nobody marked items.
    """

    judge: str
    questions: int
    items: int
    answers: int
    judged: int
    unjudged: dict[str, int]
    models: list[ModelItems]
    themes: list[ThemeItems]
    physicians: PhysicianItemStudy | None = None


def read_item_study(run: Run, judge: str) -> ItemStudy | None:
    """The item scores of a judge that `medjudge eval --items` wrote into a run; None where there are none.

    Raises:
        InputError: The file is no such study.
    """
    file = item_study_file(run, judge)
    if not file.exists():
        return None
    try:
        return model_from_json(ItemStudy, read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: {first_problem(error)}; run `medjudge eval --items` again") from None
