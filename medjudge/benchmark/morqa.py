"""Reads the ratings of MEDIQA-EVAL 2026 and MORQA: a long table of experts' ratings of candidate answers."""

from pathlib import Path
from typing import Literal

from medjudge.benchmark.llmeval_med import Oddity
from medjudge.benchmark.published import PublishedSet, empty_set
from medjudge.item_records import ItemScore
from medjudge.records import Answer, PhysicianScore, Question
from medjudge.tables.columns import Problems, read_rows

CATEGORY = "MK"
OVERALL = "overall"
"""The metric that becomes a level, in any spelling that holds this word; the others become verdicts on items."""
LEVELS = {0.0: 1, 0.5: 3, 1.0: 5}
_VERDICTS: dict[float, Literal["met", "not_met"]] = {0.0: "not_met", 0.5: "not_met", 1.0: "met"}
_COLUMNS = (
    "dataset",
    "encounter_id",
    "candidate",
    "candidate_author_id",
    "lang",
    "rater_id",
    "metric",
    "value",
)


def read_morqa(path: Path) -> PublishedSet:
    """Reads one row for each rater, candidate and metric.

    The overall metric becomes the level: 0 is 1, 0.5 is 3, 1 is 5, so that only a full mark is usable. Another metric
    becomes an ItemScore with the metric as the item: 1 is met, 0 and 0.5 are not. The table does not hold the
    questions' texts: the prompts name the encounters until someone fills them in.

    Raises:
        InputError: A column is missing, or a cell has another value.
    """
    read, problems = empty_set(), Problems(path)
    questions: dict[str, Question] = {}
    answers: dict[tuple[str, str], Answer] = {}
    seen: set[tuple[str, ...]] = set()
    for number, cells in read_rows(problems, _COLUMNS):
        place, wrong = f"row {number}", [f"{name}: the cell is empty" for name in _COLUMNS if not cells[name]]
        value = _number(cells["value"])
        if value not in LEVELS and cells["value"]:
            wrong.append(f"value is {cells['value']!r}; 0, 0.5 or 1 is expected")
        if cells["lang"] and cells["lang"].casefold()[:2] not in ("en", "zh"):
            wrong.append(f"lang is {cells['lang']!r}; en or zh is expected")
        name = f"{cells['dataset']}-{cells['encounter_id']}-{cells['lang'].casefold()[:2]}"
        model, rater, metric = cells["candidate_author_id"], cells["rater_id"], cells["metric"]
        if (key := (name, model, rater, metric)) in seen:
            wrong.append(f"rater {rater} rates {metric} of this candidate twice")
        seen.add(key)
        for what in wrong:
            problems.add(place, what)
        if wrong or value is None:
            continue
        questions.setdefault(name, _question(name, cells))
        answers.setdefault((name, model), Answer(question_id=name, model=model, text=cells["candidate"]))
        if OVERALL in metric.casefold():
            read.scores.append(PhysicianScore(question_id=name, model=model, rater=rater, score=LEVELS[value]))
        else:
            verdict = _VERDICTS[value]
            read.items.append(ItemScore(question_id=name, model=model, rater=rater, item=metric, verdict=verdict))
    problems.refuse()
    read.questions.extend(questions.values())
    read.answers.extend(answers.values())
    what = "the table holds no question's text; fill in prompt before a judge reads it"
    read.oddities.extend(Oddity(f"{path}, {name}", what) for name in questions)
    return read


def _question(name: str, cells: dict[str, str]) -> Question:
    prompt = f"Encounter {cells['encounter_id']} of {cells['dataset']}"
    return Question(id=name, category=CATEGORY, group=name, prompt=prompt, language=cells["lang"].casefold()[:2])


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
