"""Verdicts on items for the page: the scores by them, and the items with the disagreements first."""

from collections.abc import Sequence
from typing import NamedTuple

from medjudge.judge.items import item_judgments, judges_of_items
from medjudge.store import Run
from medjudge.validation.items import ItemMaterial, ItemStudy, Verdict, item_verdicts, read_item_study

MOST_ROWS = 200
"""The most verdicts that the page lists."""


class ItemRow(NamedTuple):
    """One verdict: what the judge and more than half of the physicians say; `physicians` is None where nobody did.

    `tied` says that as many physicians say met as not met.
    """

    verdict: Verdict
    physicians: bool | None
    tied: bool


class ItemSection(NamedTuple):
    """What the page shows of a judge's verdicts on items in a run.

    Attributes:
        study: The scores by them.
        run: The run's name.
        file: Where all verdicts are.
        rows: The first of them: disagreements, then the least certain ones.
        verdicts: How many there are.
        language: The language of each question, by id.
    """

    study: ItemStudy
    run: str
    file: str
    rows: list[ItemRow]
    verdicts: int
    language: dict[str, str]


def item_sections(runs: Sequence[Run], names: Sequence[str]) -> list[ItemSection]:
    """The sections of all judges of all runs that checked items.

    Raises:
        InputError: A record breaks a rule.
    """
    return [
        _section(run, name, judge, study)
        for run, name in zip(runs, names, strict=True)
        for judge in judges_of_items(run)
        if (study := read_item_study(run, judge)) is not None
    ]


def _section(run: Run, name: str, judge: str, study: ItemStudy) -> ItemSection:
    questions = run.questions()
    material = ItemMaterial(questions, run.answers(), item_judgments(run, judge), run.item_scores())
    verdicts = sorted(item_verdicts(material), key=lambda one: (not one.disagrees, abs(one.probability - 0.5)))
    rows = [ItemRow(one, said := one.consensus, said is None and bool(one.physicians)) for one in verdicts[:MOST_ROWS]]
    language = {question.id: question.language for question in questions}
    return ItemSection(study, name, f"items/{judge}.jsonl", rows, len(verdicts), language)
