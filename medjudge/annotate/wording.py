"""What a form says to a rater: how to score, and what the dimensions mean (`scoring_form.yaml` of each language)."""

from typing import NamedTuple

from medjudge.languages.texts import PACKAGED, Languages, Texts


class DimensionTexts(Texts):
    """The name of a dimension, and what its scores mean."""

    name: str
    meaning: str


class FormTexts(Texts):
    """A language's form.

    Attributes:
        headings: Field of an item, such as `question`, -> its heading.
        steps: How to score, a sentence or two each.
        dimensions: Name in the records -> texts.
    """

    headings: dict[str, str]
    steps: list[str]
    dimensions: dict[str, DimensionTexts]


class Words(NamedTuple):
    """The same text in English and Chinese, for forms that show both."""

    en: str
    zh: str


def form_texts(language: str, languages: Languages = PACKAGED) -> FormTexts:
    """The texts of a language's form."""
    return languages.load(language, "scoring_form.yaml", FormTexts)


_EN, _ZH = form_texts("en"), form_texts("zh")

HEADINGS = {field: f"{heading} {_ZH.headings[field]}" for field, heading in _EN.headings.items()}
"""The texts that a form shows of each item, with their headings."""
STEPS = tuple(map(Words, _EN.steps, _ZH.steps))
DIMENSION_WORDS = {name: Words(texts.name, _ZH.dimensions[name].name) for name, texts in _EN.dimensions.items()}
DIMENSION_MEANING = {name: Words(texts.meaning, _ZH.dimensions[name].meaning) for name, texts in _EN.dimensions.items()}
