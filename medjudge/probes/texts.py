"""What probes say, and the words that tell them where not to: the texts and patterns of a language.

They stand in `en.yaml` and `zh.yaml` beside this file.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

import yaml

from medjudge.records import Language


class Texts(NamedTuple):
    """One language's file: the texts, and the patterns made of its word lists."""

    variants: dict[str, Any]
    asks_for: dict[str, re.Pattern[str]]
    refers_back: re.Pattern[str]
    goes_on: re.Pattern[str]
    sequence: re.Pattern[str]
    abbreviations: frozenset[str]


@cache
def texts_of(language: Language) -> Texts:
    """Reads a language's file, once."""
    read = yaml.safe_load((files("medjudge.probes") / f"{language}.yaml").read_text(encoding="utf-8"))
    # Chinese writes no spaces between words: \b would never stand there.
    edge = r"\b" if language == "en" else ""

    def any_of(words: Iterable[str]) -> str:
        return f"{edge}(?:{'|'.join(words)}){edge}"

    def pattern(expression: str) -> re.Pattern[str]:
        return re.compile(expression, re.IGNORECASE)

    return Texts(
        read,
        {name: pattern(any_of(words)) for name, words in read["asks_for"].items()},
        pattern(any_of(read["refers_back"])),
        pattern(rf"\W*{any_of(read['goes_on'])}"),
        pattern(rf"{any_of(read['sequence'])}|^\W*{any_of(read['sequence_start'])}"),
        frozenset(read["abbreviations"]),
    )
