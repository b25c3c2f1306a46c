"""A text and its rendering in one string: the page shows either, and the pair takes hardly more room than the text.

The marks are code points that no text has (U+FDD0 to U+FDEF): one for the beginning of each element, one for the end of
the last one begun, and one before and after what only the text as written shows. `answers.js` reads them. No HTML is
made on the way: the script builds elements by name, from the same closed list, and everything else becomes text nodes.
"""

from collections.abc import Iterable

from markdown_it.token import Token

from medjudge.text.markdown import TAGS, has_markdown, markdown_tokens

_FIRST = 0xFDD0
_MARKS = {tag: chr(_FIRST + number) for number, tag in enumerate(TAGS)}
_END, _HIDDEN = chr(_FIRST + 30), chr(_FIRST + 31)
_RESERVED = frozenset(chr(_FIRST + number) for number in range(32))
_BREAKS = {"softbreak": "br", "hardbreak": "br", "hr": "hr"}
_CODE = {"code_inline": ("code",), "fence": ("pre", "code")}


def with_rendering(text: str | None) -> str | list[str] | None:
    """A text as it is where it holds no Markdown; else a list of one string, the text with its rendering.

    Whatever the rendering shows stands in the text, in the same order; a text of which that cannot be said stays as it
    is.
    """
    if text is None or not has_markdown(text) or not _RESERVED.isdisjoint(text):
        return text
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    weaver = _Weaver(plain)
    weaver.weave(markdown_tokens(plain))
    return text if weaver.failed or not weaver.formed else ["".join([*weaver.pieces, *weaver.hidden(len(plain))])]


class _Weaver:
    """Puts the marks of a rendering's elements into the text that it was made from."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.pieces: list[str] = []
        self.failed = False
        self.formed = False

    def weave(self, tokens: Iterable[Token]) -> None:
        """Adds tokens in their order, those within a block after its beginning."""
        for token in tokens:
            kind = token.type
            if kind == "text":
                self._shown(token.content)
            elif kind == "inline":
                self.weave(token.children or [])
            elif kind in _BREAKS:
                self._begin(_BREAKS[kind])
            elif kind in _CODE:
                self._code(_CODE[kind], token.content)
            elif token.nesting > 0 and not token.hidden:  # hidden: the paragraphs of a tight list
                self._begin(token.tag, str(token.attrs.get("start", "")) if kind == "ordered_list_open" else "")
            elif token.nesting < 0 and not token.hidden:
                self.pieces.append(_END)

    def hidden(self, end: int) -> list[str]:
        """What the text has from here to `end` and the rendering has not; the place moves there."""
        passed, self.place = self.text[self.place : end], end
        return [_HIDDEN, passed, _HIDDEN] if passed else []

    def _begin(self, tag: str, start: str = "") -> None:
        """An element; an ordered list that does not begin at 1 with its first number."""
        self.pieces += [_MARKS[tag], start]
        self.formed |= tag not in ("p", "br")

    def _code(self, tags: Iterable[str], content: str) -> None:
        for tag in tags:
            self._begin(tag)
        self._shown(content)
        self.pieces += [_END for _ in tags]

    def _shown(self, content: str) -> None:
        if not content:
            return
        found = self.text.find(content, self.place)
        if found >= 0:
            self.pieces += [*self.hidden(found), content]
            self.place += len(content)
        else:
            for character in content:
                self._one(character)

    def _one(self, character: str) -> None:
        """A character of a run that is not in the text as a whole: something within it is hidden, as a backslash."""
        found = self.text.find(character, self.place)
        if found >= 0:
            self.pieces += [*self.hidden(found), character]
            self.place += 1
        elif not character.isspace():
            self.failed = True
