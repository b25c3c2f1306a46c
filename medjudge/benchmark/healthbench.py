"""Reads HealthBench (OpenAI's simple-evals): conversations with rubrics, and its physicians' verdicts on criteria."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.published import PublishedSet, language_of_text, question_of, sound_entries, text_of, value_of
from medjudge.files import json_lines
from medjudge.records import MOST_ITEMS, Question, RubricItem

CATEGORY = "MK"
"""HealthBench has themes and no categories; the theme becomes the subcategory."""
MODEL = "healthbench"
"""The writer of the completions of the meta-evaluation, whom the file does not name."""


class _Verdicts(NamedTuple):
    """A line of the meta-evaluation: physicians' labels of one criterion of one completion."""

    name: str
    completion: str
    criterion: str
    text: str
    prompt: str
    theme: str
    labels: dict[str, bool]


def read_healthbench(path: Path) -> PublishedSet:
    """Read the conversations and their rubrics; the set has no answers.

    The criteria become the question's items, with their points and their axis as theme; a criterion that is written
    twice in a rubric counts once. They also become its checklist, one a line with its points: what an answer must say
    first, the criteria with negative points behind `Must not:`. Levels are not defined by the set: a judge that reads
    checklists gives them.

    Raises:
        InputError: A line has another layout.
    """
    read = PublishedSet()

    def conversation(fields: Any) -> tuple[Question, bool]:
        name, prompt = text_of(fields, "prompt_id"), _dialogue(value_of(fields, "prompt"))
        items = _criteria(value_of(fields, "rubrics"))
        distinct = sorted({item.text: item for item in items[::-1]}.values(), key=items.index)
        themes = [str(tag).removeprefix("theme:") for tag in fields.get("example_tags") or () if "theme:" in str(tag)]
        return _question(name, prompt, themes[0] if themes else "", distinct), len(distinct) < len(items)

    for place, (question, twice) in sound_entries(path, _lines(path), conversation):
        read.questions.append(question)
        if twice:
            read.odd(f"{path}, {place}", "a criterion occurs twice in the rubric; it counts once")
    return read


def read_healthbench_meta(path: Path) -> PublishedSet:
    """Read the meta-evaluation: verdicts of physicians on single criteria of completions.

    Each physician's label becomes an ItemScore: true is met, false is not met. The criteria of a conversation become
    the items of its question; the file gives no points, so each is worth 1. The set scores criteria and no answers, so
    there are no levels.

    Raises:
        InputError: A line has another layout.
    """
    read = PublishedSet()
    questions: dict[str, Question] = {}
    criteria: dict[str, dict[str, RubricItem]] = {}
    samples: dict[str, list[str]] = {}
    seen: set[tuple[str, ...]] = set()

    def verdicts(fields: Any) -> _Verdicts:
        name, completion, criterion, text = (
            text_of(fields, each) for each in ("prompt_id", "completion_id", "rubric", "completion")
        )
        theme = str(fields.get("category") or "").removeprefix("cluster:")
        return _Verdicts(
            name, completion, criterion, text, _dialogue(value_of(fields, "prompt")), theme, _labels(fields)
        )

    for place, entry in sound_entries(path, _lines(path), verdicts):
        name, completion, criterion, text, prompt, theme, labels = entry
        questions.setdefault(name, _question(name, prompt, theme, []))
        criteria.setdefault(name, {}).setdefault(criterion, RubricItem(text=criterion, points=1, theme=theme))
        known = samples.setdefault(name, [])
        if completion not in known:
            known.append(completion)
            read.answer(name, MODEL, text, len(known) - 1)
        for rater, met in labels.items():
            if (key := (name, completion, rater, criterion)) in seen:
                read.odd(f"{path}, {place}", "a physician's verdict on this criterion occurs twice")
                continue
            seen.add(key)
            sample = known.index(completion)
            read.item(name, MODEL, f"physician-{rater}", criterion, "met" if met else "not_met", sample)
    read.questions.extend(
        question.model_copy(update={"items": list(criteria[name].values())[:MOST_ITEMS]})
        for name, question in questions.items()
    )
    return read


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    return ((f"line {number}", fields) for number, fields in json_lines(path))


def _question(name: str, prompt: str, theme: str, items: list[RubricItem]) -> Question:
    lines = [(item.points < 0, f"- {item.text} ({item.points:+g})") for item in items]
    wanted, unwanted = ([line for negative, line in lines if negative is side] for side in (False, True))
    checklist = "\n".join([*wanted, *(["Must not:", *unwanted] if unwanted else [])])
    return question_of(
        name,
        CATEGORY,
        prompt,
        language_of_text(prompt),
        subcategory=theme,
        checklist=checklist or None,
        items=items or None,
    )


def _criteria(rubrics: Any) -> list[RubricItem]:
    """The criteria in their order."""
    if not isinstance(rubrics, list) or not rubrics:
        raise ValueError("rubrics needs a list of objects with criterion and points")
    if len(rubrics) > MOST_ITEMS:
        raise ValueError(f"rubrics has {len(rubrics)} criteria, and a question has at most {MOST_ITEMS}")
    items = []
    for number, rubric in enumerate(rubrics, 1):
        points = rubric.get("points") if isinstance(rubric, dict) else None
        if not isinstance(points, (int, float)) or isinstance(points, bool):
            raise ValueError(f"rubrics, criterion {number}: every criterion needs its points, a number")
        tags = [str(tag) for tag in rubric.get("tags") or ()]
        axis = next((tag.removeprefix("axis:") for tag in tags if tag.startswith("axis:")), "")
        items.append(RubricItem(text=text_of(rubric, "criterion"), points=float(points), theme=axis))
    return items


def _labels(fields: dict[str, Any]) -> dict[str, bool]:
    """The label of each physician."""
    labels, raters = value_of(fields, "binary_labels"), value_of(fields, "anonymized_physician_ids")
    if not isinstance(labels, list) or not isinstance(raters, list) or len(labels) != len(raters):
        raise ValueError("binary_labels and anonymized_physician_ids need lists of the same length")
    if any(type(label) is not bool for label in labels):
        raise ValueError("binary_labels: true or false is expected")
    return {str(rater): label for rater, label in zip(raters, labels, strict=True)}


def _dialogue(messages: Any) -> str:
    """A list of messages as one prompt: a single one as it is, several with who says what."""
    listed = messages if isinstance(messages, list) else []
    texts = [
        message.get(name) if isinstance(message, dict) else None for message in listed for name in ("role", "content")
    ]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise ValueError("prompt needs a list of messages with role and content")
    turns = [(message["role"].capitalize(), message["content"].strip()) for message in listed]
    return turns[0][1] if len(turns) == 1 else "\n\n".join(f"{role}: {content}" for role, content in turns)
