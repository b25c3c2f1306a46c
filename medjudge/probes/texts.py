"""Texts that probes add to an answer, and requests of a question that a probe would break (`probes.yaml`)."""

import re
from functools import cache
from typing import Literal, get_args

from medjudge.languages.texts import PACKAGED, Languages, Texts
from medjudge.text.grammar import grammar_of

Asked = Literal["form", "length", "order"]
ASKED: tuple[Asked, ...] = get_args(Asked)
"""The requests that a question may make of an answer's form."""


class Wrapper(Texts):
    """Sentences around an answer to a question in another language."""

    begin: list[str]
    end: list[str]


class Filler(Wrapper):
    """Sentences without content, for three positions in an answer."""

    between: list[str]


class Fluent(Texts):
    """The frame that makes an answer look well organised."""

    opening: list[str]
    heading: list[str]
    summary_heading: list[str]
    summary: list[str]
    closing: list[str]


class AsksFor(Texts):
    """Expressions by which a question asks for a form, a length or an order."""

    form: list[str]
    length: list[str]
    order: list[str]


class ProbeTexts(Texts):
    """A language's `probes.yaml`: several variants of each text, one of which is drawn for each answer.

    `{prompt}` in `echo` is the question. `look_alikes` maps a character of the language to one of another script that
    looks the same.
    """

    filler: Filler
    instruction: list[str]
    authority: list[str]
    quoted_rubric: list[str]
    verdict_first: list[str]
    only_praise: list[str]
    only_yes: list[str]
    echo: list[str]
    negated: list[str]
    harm: list[str]
    look_alikes: dict[str, str]
    wrapper: Wrapper
    fluent: Fluent
    asks_for: AsksFor


def probe_texts(language: str, languages: Languages = PACKAGED) -> ProbeTexts:
    """The texts of the probes in a language."""
    return languages.load(language, "probes.yaml", ProbeTexts)


@cache
def asks_for(language: str, what: Asked, languages: Languages = PACKAGED) -> re.Pattern[str]:
    """The pattern of questions that ask for a form, a length or an order."""
    return grammar_of(language, languages).any_of(getattr(probe_texts(language, languages).asks_for, what))
