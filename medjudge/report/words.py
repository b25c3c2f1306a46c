"""The texts of the page in its language."""

import re
from functools import cache
from typing import Any

from markupsafe import Markup, escape

from medjudge.files import parse_yaml
from medjudge.languages.texts import PACKAGED

_CATALOGUE = "report_page.yaml"
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
"""HTML cannot hold some control characters and hides the others; their pictures (U+2400 and on) are shown instead."""


class Words:
    """What the page says: each text stands in English where it is used, and is looked up in the page's language.

    Args:
        language: `en` or `zh`.
    """

    def __init__(self, language: str = "en") -> None:
        self.language = language
        self.texts = _catalogue(language)["page"]
        self._records = _catalogue(language)["records"]

    def __call__(self, text: str, **values: Any) -> Markup:
        """A text with its `{values}`, which are escaped.

        Args:
            text: In English.
        """
        shown = {name: escape(visible(value)) for name, value in values.items()}
        return Markup(escape(self.texts.get(text, text))).format(**shown)

    def plain(self, text: str, **values: Any) -> str:
        """As a call, for where nothing is read as HTML: no value is escaped."""
        return self.texts.get(text, text).format(**values)

    def known(self, text: str | None) -> str | None:
        """A text that comes from a record, as a gate's reasons do; unchanged where the language does not have it.

        What a record says in English is looked up as a whole, then by the texts that have `{values}`, whose values are
        looked up in turn.
        """
        if not text or not self.texts:
            return text
        if text in self._records:
            return self._records[text]
        for pattern, translated in _patterns(self.language):
            if match := pattern.fullmatch(text):
                return translated.format(**{name: self.known(value) for name, value in match.groupdict().items()})
        return text


@cache
def _catalogue(language: str) -> dict[str, dict[str, str]]:
    """English text -> text in a language, of the page and of records; empty for English."""
    if language == "en":
        return {"page": {}, "records": {}}
    catalogue: dict[str, dict[str, str]] = parse_yaml(
        PACKAGED.text(language, _CATALOGUE), f"languages/{language}/{_CATALOGUE}"
    )
    return catalogue


@cache
def _patterns(language: str) -> list[tuple[re.Pattern[str], str]]:
    """The records' texts with values, as patterns of the sentences that they make; the longest first."""
    texts = sorted(_catalogue(language)["records"].items(), key=lambda pair: -len(pair[0]))
    return [
        (re.compile(re.sub(r"\\\{(\w+)\\\}", r"(?P<\1>.+?)", re.escape(text)), re.DOTALL), translated)
        for text, translated in texts
        if "{" in text
    ]


def visible(value: Any) -> Any:
    """Control characters as their pictures; what is no plain string stays."""
    return value.translate(_CONTROLS) if type(value) is str else value
