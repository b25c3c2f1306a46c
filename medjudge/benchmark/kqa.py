"""Reads the annotators' files of K-QA: claims of expected answers, and what a model's answer says of each."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from medjudge.benchmark.published import PublishedSet, empty_set
from medjudge.item_records import ItemScore
from medjudge.records import Answer, PhysicianScore, Question
from medjudge.tables.columns import Problems, read_rows

CATEGORY, LANGUAGE = "CHQ", "en"
RATERS = {"label_0": "physician-0", "label_1": "physician-1", "label_2": "physician-2"}
MUST_HAVE, NICE_TO_HAVE = "must_have", "nice_to_have"
_COLUMNS = ("Question", "llm_x", "answer", "claim", "category_x", *RATERS)
_VERDICTS: dict[str, Literal["met", "not_met", "contradicted"]] = {
    "entailment": "met",
    "neutral": "not_met",
    "contradiction": "contradicted",
}


def read_kqa(path: Path) -> PublishedSet:
    """Reads one row for each claim; the claims become the question's checklist, must-haves as core requirements.

    The set has no level of its own. A physician's verdicts on the claims of an answer become one: 1 where a must-have
    claim is contradicted, or none is met; 2 where another claim is contradicted, or less than half of the must-haves
    are met; 3 where one of them is missing; 4 where all of them are met; 5 where all claims are.

    Raises:
        InputError: A column is missing, or a cell is none of the labels.
    """
    read, problems = empty_set(), Problems(path)
    ids: dict[str, str] = {}
    claims: dict[str, dict[str, str]] = defaultdict(dict)
    answers: dict[tuple[str, str], str] = {}
    verdicts: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)
    for number, cells in read_rows(problems, _COLUMNS):
        prompt, model, claim = cells["Question"], cells["llm_x"], cells["claim"]
        wrong = _wrong(cells)
        if answers.setdefault((prompt, model), cells["answer"]) != cells["answer"]:
            wrong.append("answer: another text than in an earlier row of this question and llm_x")
        if any(claim in verdicts[prompt, model, rater] for rater in RATERS.values()):
            wrong.append("claim: occurs twice for this question and llm_x")
        for what in wrong:
            problems.add(f"row {number}", what)
        if wrong:
            continue
        name = ids.setdefault(prompt, f"kqa-{len(ids) + 1}")
        claims[prompt][claim] = cells["category_x"].casefold()
        for column, rater in RATERS.items():
            if label := cells[column].casefold():
                verdict = _VERDICTS[label]
                verdicts[prompt, model, rater][claim] = verdict
                read.items.append(ItemScore(question_id=name, model=model, rater=rater, item=claim, verdict=verdict))
    problems.refuse()
    read.questions.extend(_question(name, prompt, claims[prompt]) for prompt, name in ids.items())
    for (prompt, model), text in answers.items():
        read.answers.append(Answer(question_id=ids[prompt], model=model, text=text))
    for (prompt, model, rater), said in verdicts.items():
        if said:
            level = level_of_claims(said, claims[prompt])
            read.scores.append(PhysicianScore(question_id=ids[prompt], model=model, rater=rater, score=level))
    return read


def _wrong(cells: dict[str, str]) -> list[str]:
    """What is wrong with the cells of a row."""
    wrong = [f"{name}: the cell is empty" for name in ("Question", "llm_x", "answer", "claim") if not cells[name]]
    if cells["category_x"].casefold() not in (MUST_HAVE, NICE_TO_HAVE):
        wrong.append(f"category_x is {cells['category_x']!r}; Must_have or Nice_to_have is expected")
    for column in RATERS:
        if cells[column] and cells[column].casefold() not in _VERDICTS:
            wrong.append(f"{column} is {cells[column]!r}; Entailment, Neutral or Contradiction is expected")
    return wrong


def _question(name: str, prompt: str, claims: dict[str, str]) -> Question:
    core = [f"- {claim}" for claim, kind in claims.items() if kind == MUST_HAVE]
    secondary = [f"- {claim}" for claim, kind in claims.items() if kind == NICE_TO_HAVE]
    parts = [
        *(["Core requirements:", *core] if core else []),
        *(["Secondary requirements:", *secondary] if secondary else []),
    ]
    return Question(
        id=name, category=CATEGORY, group=name, prompt=prompt, checklist="\n".join(parts), language=LANGUAGE
    )


def level_of_claims(verdicts: Mapping[str, str], claims: Mapping[str, str]) -> int:
    """The level that a physician's verdicts make of an answer; see `read_kqa`.

    Args:
        verdicts: What the answer says of each claim that the physician labelled.
        claims: `must_have` or `nice_to_have` of each claim of the question.
    """
    must = [verdicts[claim] for claim, kind in claims.items() if kind == MUST_HAVE and claim in verdicts]
    met = sum(verdict == "met" for verdict in must)
    if "contradicted" in must or (must and not met) or "met" not in verdicts.values():
        return 1
    if "contradicted" in verdicts.values() or met < len(must) / 2:
        return 2
    if met < len(must):
        return 3
    return 5 if all(verdict == "met" for verdict in verdicts.values()) else 4
