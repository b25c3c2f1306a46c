"""The contents of the pages. All texts are shown as text, and neither models nor judges' scores appear in it."""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from medjudge.annotate.cells import DIMENSIONS
from medjudge.annotate.tasks import Task
from medjudge.annotate.units import Unit
from medjudge.annotate.wording import (
    FormTexts,
    MessageTexts,
    PageTexts,
    VerdictTexts,
    both_languages,
    form_texts,
    page_texts,
)
from medjudge.records import PhysicianScore
from medjudge.rubrics.render import standard
from medjudge.scale import USABLE_FROM
from medjudge.scheme import Scheme
from medjudge.text.markdown import has_markdown, markdown_html

# Characters that a browser obeys without showing them: C0 and C1 controls, and those that change the direction of text,
# which can make "50 mg" look like "05 mg".
_UNSEEN = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    r"\ufdd0\ufdd1\ufeff\ufffe\uffff]"  # the first two mark characters in `_shown`
)


class Choice(NamedTuple):
    """One choice: its value in the form, what the page shows, a class of the style sheet, and the rubric's words."""

    value: str
    text: str
    caption: str = ""
    mark: str = ""
    meaning: str = ""


class Group(NamedTuple):
    """One of several choices to make on a screen: a dimension of a generated text, or an item."""

    field: str
    name: str
    about: str
    refusal: str
    choices: list[Choice]


class Words(NamedTuple):
    """The texts of a task's pages in one language."""

    page: PageTexts
    form: FormTexts
    verdicts: VerdictTexts | None

    @property
    def steps(self) -> list[str]:
        return (self.verdicts or self.form).steps


def words_of(task: Task, unit: Unit, language: str) -> Words:
    """The texts of a task's pages; where scoring says something else, those of its own file."""
    page, form = page_texts(language, unit.languages), form_texts(language, unit.languages)
    if not task.choices:
        return Words(page, form, None)
    own = unit.languages.load(language, task.form_file, VerdictTexts)
    ask = "ask_dimensions" if unit.points else "ask_level"
    changed = {"place": own.place, "scored": own.done, ask: own.ask, "missing_dimensions": own.missing, **own.page}
    return Words(page.model_copy(update=changed), form, own)


def open_units(task: Task, units: Sequence[Unit], records: Mapping[Hashable, Any]) -> list[Unit]:
    """The units that lack a record."""
    return [unit for unit in units if not all(key in records for key in task.keys_of(unit))]


def groups_of(unit: Unit, words: Words) -> list[Group]:
    """The choices to make where there are several: the five dimensions, or the items."""
    own = words.verdicts
    if own is None:
        if not unit.by_dimensions:
            return []
        groups = []
        for field, high in DIMENSIONS.items():
            texts = words.form.dimensions[field]
            points = [Choice(str(number), str(number)) for number in range(high + 1)]
            if field == "safety":  # 0 makes a text unusable, whatever else it has
                points[0] = points[0]._replace(mark="veto")
            groups.append(Group(field, texts.name, texts.meaning, words.page.scale.format(name=texts.name), points))
        return groups
    choices = [Choice(str(key), f"{key} {text}") for key, text in enumerate(own.choices.values(), 1)]
    names = [own.item.format(number=number) for number in range(1, len(unit.points) + 1)]
    return [
        Group(f"item-{place}", name, point, own.refusal.format(name=name), choices)
        for place, (name, point) in enumerate(zip(names, unit.points, strict=True))
    ]


def buttons_of(words: Words, meanings: Mapping[str, str]) -> list[Choice]:
    """The one choice of a screen: a level with its meaning in the category's standard, or the better answer."""
    if words.verdicts is not None:
        return [Choice(str(key), str(key), text) for key, text in enumerate(words.verdicts.choices.values(), 1)]
    return [
        Choice(str(level), str(level), caption, "usable" if level >= USABLE_FROM else "", meanings.get(str(level), ""))
        for level, caption in words.page.captions.items()
    ]


def page_language(task: Task, units: Sequence[Unit], wanted: Sequence[str]) -> str:
    """The language of all of a rater's pages: the first wanted one that there is, or that of the first question."""
    codes = _codes(task, units[0])
    return next((code for code in wanted if code in codes), units[0].question.language)


def _codes(task: Task, unit: Unit) -> list[str]:
    known = unit.languages.codes(task.form_file)
    return [code for code in unit.scheme.languages if code in known]


def switches(task: Task, unit: Unit, language: str) -> list[tuple[str, PageTexts]]:
    """The other languages that a page may have, with their texts."""
    return [(code, page_texts(code, unit.languages)) for code in _codes(task, unit) if code != language]


def message_page(name: str, status: int) -> HTMLResponse:
    """A page with a message of `page_messages.yaml` in English and Chinese; `opening` continues to the answers."""
    messages = both_languages("page_messages.yaml", MessageTexts)
    return HTMLResponse(page_template("message.html").render(messages=messages, name=name), status)


def rubric_of(category: str, language: str, scheme: Scheme) -> tuple[str, list[tuple[str, str]]]:
    """The note and the levels, each with its meaning, of a category's standard, which is the judge's own."""
    body = standard(category, language, scheme)[1]
    note = " ".join(line for line in body.splitlines() if line and not line.startswith("- "))
    return note, re.findall(r"^- ([1-5])[^:：]*[:：]\s*(.+)$", body, re.MULTILINE)


def chosen_of(task: Task, unit: Unit, records: Mapping[Hashable, Any]) -> dict[str, int]:
    """The choices that a page shows: the field of the form -> its value."""
    values, keys, chosen = list(task.choices), task.keys_of(unit), {}
    for name, row, field in task.form(unit):
        record = records.get(keys[row])
        if record is None:
            continue
        if values:
            chosen[name] = 1 + values.index(getattr(record, field))
            if task.name == "pairs" and record.first != unit.item.keys[0].model:
                chosen[name] = 4 - chosen[name]  # the record has the answers the other way round
        elif field == "score":
            chosen[name] = record.level
        elif record.dimensions:  # a generated text that was scored elsewhere may have only a level
            chosen[name] = getattr(record.dimensions, field)
    return chosen


def records_from(task: Task, unit: Unit, rater: str, chosen: Mapping[str, int], comment: str) -> list[Any]:
    """The records of a form that a page sent.

    Raises:
        ValueError: A choice is missing, or none of those offered.
    """
    values = dict(enumerate(task.choices, 1))
    rows: dict[int, dict[str, object]] = {}
    for name, row, field in task.form(unit):
        given = chosen.get(name)
        rows.setdefault(row, {"comment": comment})[field] = values.get(given or 0) if values else given
    return [task.record(unit, row, rater, filled) for row, filled in rows.items()]


def without_names(scores: Sequence[PhysicianScore], words: FormTexts) -> list[tuple[str, str]]:
    """Scores and comments of other raters, the lowest first, so that their order tells nothing."""
    shown = []
    for score in sorted(scores, key=lambda score: (score.level, score.comment or "")):
        points = score.dimensions.model_dump() if score.dimensions else {}
        values = [f"{words.dimensions[name].name} {value}" for name, value in points.items()]
        shown.append((" · ".join(values) or str(score.level), score.comment or ""))
    return shown


def progress_of(task: Task, units: Sequence[Unit], records: Mapping[Hashable, Any]) -> list[dict[str, Any]]:
    """The progress in each category that a rater has work in."""
    progress = []
    for category in units[0].scheme.category_ids:
        of_category = [unit for unit in units if unit.question.category == category]
        if of_category:
            done = len(of_category) - len(open_units(task, of_category, records))
            progress.append({"category": category, "done": done, "total": len(of_category)})
    return progress


@cache
def page_template(name: str) -> Template:
    """A template of `page/`, with the filters that show texts as text, and Markdown as HTML where there is any."""
    loader = PackageLoader("medjudge.annotate", "page")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["literal"] = lambda text: _shown(text, escape)
    environment.filters["rendered"] = lambda text: _shown(text, markdown_html) if has_markdown(text) else None
    return environment.get_template(name)


def _shown(text: str, as_html: Callable[[str], str]) -> Markup:
    """A text as HTML in which characters that would act unseen appear as their number."""
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    marked = _UNSEEN.sub(lambda match: f"\ufdd0{ord(match[0]):04X}\ufdd1", plain)
    return Markup(re.sub("\ufdd0([0-9A-F]{4})\ufdd1", r'<span class="unseen">U+\1</span>', str(as_html(marked))))
