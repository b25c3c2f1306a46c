"""Texts of forms and pages: `scoring_form.yaml` and `scoring_page.yaml` of each language."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

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


class FormMessages(Texts):
    """The messages about forms that came back, in one language (`form_messages.yaml`).

    Attributes:
        messages: Name -> text.
        fields: Field of a form -> its name, where that is not the field itself.
        between: What separates the entries of a list.
    """

    messages: dict[str, str]
    fields: dict[str, str]
    between: str


_OF_FIELDS = ("cell", "cells", "field", "fields")
"""The facts that name fields of a form."""


class Message(NamedTuple):
    """A message of `form_messages.yaml` with its facts; fields, lists and messages among these are put into words."""

    name: str
    facts: Mapping[str, Any] = {}

    def text(self, language: str = "en") -> str:
        """The message in a language."""
        texts = PACKAGED.load(language, "form_messages.yaml", FormMessages)

        def said(fact: str, value: Any) -> str:
            if isinstance(value, Message):
                return value.text(language)
            if isinstance(value, list):
                return texts.between.join(said(fact, one) for one in value)
            return texts.fields.get(value, value) if fact in _OF_FIELDS else str(value)

        return texts.messages[self.name].format(**{fact: said(fact, value) for fact, value in self.facts.items()})

    def __str__(self) -> str:
        return self.text()


def message(name: str, **facts: Any) -> Message:
    """A message with its facts."""
    return Message(name, facts)


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
