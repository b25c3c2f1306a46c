"""The texts of the page in its language."""

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup, escape

_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
"""HTML cannot hold some control characters and hides the others; their pictures (U+2400 and on) are shown instead."""


class Words:
    """What the page says: each text stands in English where it is used, and is looked up in the page's language.

    Args:
        language: `en` or `zh`.
        texts: English text -> text in the language; English unless given.
    """

    def __init__(self, language: str = "en", texts: Mapping[str, str] | None = None) -> None:
        self.language = language
        self.texts = texts or {}

    def __call__(self, text: str, **values: Any) -> Markup:
        """A text with its `{values}`, which are escaped.

        Args:
            text: In English.
        """
        shown = {name: escape(visible(value)) for name, value in values.items()}
        return Markup(escape(self.texts.get(text, text))).format(**shown)


def visible(value: Any) -> Any:
    """Control characters as their pictures; what is no plain string stays."""
    return value.translate(_CONTROLS) if type(value) is str else value
