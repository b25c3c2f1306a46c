"""Texts of forms and pages: `scoring_form.yaml` and `scoring_page.yaml` of each language."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from pydantic import Field

from medjudge.languages.texts import PACKAGED, Languages, Texts


class DimensionTexts(Texts):
    """The name of a dimension, and what its scores mean."""

    name: str
    meaning: str


class FormTexts(Texts):
    """A language's form.

    Attributes:
        title: The title of the form.
        fill_in: Which cells to fill in.
        earlier_question: Above an earlier question of the conversation, with its `{number}`.
        earlier_answer: Above the answer to it.
        current_question: Above the question to score, where there are earlier ones.
        not_given: In place of a text that is missing.
        headings: Field of an item, such as `question`, -> its heading.
        steps: How to score, a sentence or two each.
        dimensions: Name in the records -> texts.
    """

    title: str
    fill_in: str
    earlier_question: str
    earlier_answer: str
    current_question: str
    not_given: str
    headings: dict[str, str]
    steps: list[str]
    dimensions: dict[str, DimensionTexts]


class PageTexts(Texts):
    """The texts of the page of `annotate serve` in one language (`scoring_page.yaml`)."""

    lang: str
    language_name: str
    place: str
    scored: str
    time_left: str
    earlier: str
    asked: str
    answered: str
    unsaid: str
    question: str
    answer: str
    others: str
    reference: str
    checklist: str
    levels: str
    steps: str
    raw_text: str
    missing: str
    ask_level: str
    ask_dimensions: str
    captions: dict[int, str]
    save: str
    comment: str
    comment_hint: str
    save_comment: str
    back: str
    forward: str
    skip: str
    next_open: str
    saved: str
    undo: str
    keys_levels: list[tuple[str, str]]
    keys_dimensions: list[tuple[str, str]]
    scale: str
    refused: str
    missing_dimensions: str
    changed: str
    not_saved: str
    done_title: str
    done: str
    category: str
    count: str
    review: str


class MessageTexts(Texts):
    """The messages in place of a page, in one language (`page_messages.yaml`)."""

    lang: str
    go_on: str
    messages: dict[str, str]


class VerdictTexts(Texts):
    """Texts of forms and pages of pairs (`pair_form.yaml`) or items (`item_form.yaml`) in one language.

    Attributes:
        done: How many are done, with `{done}` and `{total}`.
        choices: Value in the records -> its words.
        page: Texts of the page, by the names of `PageTexts`, where those of the scoring page do not fit.
    """

    title: str
    place: str
    done: str
    ask: str
    steps: list[str]
    headings: dict[str, str]
    choices: dict[str, str]
    save: str = ""
    missing: str = ""
    item: str = ""
    refusal: str = ""
    page: Mapping[str, str] = Field(default_factory=dict)
    keys: Sequence[tuple[str, str]] = ()


class Words(NamedTuple):
    """The same text in English and Chinese, for forms that show both."""

    en: str
    zh: str


def form_texts(language: str, languages: Languages = PACKAGED) -> FormTexts:
    """The texts of a language's form."""
    return languages.load(language, "scoring_form.yaml", FormTexts)


def page_texts(language: str, languages: Languages = PACKAGED) -> PageTexts:
    """The texts of the page in a language."""
    return languages.load(language, "scoring_page.yaml", PageTexts)


_Texts = TypeVar("_Texts", bound=Texts)


def both_languages(name: str, model: type[_Texts]) -> tuple[_Texts, _Texts]:
    """The texts of a packaged file in English and Chinese, for forms that show both."""
    return PACKAGED.load("en", name, model), PACKAGED.load("zh", name, model)


_EN, _ZH = both_languages("scoring_form.yaml", FormTexts)

DIMENSION_WORDS = {name: Words(texts.name, _ZH.dimensions[name].name) for name, texts in _EN.dimensions.items()}
DIMENSION_MEANING = {name: Words(texts.meaning, _ZH.dimensions[name].meaning) for name, texts in _EN.dimensions.items()}
