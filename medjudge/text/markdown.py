"""Markdown as HTML that can do nothing: no links, images or attributes, and no HTML of its author's."""

import re
from functools import cache

import nh3
from markdown_it import MarkdownIt
from markdown_it.token import Token

TAGS = (
    *("p", "br", "strong", "em", "s", "code", "pre", "blockquote", "hr"),
    *("ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
)
"""The elements that a rendered text may have; only `ol` has an attribute, its start."""
_LONGEST = 100_000
"""Characters above which a text is shown as it is."""
_MARKUP = re.compile(r"[*_`~|]|^\s*(?:[-+>#]|\d{1,9}[.)]\s)", re.MULTILINE)
"""Marks of which a text with Markdown has at least one; most texts without it have none of these."""


def has_markdown(text: str) -> bool:
    """True if a text may look different when it is rendered; one of more than 100,000 characters is not rendered."""
    return len(text) <= _LONGEST and _MARKUP.search(text) is not None


def markdown_html(text: str) -> str:
    """Renders CommonMark with tables and strikethrough; a line break stays one.

    Links, images and HTML in the text stay text. Headings become bold paragraphs, so that they are no headings of the
    page around them.
    """
    parser = _parser()
    html = parser.renderer.render(markdown_tokens(text), parser.options, {})
    # The parser writes nothing else; what it may overlook must not reach a page.
    return nh3.clean(html, tags=set(TAGS), attributes={"ol": {"start"}}, link_rel=None, url_schemes=set())


def markdown_tokens(text: str) -> list[Token]:
    """Tokens that `markdown_html` renders: markdown-it's, blocks in a row, each with its inline tokens as children."""
    tokens = _parser().parse(text)
    for number, token in enumerate(tokens):
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"
        if token.type == "heading_open":
            inline = tokens[number + 1]
            bold = (Token("strong_open", "strong", 1), Token("strong_close", "strong", -1))
            inline.children = [bold[0], *(inline.children or []), bold[1]]
    return tokens


@cache
def _parser() -> MarkdownIt:
    # Setext headings and indented code: lines of dashes and indents mean neither in answers.
    unwanted = ["link", "image", "autolink", "html_inline", "html_block", "entity", "reference", "lheading", "code"]
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    return parser.enable(["table", "strikethrough"]).disable(unwanted)
