"""A text and its rendering in one string: the page shows either, and the pair takes hardly more room than the text.

The marks are code points that no text has (U+FDD0 to U+FDEF): one for the beginning of each element, one for the end of
the last one begun, and one before and after what only the text as written shows. `answers.js` reads them.
"""

from html.parser import HTMLParser

from medjudge.text.markdown import TAGS, has_markdown, markdown_html

_FIRST = 0xFDD0
_MARKS = {tag: chr(_FIRST + number) for number, tag in enumerate(TAGS)}
_END, _HIDDEN = chr(_FIRST + 30), chr(_FIRST + 31)
_RESERVED = {chr(_FIRST + number) for number in range(32)}
_VOID = {"br", "hr"}


def with_rendering(text: str | None) -> str | list[str] | None:
    """A text as it is where it holds no Markdown; else a list of one string, the text with its rendering.

    Whatever the rendering shows stands in the text, in the same order; a text of which that cannot be said stays as it
    is.
    """
    if text is None or not has_markdown(text) or not _RESERVED.isdisjoint(text):
        return text
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    weaver = _Weaver(plain)
    weaver.feed(markdown_html(plain))
    weaver.close()
    return text if weaver.failed or not weaver.formed else ["".join([*weaver.pieces, *weaver.hidden(len(plain))])]


class _Weaver(HTMLParser):
    """Puts the marks of a rendering's elements into the text that it was made from."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.text = text
        self.place = 0
        self.pieces: list[str] = []
        self.failed = False
        self.formed = False
        self.preformatted = False

    def hidden(self, end: int) -> list[str]:
        """What the text has from here to `end` and the rendering has not; the place moves there."""
        passed, self.place = self.text[self.place : end], end
        return [_HIDDEN, passed, _HIDDEN] if passed else []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.pieces.append(_MARKS[tag])
        self.preformatted |= tag == "pre"
        self.formed |= tag not in ("p", "br")
        if tag == "ol":
            self.pieces.append(dict(attrs).get("start") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag not in _VOID:
            self.pieces.append(_END)
        self.preformatted &= tag != "pre"

    def handle_data(self, data: str) -> None:
        if not self.preformatted:
            data = data.strip("\n")  # between elements
        if not data:
            return
        found = self.text.find(data, self.place)
        if found >= 0:
            self.pieces += [*self.hidden(found), data]
            self.place += len(data)
        else:
            for character in data:
                self._one(character)

    def _one(self, character: str) -> None:
        """A character of a run that is not in the text as a whole: something within it is hidden, as a backslash."""
        found = self.text.find(character, self.place)
        if found >= 0:
            self.pieces += [*self.hidden(found), character]
            self.place += 1
        elif not character.isspace():
            self.failed = True
