"""Decodes tables that are not UTF-8, and refuses what the encoding was not made for: a guess would change the texts."""

import re
import unicodedata
from contextvars import ContextVar
from functools import cache
from pathlib import Path

from medjudge.errors import InputError, notify

read_as: ContextVar[str | None] = ContextVar("read_as", default=None)
"""The encoding that the user named for tables that are not UTF-8, in place of GB18030."""

_FOREIGN = re.compile(r"[^\x00-\x7f]")
_HAN = re.compile("[\u3400-\u9fff]")
_ALONE = re.compile("(?<=[A-Za-z])[\u3400-\u9fff](?=[A-Za-z])")
_KANA = re.compile("[\u3041-\u30fa]")
_COMMON = frozenset(
    "的一是不了在人有大中上个为和出时以会可对后多能用发成者病药性量症我他这来们到说要就也与及应或"
    "炎血痛心治疗检查月天手术经前无次神系表皮化内感热水小生分结下"
    "個為時會對後發藥這來們說與應"
)
_ENOUGH, _SHARE = 30, 50
"""From so many different Han characters on, one in so many is a common one."""
_notify_once = cache(notify)  # a file is looked at before it is read


def known_encoding(name: str) -> str:
    """The name of an encoding of texts as it was given.

    Raises:
        InputError: Python knows no such encoding.
    """
    try:
        "a".encode(name)  # refuses what is no encoding of texts, such as rot13
    except (LookupError, ValueError):
        raise InputError(f"--encoding {name}: is not known; cp1252, gb18030, big5, shift_jis and utf-16 are") from None
    return name


def table_text(path: Path, data: bytes) -> str:
    """The text of a CSV file: UTF-8, else the encoding that the user named, else GB18030, that of Chinese Excel.

    A file in another encoding often decodes as GB18030, and its texts change: 10 µg becomes 10 礸. So it is refused
    unless it reads as Chinese.

    Args:
        path: The file that messages name.
        data: Its content.

    Raises:
        InputError: The file is in another encoding.
    """
    named = read_as.get()
    byte = "a NUL byte"
    try:
        text = data.decode("utf-8-sig")
        if named is None or "\0" not in text:  # as in UTF-16 without a byte order mark
            return text
    except UnicodeDecodeError as error:
        byte = f"byte {error.start} is 0x{data[error.start]:02x}"
    encoding = named or "gb18030"
    try:
        text = data.decode(encoding)
    except UnicodeError:
        what = f"neither UTF-8 nor {encoding.upper()} text ({byte})"
        raise InputError(f"{path}: {what}; save it as UTF-8, or name its encoding with --encoding") from None
    if named is None and (found := _not_chinese(text)):
        piece = text[max(0, found.start() - 8) : found.end() + 8]
        line = text.count("\n", 0, found.start()) + 1
        what = f"line {line}: not UTF-8, and read as GB18030 it would hold '{' '.join(piece.split())}'"
        raise InputError(f"{path}, {what}; save it as UTF-8, or name its encoding: --encoding cp1252, big5, …")
    _notify_once(f"{path}: not UTF-8; read as {encoding.upper()} (--encoding names another)")
    return text


def _not_chinese(text: str) -> re.Match[str] | None:
    """A place of a text that nobody wrote: private characters, rare or no common Han characters, Japanese."""
    for found in _FOREIGN.finditer(text):
        if unicodedata.category(found[0]) in ("Cc", "Cn", "Co"):
            return found
    characters = _HAN.findall(text)
    different = set(characters)
    alone = set(_ALONE.findall(text))
    rare = [one for one in different if (level := _level(one)) == 0 or (level == 2 and one in alone)]
    if 2 * len(rare) > len(different):
        return re.search("|".join(rare), text)
    if 20 * len(_KANA.findall(text)) > len(characters):
        return _KANA.search(text)
    common = sum(one in _COMMON for one in characters)
    return _HAN.search(text) if len(different) >= _ENOUGH and _SHARE * common < len(characters) else None


def _level(han: str) -> int:
    """The level of a Han character in GB2312: 1 of the 3,755 most frequent, 2 of the others; 0 is not in it."""
    try:
        return 1 if han.encode("gb2312")[0] < 0xD8 else 2
    except UnicodeEncodeError:
        return 0
