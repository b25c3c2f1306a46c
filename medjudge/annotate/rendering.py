"""The HTML of the scoring page. All texts are shown as text, and neither models nor judges' scores appear in it."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from medjudge.annotate.cells import DIMENSIONS
from medjudge.annotate.items import ToScore
from medjudge.annotate.wording import FormTexts, form_texts, page_texts
from medjudge.records import AnswerKey, PhysicianScore
from medjudge.rubrics.render import standard
from medjudge.scale import USABLE_FROM
from medjudge.scheme import Scheme
from medjudge.text.markdown import has_markdown, markdown_html

# Characters that a browser obeys without showing them: C0 and C1 controls, and those that change the direction of text,
# which can make "50 mg" look like "05 mg".
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


class CategoryProgress(NamedTuple):
    """How many of a category's answers have the rater's score."""

    category: str
    done: int
    total: int


class Dimension(NamedTuple):
    """One of the five dimensions of a generated text: 0 to `high`."""

    field: str
    name: str
    meaning: str
    high: int

    @property
    def veto(self) -> bool:
        """Whether 0 makes a text unusable, whatever else it has."""
        return self.field == "safety"


class Rubric(NamedTuple):
    """What the levels mean in one category: the judge's own standard."""

    note: str
    levels: list[tuple[str, str]]


class Draft(NamedTuple):
    """What was sent and could not be saved, and why."""

    chosen: Mapping[str, int] | None = None
    comment: str = ""
    message: str = ""


class View(NamedTuple):
    """What a page shows beside the answer.

    Attributes:
        saved: The id of the item whose score was saved just before; empty for none.
        draft: What could not be saved.
        language: The language of the page; that of the question unless set.
        seconds_left: How long the open answers will take; None where that is not known yet.
        others: Scores of other raters that this one is to settle.
    """

    saved: str = ""
    draft: Draft = Draft()
    language: str | None = None
    seconds_left: float | None = None
    others: Sequence[PhysicianScore] = ()


def answer_page(
    items: Sequence[ToScore],
    number: int,
    rater: str,
    scores: Mapping[AnswerKey, PhysicianScore],
    view: View = View(),
) -> str:
    """The page of one answer.

    Args:
        items: All of the rater's items, in the rater's order.
        number: The index of the answer in `items`.
        scores: The rater's scores so far.
    """
    entry = items[number]
    score = scores.get(entry.item.key)
    languages, draft = entry.languages, view.draft
    language = page_language(entry, view.language)
    saved_number = next((index + 1 for index, other in enumerate(items) if other.item.id == view.saved), None)
    return page_template("screen.html").render(
        words=page_texts(language, languages),
        text_language=page_texts(entry.question.language, languages).lang,
        switches=[(code, page_texts(code, languages)) for code in entry.scheme.languages if code != language],
        minutes_left=None if view.seconds_left is None else max(1, round(view.seconds_left / 60)),
        others=_without_names(view.others, _dimensions(form_texts(language, languages))),
        titles=_titles(items, language),
        rater=rater,
        item=entry.item.id,
        number=number + 1,
        total=len(items),
        done=sum(other.item.key in scores for other in items),
        progress=_progress(items, scores),
        question=entry.question,
        earlier=entry.earlier,
        answer=entry.answer,
        rubric=rubric_of(entry.question.category, language, entry.scheme),
        dimensions=_dimensions(form_texts(language, languages)) if entry.by_dimensions else None,
        steps=form_texts(language, languages).steps,
        usable_from=USABLE_FROM,
        score=score,
        chosen=_chosen(entry, score) if draft.chosen is None else draft.chosen,
        comment=draft.comment or (score.comment if score else None) or "",
        back=items[number - 1].item.id if number else None,
        forward=items[number + 1].item.id if number + 1 < len(items) else None,
        saved=saved_number and {"item": view.saved, "number": saved_number},
        message=draft.message,
    )


def page_language(entry: ToScore, wanted: str | None) -> str:
    """The language of a page: the wanted one, or that of the question."""
    return wanted if wanted in entry.scheme.languages else entry.question.language


def missing_dimensions(entry: ToScore, chosen: Mapping[str, int], language: str | None) -> str:
    """What a form says where dimensions have no score."""
    page = page_language(entry, language)
    dimensions = _dimensions(form_texts(page, entry.languages))
    names = [dimension.name for dimension in dimensions if dimension.field not in chosen]
    return page_texts(page, entry.languages).missing_dimensions.format(names=", ".join(names))


def end_page(
    items: Sequence[ToScore],
    rater: str,
    scores: Mapping[AnswerKey, PhysicianScore],
    command: str,
    wanted: str | None = None,
) -> str:
    """The page after the last answer; `command` is what comes next here, if anything."""
    language = page_language(items[0], wanted)
    return page_template("end.html").render(
        words=page_texts(language, items[0].languages),
        titles=_titles(items, language),
        rater=rater,
        total=len(items),
        progress=_progress(items, scores),
        command=command,
        review=items[0].item.id,
    )


def message_page(text: str, status: int, go_on: bool = False) -> HTMLResponse:
    """A page with one sentence; with `go_on` it continues to the answers."""
    return HTMLResponse(page_template("message.html").render(message=text, go_on=go_on), status)


def rubric_of(category: str, language: str, scheme: Scheme) -> Rubric:
    """The levels of a category's standard."""
    body = standard(category, language, scheme)[1]
    note = " ".join(line for line in body.splitlines() if line and not line.startswith("- "))
    return Rubric(note, re.findall(r"^- ([1-5])[^:：]*[:：]\s*(.+)$", body, re.MULTILINE))


def _chosen(entry: ToScore, score: PhysicianScore | None) -> dict[str, int]:
    """What the form shows as chosen. A generated text that was scored elsewhere may have only a level."""
    if score is None:
        return {}
    if entry.by_dimensions:
        return score.dimensions.model_dump() if score.dimensions else {}
    return {"score": score.level}


def _without_names(scores: Sequence[PhysicianScore], dimensions: Sequence[Dimension]) -> list[tuple[str, str]]:
    """Scores and comments of other raters, the lowest first, so that their order tells nothing."""
    shown = []
    for score in sorted(scores, key=lambda score: (score.level, score.comment or "")):
        points = score.dimensions.model_dump() if score.dimensions else {}
        values = [f"{dimension.name} {points[dimension.field]}" for dimension in dimensions] if points else []
        shown.append((" · ".join(values) or str(score.level), score.comment or ""))
    return shown


def _progress(items: Sequence[ToScore], scores: Mapping[AnswerKey, PhysicianScore]) -> list[CategoryProgress]:
    progress = []
    for category in items[0].scheme.category_ids:
        keys = [entry.item.key for entry in items if entry.question.category == category]
        if keys:
            progress.append(CategoryProgress(category, sum(key in scores for key in keys), len(keys)))
    return progress


def _titles(items: Sequence[ToScore], language: str) -> dict[str, str]:
    """The titles of the categories, by id."""
    return {category.id: category.title[language] for category in items[0].scheme.categories}


def _dimensions(words: FormTexts) -> list[Dimension]:
    texts = words.dimensions
    return [Dimension(name, texts[name].name, texts[name].meaning, high) for name, high in DIMENSIONS.items()]


@cache
def _environment() -> Environment:
    loader = PackageLoader("medjudge.annotate", "page")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["literal"] = _literal
    environment.filters["rendered"] = _rendered
    return environment


def page_template(name: str) -> Template:
    """A template of `page/`, with the filters that show texts as text."""
    return _environment().get_template(name)


def _literal(text: str) -> Markup:
    """A text as HTML that shows it and nothing else; characters that would act unseen appear as their number."""
    plain = str(escape(text.replace("\r\n", "\n").replace("\r", "\n")))
    return Markup(_UNSEEN.sub(lambda match: f'<span class="unseen">U+{ord(match[0]):04X}</span>', plain))


def _rendered(text: str) -> Markup | None:
    """A text's Markdown as HTML; None where it has none. Characters that would act unseen appear as their number."""
    if not has_markdown(text):
        return None
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    marked = _UNSEEN.sub(lambda match: f"\ufdd0{ord(match[0]):04X}\ufdd1", plain)
    shown = re.sub("\ufdd0([0-9A-F]{4})\ufdd1", r'<span class="unseen">U+\1</span>', markdown_html(marked))
    return Markup(shown)
