"""The texts of the pages in their language, and the templates that they fill; every text is escaped."""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from medjudge.files import parse_yaml
from medjudge.languages.texts import PACKAGED

_CATALOGUE = "report_page.yaml"
_HAN = re.compile("[\u3400-\u9fff]")
_PAGE = "medjudge.report"
_CONTROLS = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {127: 0x2421}
"""HTML cannot hold some control characters and hides the others; their pictures (U+2400 and on) are shown instead."""


class Words:
    """The texts of the page: each is written in English where it is used, and is looked up in the page's language.

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

    def sentences(self, *parts: Markup) -> Markup:
        """Sentences, one after the other, as the language sets them."""
        return Markup("" if self.language == "zh" else " ").join(parts)

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


class Inline(NamedTuple):
    """A style or a script inside a page, and its hash, by which the page's policy allows it."""

    text: Markup
    hash: str


@cache
def environment(language: str) -> Environment:
    """The templates in `page/`, with what they call; they are compiled once per process and language."""
    words = Words(language)
    environment = Environment(
        loader=PackageLoader(_PAGE, "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    environment.globals.update(t=words, known=words.known, language=words.language, duration=duration)
    environment.globals.update(lang=_lang, isolated=isolated, code=code)
    environment.filters["commands"] = _commands
    return environment


def inline(*names: str, more: str = "") -> Inline:
    """Files of `page/`, one after the other, followed by `more`."""
    texts = [(files(_PAGE) / "page" / name).read_text(encoding="utf-8") for name in names]
    text = "\n".join([*texts, more] if more else texts)
    return Inline(Markup(text), f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}")


def isolated(name: str) -> Markup:
    """A name within a sentence; its own direction of text ends with it."""
    return Markup("<bdi{}>{}</bdi>").format(_lang(name), visible(name))


def _lang(text: str) -> Markup:
    """The attribute that says that a name is Chinese: for the right glyphs, and the right voice of a screen reader."""
    return Markup(' lang="zh"' if _HAN.search(text) else "")


def code(text: str) -> Markup:
    """A command within a sentence."""
    return Markup("<code>{}</code>").format(text)


def _commands(sentence: str) -> Markup:
    """A record's sentence, with its commands in backticks set as code."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))


def duration(seconds: float | None) -> str:
    """A time as people read it: `12.3 s`, `35 min`, `2.5 h`."""
    if seconds is None:
        return "–"
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
