"""Takes the formatting off a text: the marks go, every word stays."""

import re
from itertools import zip_longest

from medjudge.text.blocks import BULLET, RULE, TABLE_RULE_CELL, is_fence

_ATTRIBUTES = r"""(?:\s+[\w:-]{1,40}\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s"'<>]+))*"""
_TAGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"<(?:{names}){_ATTRIBUTES}\s*/?>", re.IGNORECASE), instead)
    for names, instead in (
        # "10<sup>9</sup>" must not become "109".
        (r"sup(?=[^<>\n]*>\s*[-+−]?\d)", "^"),
        (r"(?:br|hr|/?(?:p|div|h[1-6]|ul|ol|tr|table|thead|tbody|blockquote|pre|center|details|summary)|li)", "\n"),
        (r"/(?:td|th)", "; "),
        (r"/?(?:b|i|u|em|strong|span|font|small|big|mark|code|sub|sup|a|td|th)|/li", ""),
    )
)
"""Tags by name, attributes only with "=": "p<b and c>d" is no tag. Text that is struck out (<s>, ~~) keeps its mark."""
_MEANINGFUL = (
    "✅❌❎✓✔✕✖✗✘☐☑☒⛔⭕➕➖➗♀♂❶-➓\U0001f44d\U0001f44e\U0001f4c8\U0001f4c9\U0001f51f\U0001f534\U0001f535"
    "\U0001f53a-\U0001f53d\U0001f6ab\U0001f6d1\U0001f7e0-\U0001f7ef"
)
"""Emoji that carry meaning stay: ticks, crosses, signs, arrows, numbers, sexes, thumbs, stop signs, coloured dots."""
_DECORATION = f"(?![{_MEANINGFUL}])[\U0001f300-\U0001faff☀-➓⭐]"
_EMOJI = re.compile(f"{_DECORATION}(?:\ufe0f|\u200d.|{_DECORATION})* ?")
_EMOJI_BETWEEN_DIGITS = re.compile(rf"(?<=\d){_EMOJI.pattern}(?=\d)")
_KEYCAP = re.compile(r"(\d)\ufe0f?\u20e3 ?")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_CLOSING_HASHES = re.compile(r"(?<=\s)#{1,6}$")
_QUOTE = re.compile(r"\s{0,3}(?:>\s?)+(?![\s\d.=])")
_INLINE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"`{1,3}([^`\n]+)`{1,3}"), r"\1"),
    (re.compile(r"!?\[([^\[\]\n]+)\]\(((?:https?://|www\.|mailto:|#)[^()\s]+)\)"), r"\1 (\2)"),
    # Star alleles (CYP2C19*2, HLA-B*57:01), products and powers (10**9) are no emphasis.
    (re.compile(r"(?<![0-9A-Za-z*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![0-9A-Za-z*])"), r"\1"),
    (re.compile(r"(?:(?<!\d)|(?=\*\*\D))(?<!\*)\*{2,3}(?=[^\s*])([^*\n]*[^\s*])\*{2,3}(?!\*)"), r"\1"),
    (re.compile(r"(?<![\w])_{1,3}(?=[^\s_])([^_\n]*[^\s_])_{1,3}(?!\w)"), r"\1"),
)


def plain(text: str) -> str:
    """The text without Markdown, HTML tags and decoration; tables are written out, numbers keep their meaning."""
    for tag, instead in _TAGS:
        text = tag.sub(instead, text)
    text = _KEYCAP.sub(r"\1. ", text)
    text = _EMOJI.sub("", _EMOJI_BETWEEN_DIGITS.sub(" ", text))
    lines = [_plain_line(line) for line in _unrolled(text.split("\n")) if not is_fence(line)]
    return "\n".join(line for line in lines if line is not None)


def _plain_line(line: str) -> str | None:
    """A line without its marks; None for a rule."""
    if not line.strip():
        return line
    if RULE.fullmatch(line):
        return None
    if heading := _HEADING.match(line):
        line = _CLOSING_HASHES.sub("", line[heading.end() :].rstrip()).rstrip()
    # Quotes before bullets: in "- > 5" the sign is no quote.
    for mark in (_QUOTE, BULLET):
        if match := mark.match(line):
            line = line[match.end() :]
    for marks, instead in _INLINE:
        line = marks.sub(instead, line)
    return line


def _unrolled(lines: list[str]) -> list[str]:
    """Tables written out, a row a line, each cell behind the heading of its column."""
    result: list[str] = []
    at = 0
    while at < len(lines):
        rows = _table_rows(lines, at)
        if rows is None:
            result.append(lines[at])
            at += 1
            continue
        headings, *body = rows
        result += ["; ".join(_named(headings, cells)) for cells in body] or ["; ".join(headings)]
        at += 1 + len(rows)
    return result


def _table_rows(lines: list[str], at: int) -> list[list[str]] | None:
    """The cells of the table whose heading is line `at`, heading first, its rule left out; None where none begins."""
    if "|" not in lines[at] or at + 1 == len(lines) or "|" not in lines[at + 1]:
        return None
    if not all(TABLE_RULE_CELL.fullmatch(cell) for cell in _cells(lines[at + 1])):
        return None
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return [_cells(row) for row in (lines[at], *lines[at + 2 : end])]


def _named(headings: list[str], cells: list[str]) -> list[str]:
    named = zip_longest(headings, cells, fillvalue="")
    return [f"{heading}: {cell}" if heading else cell for heading, cell in named if cell]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))]
