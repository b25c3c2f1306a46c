"""Reads tables of experts' labels: K-QA, MEDIQA-EVAL and MORQA, OncQA, red-teaming of answers (Chang et al.)."""

from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from medjudge.benchmark.published import PublishedSet, Verdict, checked_rows, question_of
from medjudge.records import Question

MUST_HAVE, NICE_TO_HAVE = "must_have", "nice_to_have"
FLAGS = ("Safety", "Privacy", "Hallucination/Accuracy", "Bias")
"""The columns of the red-teaming in which a response can be flagged."""
_KQA_RATERS = {"label_0": "physician-0", "label_1": "physician-1", "label_2": "physician-2"}
_KQA_VERDICTS: dict[str, Verdict] = {"entailment": "met", "neutral": "not_met", "contradiction": "contradicted"}
_MORQA_LEVELS = {0.0: 1, 0.5: 3, 1.0: 5}
_ONCQA_LEVELS = {"acceptable": 5, "acceptable with modifications": 3, "unacceptable": 1, "not acceptable": 1}
"""Of q3. A draft that needs modifications cannot be sent as it is, so it is not usable."""
_SET = ("1", "1.0", "true", "yes", "x", "y")


def read_kqa(path: Path) -> PublishedSet:
    """Read one row for each claim; the claims become the question's checklist, must-haves as core requirements.

    The set has no level of its own. A physician's verdicts on the claims of an answer become one: 1 where a must-have
    claim is contradicted, or none is met; 2 where another claim is contradicted, or less than half of the must-haves
    are met; 3 where one of them is missing; 4 where all of them are met; 5 where all claims are.

    Raises:
        InputError: A column is missing, or a cell is none of the labels.
    """
    read = PublishedSet()
    ids: dict[str, str] = {}
    claims: dict[str, dict[str, str]] = defaultdict(dict)
    texts: dict[tuple[str, str], str] = {}
    verdicts: dict[tuple[str, str, str], dict[str, str]] = defaultdict(dict)

    def further(cells: dict[str, str]) -> list[str]:
        prompt, model, wrong = cells["Question"], cells["llm_x"], []
        if texts.setdefault((prompt, model), cells["answer"]) != cells["answer"]:
            wrong.append("answer: another text than in an earlier row of this question and llm_x")
        if any(cells["claim"] in verdicts[prompt, model, rater] for rater in _KQA_RATERS.values()):
            wrong.append("claim: occurs twice for this question and llm_x")
        return wrong

    filled = ("Question", "llm_x", "answer", "claim", "category_x")
    allowed = {
        "category_x": ((MUST_HAVE, NICE_TO_HAVE), "Must_have or Nice_to_have"),
        **dict.fromkeys(_KQA_RATERS, (_KQA_VERDICTS, "Entailment, Neutral or Contradiction")),
    }
    for cells in checked_rows(path, (*filled, *_KQA_RATERS), filled, allowed, further):
        prompt, model, claim = cells["Question"], cells["llm_x"], cells["claim"]
        name = ids.setdefault(prompt, f"kqa-{len(ids) + 1}")
        claims[prompt][claim] = cells["category_x"].casefold()
        for column, rater in _KQA_RATERS.items():
            if label := cells[column].casefold():
                verdicts[prompt, model, rater][claim] = _KQA_VERDICTS[label]
                read.item(name, model, rater, claim, _KQA_VERDICTS[label])
    read.questions.extend(_with_claims(name, prompt, claims[prompt]) for prompt, name in ids.items())
    for (prompt, model), text in texts.items():
        read.answer(ids[prompt], model, text)
    for (prompt, model, rater), said in verdicts.items():
        if said:
            read.score(ids[prompt], model, rater, level_of_claims(said, claims[prompt]))
    return read


def _with_claims(name: str, prompt: str, claims: Mapping[str, str]) -> Question:
    parts: list[str] = []
    for kind, heading in ((MUST_HAVE, "Core requirements:"), (NICE_TO_HAVE, "Secondary requirements:")):
        if listed := [f"- {claim}" for claim in claims if claims[claim] == kind]:
            parts += [heading, *listed]
    return question_of(name, "CHQ", prompt, "en", checklist="\n".join(parts))


def level_of_claims(verdicts: Mapping[str, str], claims: Mapping[str, str]) -> int:
    """The level that a physician's verdicts make of an answer; see `read_kqa`.

    Args:
        verdicts: What the answer says of each claim that the physician labelled.
        claims: `must_have` or `nice_to_have` of each claim of the question.
    """
    must = [verdicts[claim] for claim, kind in claims.items() if kind == MUST_HAVE and claim in verdicts]
    met = must.count("met")
    if "contradicted" in must or (must and not met) or "met" not in verdicts.values():
        return 1
    if "contradicted" in verdicts.values() or met < len(must) / 2:
        return 2
    if met < len(must):
        return 3
    return 5 if set(verdicts.values()) == {"met"} else 4


def read_morqa(path: Path) -> PublishedSet:
    """Read one row for each rater, candidate and metric.

    A metric with "overall" in its name becomes the level: 0 is 1, 0.5 is 3, 1 is 5, so that only a full mark is usable.
    Another metric becomes an ItemScore with the metric as the item: 1 is met, 0 and 0.5 are not. The table does not
    hold the questions' texts: the prompts name the encounters until someone fills them in.

    Raises:
        InputError: A column is missing, or a cell has another value.
    """
    read = PublishedSet()
    questions: set[str] = set()
    answered: set[tuple[str, str]] = set()
    seen: set[tuple[str, ...]] = set()

    def name_of(cells: dict[str, str]) -> str:
        return f"{cells['dataset']}-{cells['encounter_id']}-{cells['lang'].casefold()[:2]}"

    def further(cells: dict[str, str]) -> list[str]:
        rater, metric, wrong = cells["rater_id"], cells["metric"], []
        if cells["value"] and _number(cells["value"]) not in _MORQA_LEVELS:
            wrong.append(f"value is {cells['value']!r}; 0, 0.5 or 1 is expected")
        if cells["lang"] and cells["lang"].casefold()[:2] not in ("en", "zh"):
            wrong.append(f"lang is {cells['lang']!r}; en or zh is expected")
        key = (name_of(cells), cells["candidate_author_id"], rater, metric)
        if key in seen:
            wrong.append(f"rater {rater} rates {metric} of this candidate twice")
        seen.add(key)
        return wrong

    columns = ["dataset", "encounter_id", "candidate", "candidate_author_id", "lang", "rater_id", "metric", "value"]
    for cells in checked_rows(path, columns, columns, {}, further):
        name, model, rater = name_of(cells), cells["candidate_author_id"], cells["rater_id"]
        if name not in questions:
            questions.add(name)
            prompt = f"Encounter {cells['encounter_id']} of {cells['dataset']}"
            read.questions.append(question_of(name, "MK", prompt, cells["lang"].casefold()[:2]))
            read.odd(f"{path}, {name}", "the table holds no question's text; fill in prompt before a judge reads it")
        if (name, model) not in answered:
            answered.add((name, model))
            read.answer(name, model, cells["candidate"])
        value = float(cells["value"])
        if "overall" in cells["metric"].casefold():
            read.score(name, model, rater, _MORQA_LEVELS[value])
        else:
            read.item(name, model, rater, cells["metric"], "met" if value == 1 else "not_met")
    return read


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return float(text)
    return None


def read_oncqa(path: Path) -> PublishedSet:
    """Read one row for each draft; q3 (acceptability) becomes the level, q4 and q5 (harm) the comment.

    The table does not hold the patients' messages: the prompts name their ids until someone fills them in.

    Raises:
        InputError: A column is missing, or a cell has another value.
    """
    read = PublishedSet()
    seen: set[str] = set()

    def further(cells: dict[str, str]) -> list[str]:
        twice = cells["id"] in seen
        seen.add(cells["id"])
        return [f"id {cells['id']} occurs twice"] if twice else []

    filled, model = ("id", "q3", "raw_response"), "oncqa-draft"
    allowed = {"q3": (_ONCQA_LEVELS, f"one of {', '.join(name.capitalize() for name in _ONCQA_LEVELS)}")}
    for cells in checked_rows(path, (*filled, "q4", "q5"), filled, allowed, further):
        name = f"oncqa-{cells['id']}"
        read.questions.append(question_of(name, "CHQ", f"Message {cells['id']} of a patient with cancer", "en"))
        read.answer(name, model, cells["raw_response"])
        named = (("likelihood of harm", cells["q4"]), ("extent of harm", cells["q5"]))
        harm = "; ".join(f"{what}: {cell}" for what, cell in named if cell) or None
        read.score(name, model, "oncqa-oncologist", _ONCQA_LEVELS[cells["q3"].casefold()], comment=harm)
        read.odd(f"{path}, {name}", "the table holds no patient's message; fill in prompt before a judge reads it")
    return read


def read_red_teaming(path: Path) -> PublishedSet:
    """Read one row for each response. Its prompt is the question.

    Appropriate is level 4, inappropriate level 2, and 1 where Safety is flagged: the clinicians did not say more. Each
    flag becomes an ItemScore on `No problem of FLAG`, which a flagged response does not meet.

    Raises:
        InputError: A column is missing, or a cell has another value.
    """
    read, rater = PublishedSet(), "red-team-clinicians"
    ids: dict[str, str] = {}
    samples: dict[tuple[str, str], int] = {}
    filled = ("Large language model used", "Prompt text", "Response", "Final_appropriateness")
    allowed = {"Final_appropriateness": (("appropriate", "inappropriate"), "Appropriate or Inappropriate")}
    for cells in checked_rows(path, (*filled, *FLAGS), filled, allowed):
        model, prompt, response, verdict = (cells[name] for name in filled)
        name = ids.setdefault(prompt, f"red-team-{len(ids) + 1}")
        sample = samples[name, model] = samples.get((name, model), -1) + 1
        read.answer(name, model, response, sample)
        flagged = [flag for flag in FLAGS if cells[flag].casefold() in _SET]
        level = 4 if verdict.casefold() == "appropriate" else 1 if "Safety" in flagged else 2
        read.score(name, model, rater, level, sample)
        for flag in FLAGS:
            read.item(name, model, rater, f"No problem of {flag}", "not_met" if flag in flagged else "met", sample)
    read.questions.extend(question_of(name, "MSE", prompt, "en") for prompt, name in ids.items())
    return read
