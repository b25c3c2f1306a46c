"""Hostile files and replies for every reader: valid ones changed in value or in bytes, and any others.

The tests in `tests/hostile` draw a few of them, `eval/robustness/hostile.py` many.
"""

import csv
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st
from openpyxl import Workbook

from eval.robustness.hostile_readers import Reader, table

_NAMES = ("", " ", "-x", "con", "../../etc/passwd", "=1+1", "NaN", "{{ 7*7 }}", "%s%n", "<script>")
_CHARACTERS = ("\x00", "\x1b[2J", "\u202egnp", "\ufeff", "\ud800", "A\r\nB", "\u2028", "e\u0301" * 50)
_DIGITS = ("٤", "４", "½", "1e400", "9" * 5000, "a" * 70_000)
_TEXTS = (*_NAMES, *_CHARACTERS, *_DIGITS)
_NUMBERS = (0, -1, 6, 2**31, 2**63, 2**64, 10**400, 1.5, 1e308, -0.0, float("inf"), float("nan"), True, None)

_BYTES = (
    b"",
    b"\x00",
    b"\xff\xfe",
    b"\xef\xbb\xbf",
    b"\x1a",
    b"\x85",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x98\x80",
    b"\xed\xa0\x80",
)
_LINES = (b"\r", b"\n\n", b"\t", b'"', b"'", b"-", b"- ", b": ", b";", b",,,,,", b"a" * 140_000, b"score", b"rater")
_JSON = (b"[" * 3000, b"{" * 3000, b'{"a":' * 3000, b"\\ud800", b"\\u0000", b"null", b'"id": 1, "id": 2,')
_FIGURES = (b"1e999", b"9" * 5000, b"NaN", b"Infinity", b"2024-13-45", b"1:2:3", b"=cmd|'/c calc'!A0")
_ALIASES = b"".join(b"a%d: &a%d [%s]\n" % (n, n, b"*a%d, *a%d" % (n - 1, n - 1) if n else b"x, x") for n in range(31))
_ANCHORS = (b"*a", b"&a [*a]", b"x: &a [*a]\n", b"<<: 1", b"? [a]\n: b", b"%YAML 9", _ALIASES)
_TAGS = (b"!!python/object/apply:os.system [ls]", b"!!timestamp x", b"!!bool x", b"!!map [[a]]", b"!!int ''")
_LONG_NUMBERS = (b"0x" + b"f" * 9000, b"1" + b":59" * 3000)
_XML = (b"<!DOCTYPE a [<!ENTITY b 'c'>]>&b;", b"<a>", b"</Question>", b"&#0;", b"&x;", b"<![CDATA[")
_ENCODINGS = (b"<?xml version='1.0' encoding='utf-7'?>", b"<?xml version='1.0' encoding='nope'?>")
_PIECES = (*_BYTES, *_LINES, *_JSON, *_FIGURES, *_ANCHORS, *_TAGS, *_LONG_NUMBERS, *_XML, *_ENCODINGS)

_WORDS = (
    "Score: ",
    "得分：",
    "Score",
    "is",
    "out of",
    "1-5",
    "GCS score 3",
    "null",
    "true",
    "x",
    "=",
    " ",
    "\n",
    " " * 500,
)
_LEVELS = ("5", "4", "1", "6", "0", "-1", "4.5", "/5", "/10", "١", "9" * 5000)
_MARKS = ("[[", "]]", "]", "**", "（", "）", "(", ")", "{", "}", "：", "“", "\\", '"', ",", "[" * 3000, "{" * 3000)
_REPLIES = ('{"score": 5}', '{"score": 4, "score": 1}', '{"rationale": "\\ud800", "score": 4}', "```json\n", "```")
_TOKENS = ("<think>", "</think>", "<|im_start|>", "<<<END ab>>>", "<<", "s>", "[INST", "<|", "|>", "<s<s>>", "＜")
_SAID = (*_WORDS, *_LEVELS, *_MARKS, *_REPLIES, *_TOKENS, "\u202e", "\x00")

_scalars = st.sampled_from(_TEXTS) | st.sampled_from(_NUMBERS) | st.text(max_size=12) | st.integers(-7, 7)
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_TEXTS) | st.text(max_size=6), inner),
    max_leaves=6,
)


@st.composite
def hostile_files(draw: st.DrawFn, reader: Reader) -> bytes:
    """A file for a reader: a valid one with values or bytes changed, or any bytes at all."""
    if reader.kind == "reply":
        return _reply(draw, reader.valid).encode()
    valid = draw(st.sampled_from(reader.valid))
    how = draw(st.sampled_from(("values", "values", "bytes", "bytes", "any")))
    if how == "any":
        return draw(st.binary(max_size=400) | st.lists(st.sampled_from(_PIECES), max_size=8).map(b"".join))
    if how == "values" and reader.kind in _BY_VALUE:
        return _BY_VALUE[reader.kind](draw, valid)
    return _bytes_changed(draw, valid)


def _reply(draw: st.DrawFn, valid: tuple[bytes, ...]) -> str:
    """Pieces of replies in any order, a valid one changed, or any text at all."""
    how = draw(st.sampled_from(("pieces", "pieces", "changed", "any")))
    if how == "any":
        return draw(st.text(max_size=60))
    if how == "pieces":
        return "".join(draw(st.lists(st.sampled_from(_SAID) | st.sampled_from(valid).map(bytes.decode), max_size=14)))
    return _bytes_changed(draw, draw(st.sampled_from(valid))).decode("utf-8", "replace")


def _bytes_changed(draw: st.DrawFn, data: bytes) -> bytes:
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from((0, 0, 1, 2, 7, 40, len(data)))))
        piece = draw(st.sampled_from(_PIECES) | st.binary(max_size=6) | st.just(data[start:end] * 3))
        data = data[:start] + piece + data[end:]
    return data


def _value_changed(draw: st.DrawFn, value: Any) -> Any:
    """The value with one part of it, at any depth, replaced, added or left out."""
    if not isinstance(value, (dict, list)) or not value or draw(st.integers(0, 5)) == 0:
        return draw(_values)
    if isinstance(value, list):
        place = draw(st.integers(0, len(value) - 1))
        how = draw(st.sampled_from(("change", "change", "twice", "none")))
        changed = [_value_changed(draw, value[place])] if how == "change" else []
        return [*value[:place], *(changed or [value[place]] * (2 if how == "twice" else 0)), *value[place + 1 :]]
    name = draw(st.sampled_from(sorted(value, key=str)))
    how = draw(st.sampled_from(("change", "change", "change", "none", "more")))
    if how == "none":
        return {key: one for key, one in value.items() if key != name}
    if how == "more":
        return {**value, draw(st.sampled_from(_TEXTS) | st.text(max_size=6)): draw(_values)}
    return {**value, name: _value_changed(draw, value[name])}


def _dumped(value: Any) -> bytes:
    # ASCII: surrogates stay escapes, which is how they come in files.
    return json.dumps(value).encode()


def _json_changed(draw: st.DrawFn, valid: bytes) -> bytes:
    return _dumped(_value_changed(draw, json.loads(valid)))


def _lines_changed(draw: st.DrawFn, valid: bytes) -> bytes:
    lines = [json.loads(line) for line in valid.splitlines()]
    return b"\n".join(
        _dumped(_value_changed(draw, draw(st.sampled_from(lines)))) for _ in range(draw(st.integers(1, 3)))
    )


def _yaml_changed(draw: st.DrawFn, valid: bytes) -> bytes:
    changed = _value_changed(draw, json.loads(json.dumps(yaml.safe_load(valid), default=str)))
    return _dumped(changed)  # JSON is YAML, but for numbers such as 1e999


def _table_changed(draw: st.DrawFn, valid: bytes) -> bytes:
    rows = _value_changed(draw, [*csv.reader(io.StringIO(valid.decode()))])
    rows = rows if isinstance(rows, list) else [[rows]]
    cells = [[str(cell) for cell in row] if isinstance(row, (list, tuple)) else [str(row)] for row in rows]
    return table(cells)


def _workbook_changed(draw: st.DrawFn, valid: bytes) -> bytes:
    """A workbook with one of its parts changed."""
    with zipfile.ZipFile(io.BytesIO(valid)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = draw(st.sampled_from(sorted(parts)))
    how = draw(st.sampled_from(("change", "change", "change", "none", "cell")))
    if how == "none":
        del parts[name]
    elif how == "change":
        parts[name] = _bytes_changed(draw, parts[name])
    else:
        sheet = next(part for part in sorted(parts) if "sheet" in part and part.startswith("xl/worksheets"))
        kind = draw(st.sampled_from(("n", "s", "b", "e", "d", "str", "inlineStr", "x")))
        value = draw(st.sampled_from(("1", "-1", "99999", "x", "", "1e999", "NaN", "2024-99-99T", "#REF!")))
        place = draw(st.sampled_from(("A9", "ZZZ1", "XFD1", "A0", "A-1", "9", "", "a1", "B2", "A1048577")))
        cell = f'<row r="9"><c r="{place}" t="{kind}"><v>{value}</v><f>1+1</f></c></row></sheetData>'
        parts[sheet] = parts[sheet].replace(b"</sheetData>", cell.encode())
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for part, data in parts.items():
            archive.writestr(part, data)
    return file.getvalue()


_BY_VALUE: dict[str, Callable[[st.DrawFn, bytes], bytes]] = {
    "json": _json_changed,
    "lines": _lines_changed,
    "yaml": _yaml_changed,
    "csv": _table_changed,
    "xlsx": _workbook_changed,
}


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
HEADINGS = ("question_id", "model", "sample", "rater", "score", "comment")
QUESTION = {"category": "MK", "prompt": "How much?", "language": "en"}


def write_sheet(path: Path, rows: Iterator[str]) -> None:
    """Writes a workbook of one sheet, its XML as given."""
    sheets = '<sheets><sheet name="MK" sheetId="1" r:id="a"/></sheets>'
    kind = f'<Override PartName="/xl/workbook.xml" ContentType="{KIND}.sheet.main+xml"/>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{PACKAGE}/content-types">{kind}</Types>')
        for part, kind, target in (("", "officeDocument", "xl/workbook.xml"), ("xl/", "worksheet", "worksheets/a.xml")):
            name = "xl/_rels/workbook.xml.rels" if part else "_rels/.rels"
            relation = f'<Relationship Id="a" Type="{OFFICE}/{kind}" Target="{target}"/>'
            archive.writestr(name, f'<Relationships xmlns="{PACKAGE}/relationships">{relation}</Relationships>')
        archive.writestr("xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}">{sheets}</workbook>')
        with archive.open("xl/worksheets/a.xml", "w", force_zip64=True) as stream:
            stream.write(f'<worksheet xmlns="{MAIN}"><sheetData>{row(HEADINGS)}'.encode())
            for text in rows:
                stream.write(text.encode())
            stream.write(b"</sheetData></worksheet>")


def row(cells: tuple[object, ...]) -> str:
    """A row of cells with their texts."""
    inside = "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in cells)
    return f"<row>{inside}</row>"


def scores(count: int) -> Iterator[tuple[object, ...]]:
    """Proper rows: ten models, one rater."""
    return ((f"q{n // 10}", f"model-{n % 10}", 0, "dr_a", 1 + n % 5, "fine") for n in range(count))


def long_cell(path: Path, millions: int) -> None:
    """A cell of so many million characters, in a file of a thousandth of that."""
    write_sheet(path, iter(["<row><c><v>", *["a" * 1_000_000] * millions, "</v></c></row>"]))


def huge_sheet(path: Path) -> None:
    """Rows of 2 GB."""
    block = row(("q1", "m", 0, "dr_a", 3, "fine")) * 50_000
    write_sheet(path, (block for _ in range(2_000_000_000 // len(block))))


def far_row(path: Path) -> None:
    """A row that says it is number 2,000,000,000."""
    write_sheet(path, iter(['<row r="2000000000"><c><v>1</v></c></row>']))


def far_column(path: Path) -> None:
    """Rows with one cell in the last column of Excel."""
    write_sheet(path, ('<row><c r="XFD1"><v>1</v></c></row>' for _ in range(100_000)))


def deep(path: Path) -> None:
    """Ten million elements inside each other."""
    write_sheet(path, (("<a>" * 1000) for _ in range(10_000)))


def proper_sheet(path: Path, count: int) -> None:
    """A proper sheet of scores."""
    write_sheet(path, map(row, scores(count)))


def proper_workbook(path: Path) -> None:
    """The same as openpyxl writes it, with texts in a table of their own."""
    book = Workbook(write_only=True)
    sheet = book.create_sheet("MK")
    sheet.append(HEADINGS)
    for cells in scores(99_999):
        sheet.append(cells)
    book.save(path)


def write_csv(path: Path, count: int) -> None:
    """A CSV file of scores."""
    with path.open("w") as file:
        file.writelines(",".join(map(str, cells)) + "\n" for cells in (HEADINGS, *scores(count)))


def headings(path: Path) -> None:
    """20,001 headings above 500 rows."""
    path.write_text("question_id" + ",x" * 20_000 + "\nq" * 500)


def questions(path: Path, count: int, round: int = 3) -> None:
    """Questions that lack a reference and earlier turns."""
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps({**QUESTION, "id": f"q{number}", "group": f"g{number}", "round": round}) + "\n")
