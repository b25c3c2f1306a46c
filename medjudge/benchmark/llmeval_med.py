"""Reads LLMEval-Med's `dataset.json` as it was released, and the scored files that its Evaluate.py writes."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.published import Oddity, PublishedSet, read_entries
from medjudge.errors import InputError
from medjudge.files import read_json
from medjudge.records import AnswerKey, Question
from medjudge.rubrics.verdict import read_verdict
from medjudge.scheme import LLMEVAL_MED, Scheme

LANGUAGE = "zh"
"""The format's language: its categories go by their titles in it."""
_TEXT_FIELDS = ("category2", "scene", "difficulty", "sanswer", "checklist")
_LONG_PROMPT = 8000
_MOST_ROUNDS = 100
_LISTED = 5
"""The most missing rounds of a conversation that are listed."""

_WITHOUT = {
    "sanswer": "these are judged without a reference; a similarity judge leaves them unscored",
    "checklist": "these are judged without a checklist, so a judge that reads one knows less about them",
}


class Benchmark(NamedTuple):
    """The questions of a file, what was odd about it, and the scheme that the questions belong to."""

    questions: list[Question]
    oddities: list[Oddity]
    scheme: Scheme = LLMEVAL_MED


def read_llmeval_med(path: Path, scheme: Scheme = LLMEVAL_MED) -> Benchmark:
    """Read a benchmark in LLMEval-Med's format: one object, Chinese category name -> list of questions.

    Bare NaN and missing keys become null, numbers become text; each is an oddity with its place.

    Raises:
        InputError: The file has another shape, a question lacks its prompt, or a question occurs twice.
    """
    questions: list[Question] = []
    oddities: list[Oddity] = []
    _read(path, scheme, oddities, lambda fields, question, place: questions.append(question))
    return Benchmark(questions, oddities + missing_turns(path, questions), scheme)


def read_llmeval_scores(paths: list[Path], model: str, judge: str, scheme: Scheme = LLMEVAL_MED) -> PublishedSet:
    """Read files that Evaluate.py wrote: `model_answer`, `model_answer_score` and `model_answer_judgement`.

    Several files are several judging runs, as for the benchmark's own Aggregate.py: where a file has another answer to
    a question it is a further sample, where it has the same answer it is a further round of judging.

    Raises:
        InputError: As for `read_llmeval_med`; or an entry has no `model_answer` or a score that is not a number.
    """
    read = PublishedSet()
    samples: dict[str, list[str]] = {}
    rounds: Counter[AnswerKey] = Counter()

    def add(fields: dict[str, Any], question: Question, place: str) -> None:
        text, (level, problem) = fields.get("model_answer"), _level(fields.get("model_answer_score"))
        if not isinstance(text, str):
            raise ValueError("model_answer is missing or not text; give a file that Evaluate.py wrote")
        if question.id not in samples:
            read.questions.append(question)
        texts = samples.setdefault(question.id, [])
        if text not in texts:
            texts.append(text)
        key = read.answer(question.id, model, text, texts.index(text))
        rounds[key] += 1
        if problem:
            read.odd(place, problem)
        reply = fields.get("model_answer_judgement")
        reply = reply if isinstance(reply, str) and reply else None
        verdict = read_verdict(reply).score if reply else None
        if None not in (level, verdict) and verdict != level:
            read.odd(place, f"recorded score {level}, but the judge's reply ends in the verdict {verdict}")
        read.judgment(key, level, f"no score in the file: {problem}", reply, judge, rounds[key])

    for path in paths:
        _read(path, scheme, [], add)
    return read


def _level(value: Any) -> tuple[int | None, str]:
    """The level that a recorded score becomes, None for none, and what is wrong with it.

    Evaluate.py writes the digits of the first `[n]` as text, -1 for no match, and "" for a failed call.
    """
    if value in (None, "", -1, "-1"):
        return None, "model_answer_score is empty or -1"
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"model_answer_score is {value!r}; a number 0-5, -1 or an empty text is expected") from None
    if not 0 <= number <= 5:
        return None, f"model_answer_score {value} is outside 0-5"
    if number != int(number):
        raise ValueError(f"model_answer_score is {value!r}; the judge gives whole numbers only")
    if number == 0:
        # The rubric starts at 1, Aggregate.py counts from 0. Level 1 makes the same questions usable over up to three
        # runs: with a 0 or a 1 among them, no mean of three reaches 4.
        return 1, "model_answer_score 0, read as 1, the lowest level of the rubric"
    return int(number), ""


def _read(path: Path, scheme: Scheme, oddities: list[Oddity], add: Callable[[Any, Question, str], None]) -> None:
    """Read a file: `add` takes the fields of each entry, the question in it, and its place; `oddities` gets more."""
    seen: dict[str, str] = {}
    category_ids = {each.title[LANGUAGE]: each.id for each in scheme.categories if LANGUAGE in each.title}
    data = read_json(path, surrogates=True)  # refused below, where the question can be named
    if not isinstance(data, dict) or not data:
        expected = "one object with a list for each category is expected"
        raise InputError(f"{path}: {expected}, as in LLMEval-Med's dataset.json")
    if unknown := [name for name in data if name not in category_ids]:
        raise InputError(f"{path}: unknown category '{unknown[0]}'; known are {', '.join(category_ids)}")
    for name, items in data.items():
        if not isinstance(items, list):
            raise InputError(f"{path}, '{name}': a list of questions is expected")

    def entry(named: tuple[str, Any], place: str) -> None:
        name, item = named
        question = _question(item, name, category_ids[name], place, oddities)
        if question.id in seen:
            code = f"groupCode {item['groupCode']}, round {item['round']}"
            raise ValueError(f"{code} duplicates {seen[question.id]}; remove one of the two")
        seen[question.id] = place
        add(item, question, place)

    numbered = ((f"{name}[{index}]", (name, item)) for name, items in data.items() for index, item in enumerate(items))
    read_entries(path, numbered, entry)


def _question(item: Any, name: str, category: str, place: str, oddities: list[Oddity]) -> Question:
    if not isinstance(item, dict):
        raise ValueError("an object is expected")
    for field in ("problem", "groupCode", "round"):
        if _nothing(item.get(field)):
            raise ValueError(f"{field} is missing or empty; every question needs one")
    if type(item["round"]) is not int or not 1 <= item["round"] <= _MOST_ROUNDS:
        raise ValueError(f"round is {item['round']!r}; a whole number from 1 to {_MOST_ROUNDS} is expected")
    texts = {field: _text(item, field, place, oddities) for field in _TEXT_FIELDS}
    prompt = str(item["problem"])
    if not isinstance(item["problem"], str):
        oddities.append(Oddity(place, "problem is not text; read as text"))
    if len(prompt) > _LONG_PROMPT:
        means = "a judge may have to cut these prompts; each judgment counts the tokens that it left out"
        oddities.append(Oddity(place, f"prompt of {len(prompt):,} characters", means))
    stated = item.get("category1")
    if stated != name:
        what = f"category1 is '{stated}', and the question is listed under '{name}', which counts"
        oddities.append(Oddity(place, what))
    group = f"{category}-{item['groupCode']}"  # groupCode alone is unique only within a category
    return Question(
        id=f"{group}-{item['round']}",
        category=category,
        subcategory=texts["category2"] or "",
        scene=texts["scene"] or "",
        difficulty=texts["difficulty"] or "",
        group=group,
        round=item["round"],
        prompt=prompt,
        reference=texts["sanswer"],
        checklist=texts["checklist"],
        language=LANGUAGE,
    )


def _text(item: dict[str, Any], field: str, place: str, oddities: list[Oddity]) -> str | None:
    value = item.get(field)
    if _nothing(value):
        what = "missing" if field not in item else "NaN" if isinstance(value, float) else "empty"
        oddities.append(Oddity(place, f"{field} is {what}", means=_WITHOUT.get(field, "")))
        return None
    if not isinstance(value, str):
        oddities.append(Oddity(place, f"{field} is the number {value}; read as text"))
    return str(value)


def _nothing(value: Any) -> bool:
    return value is None or value != value or (isinstance(value, str) and not value.strip())  # NaN is not itself


def missing_turns(path: Path, questions: list[Question]) -> list[Oddity]:
    """Conversations that lack earlier turns."""
    rounds: dict[str, set[int]] = {}
    for question in questions:
        rounds.setdefault(question.group, set()).add(question.round)
    oddities = []
    for group, present in rounds.items():
        if missing := sorted({*range(1, max(present))} - present):
            more = f" and {len(missing) - _LISTED} more" if len(missing) > _LISTED else ""
            what = f"the conversation lacks round {', '.join(map(str, missing[:_LISTED]))}{more}"
            means = "these conversations are judged without the missing turns"
            oddities.append(Oddity(f"{path}, {group}", what, means))
    return oddities
