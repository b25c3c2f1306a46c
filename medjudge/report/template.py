"""What all pages of the report share: templates that escape every text, and files that stand in the page itself."""

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from medjudge.report.effort import duration
from medjudge.report.words import Words, visible

_HAN = re.compile("[\u3400-\u9fff]")
_PAGE = "medjudge.report"


class Inline(NamedTuple):
    """A style or a script inside a page, and its hash, by which the page's policy allows it."""

    text: Markup
    hash: str


def environment(words: Words) -> Environment:
    """The templates in `page/`, with what they call."""
    environment = Environment(
        loader=PackageLoader(_PAGE, "page"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    environment.globals.update(t=words, known=words.known, language=words.language, duration=duration)
    environment.globals.update(lang=_lang, isolated=isolated, code=_code)
    return environment


def inline(*names: str) -> Inline:
    """Files of `page/`, one after the other."""
    text = "\n".join((files(_PAGE) / "page" / name).read_text(encoding="utf-8") for name in names)
    return Inline(Markup(text), f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}")


def isolated(name: str) -> Markup:
    """A name within a sentence; its own direction of text ends with it."""
    return Markup("<bdi{}>{}</bdi>").format(_lang(name), visible(name))


def _lang(text: str) -> Markup:
    """The attribute that says that a name is Chinese: for the right glyphs, and the right voice of a screen reader."""
    return Markup(' lang="zh"' if _HAN.search(text) else "")


def _code(text: str) -> Markup:
    return Markup("<code>{}</code>").format(text)
