"""The word lists of the graded answers: `graded.en.yaml` and `graded.zh.yaml` beside this file."""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from medjudge.probes.texts import texts_of
from medjudge.records import Language


class Wording(NamedTuple):
    """One language's lists, those that are searched for as patterns."""

    language: Language
    said: dict[str, Any]
    no_dressing: re.Pattern[str]
    grader_notes: re.Pattern[str]
    form_labels: re.Pattern[str]
    item_openers: re.Pattern[str]
    leans: re.Pattern[str]
    negations: re.Pattern[str]
    subordinates: re.Pattern[str]
    stop_words: frozenset[str]
    abbreviations: frozenset[str]


@cache
def wording_of(language: Language) -> Wording:
    """Reads a language's file, once."""
    said = yaml.safe_load((files("medjudge.distill") / f"graded.{language}.yaml").read_text(encoding="utf-8"))
    edge = r"\b" if language == "en" else ""

    def any_of(words: Iterable[str], before: str = edge, after: str = edge) -> re.Pattern[str]:
        return re.compile(f"{before}(?:{'|'.join(words)}){after}", re.IGNORECASE)

    asked = texts_of(language).asks_for
    return Wording(
        language,
        said,
        # What breaks a form that was asked for is the same for a probe and for a training answer.
        re.compile("|".join(f"(?:{one.pattern})" for one in (*asked.values(), any_of(said["no_dressing"]))), re.I),
        any_of(said["grader_notes"]),
        any_of(said["form_labels"], r"^", r"(?:要求)?[①-⑳\d]*\s*[:：]"),
        any_of(said["item_openers"], r"^", edge),
        any_of(said["leans"], r"^\W*", edge),
        any_of(said["negations"]),
        any_of(said["subordinates"]),
        frozenset(said["stop_words"]),
        texts_of(language).abbreviations,
    )


def language_of(text: str) -> Language:
    """The language a text is written in: an English translation may answer a Chinese question."""
    han = len(re.findall(r"[\u4e00-\u9fff]", text))
    return "zh" if han * 3 > len(re.findall(r"[A-Za-z]", text)) else "en"
