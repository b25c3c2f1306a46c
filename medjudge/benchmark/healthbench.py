"""Reads HealthBench (OpenAI's simple-evals): conversations with rubrics, and its physicians' verdicts on criteria."""

from collections import Counter
from pathlib import Path
from typing import Any

from medjudge.benchmark.llmeval_med import Oddity
from medjudge.benchmark.published import PublishedSet, dialogue, empty_set, field, language_of_text, text_field
from medjudge.files import json_lines
from medjudge.item_records import ItemScore
from medjudge.records import MOST_ITEMS, Answer, Question, RubricItem
from medjudge.tables.columns import Problems

CATEGORY = "MK"
"""HealthBench has themes and no categories; the theme becomes the subcategory."""
MODEL = "healthbench"
"""Who wrote the completions of the meta-evaluation; the file does not say."""


def read_healthbench(path: Path) -> PublishedSet:
    """Reads the conversations and their rubrics; the set has no answers.

    The criteria become the question's items, with their points and their axis as theme; a criterion that is written
    twice in a rubric counts once. They also become its checklist, one a line with its points: what an answer must say
    first, the criteria with negative points behind `Must not:`. Levels are not defined by the set: a judge that reads
    checklists gives them.

    Raises:
        InputError: A line has another layout.
    """
    read, problems = empty_set(), Problems(path)
    for number, fields in json_lines(path):
        place = f"line {number}"
        try:
            name, prompt = text_field(fields, "prompt_id"), dialogue(field(fields, "prompt"))
            items = _items(field(fields, "rubrics"))
        except ValueError as error:
            problems.add(place, str(error))
            continue
        themes = [str(tag).removeprefix("theme:") for tag in fields.get("example_tags") or () if "theme:" in str(tag)]
        first_of = {item.text: number for number, item in reversed(list(enumerate(items)))}
        distinct = [items[number] for number in sorted(first_of.values())]
        if len(distinct) < len(items):
            read.oddities.append(Oddity(f"{path}, {place}", "a criterion occurs twice in the rubric; it counts once"))
        read.questions.append(_question(name, prompt, themes[0] if themes else "", distinct))
    problems.refuse()
    return read


def read_healthbench_meta(path: Path) -> PublishedSet:
    """Reads the meta-evaluation: verdicts of physicians on single criteria of completions.

    Each physician's label becomes an ItemScore: true is met, false is not met. The criteria of a conversation become
    the items of its question; the file gives no points, so each is worth 1. The set scores criteria and no answers, so
    there are no levels.

    Raises:
        InputError: A line has another layout.
    """
    read, problems = empty_set(), Problems(path)
    questions: dict[str, Question] = {}
    criteria: dict[str, dict[str, RubricItem]] = {}
    samples: dict[str, list[str]] = {}
    texts: dict[str, Answer] = {}
    seen: Counter[tuple[str, str, int, str, str]] = Counter()
    for number, fields in json_lines(path):
        place = f"line {number}"
        try:
            name, completion = text_field(fields, "prompt_id"), text_field(fields, "completion_id")
            prompt, criterion = dialogue(field(fields, "prompt")), text_field(fields, "rubric")
            text, labels = text_field(fields, "completion"), _labels(fields)
        except ValueError as error:
            problems.add(place, str(error))
            continue
        theme = str(fields.get("category") or "").removeprefix("cluster:")
        questions.setdefault(name, _question(name, prompt, theme, []))
        criteria.setdefault(name, {}).setdefault(criterion, RubricItem(text=criterion, points=1, theme=theme))
        known = samples.setdefault(name, [])
        if completion not in known:
            known.append(completion)
            texts[completion] = Answer(question_id=name, model=MODEL, sample=len(known) - 1, text=text)
        for rater, met in labels.items():
            item = ItemScore(
                question_id=name,
                model=MODEL,
                sample=known.index(completion),
                rater=f"physician-{rater}",
                item=criterion,
                verdict="met" if met else "not_met",
            )
            seen[item.key] += 1
            if seen[item.key] == 1:
                read.items.append(item)
            else:
                read.oddities.append(Oddity(f"{path}, {place}", "a physician's verdict on this criterion occurs twice"))
    problems.refuse()
    read.questions.extend(
        question.model_copy(update={"items": list(criteria[name].values())[:MOST_ITEMS]})
        for name, question in questions.items()
    )
    read.answers.extend(texts.values())
    return read


def _question(name: str, prompt: str, theme: str, items: list[RubricItem]) -> Question:
    return Question(
        id=name,
        category=CATEGORY,
        subcategory=theme,
        group=name,
        prompt=prompt,
        checklist=_checklist(items) if items else None,
        language=language_of_text(prompt),
        items=items or None,
    )


def _items(rubrics: Any) -> list[RubricItem]:
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
        items.append(RubricItem(text=text_field(rubric, "criterion"), points=float(points), theme=axis))
    return items


def _checklist(items: list[RubricItem]) -> str:
    """The criteria as a checklist, the ones to be met first."""
    wanted = [f"- {item.text} ({item.points:+g})" for item in items if item.points >= 0]
    unwanted = [f"- {item.text} ({item.points:+g})" for item in items if item.points < 0]
    return "\n".join([*wanted, *(["Must not:", *unwanted] if unwanted else [])])


def _labels(fields: dict[str, Any]) -> dict[str, bool]:
    """The label of each physician."""
    labels, raters = field(fields, "binary_labels"), field(fields, "anonymized_physician_ids")
    if not isinstance(labels, list) or not isinstance(raters, list) or len(labels) != len(raters):
        raise ValueError("binary_labels and anonymized_physician_ids need lists of the same length")
    if any(type(label) is not bool for label in labels):
        raise ValueError("binary_labels: true or false is expected")
    return {str(rater): label for rater, label in zip(raters, labels, strict=True)}
