"""Reads the cells of an .xlsx workbook in one pass and within stated limits, whatever its size claims to be.

openpyxl fills in every missing row, keeps a cell of any size, and needs a second pass to tell a formula from its
result: 200,000 rows take it over a minute. Its tables of date formats and its conversion of dates are used here.
"""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, BinaryIO, NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

MOST_BYTES = 32_000_000
"""The most bytes of a file."""
MOST_XML_BYTES = 200_000_000
"""The most bytes of the parts that are read, unpacked."""
MOST_ROWS = 100_000
"""The most rows with content, of a workbook or another table."""
MOST_COLUMNS = 1000
"""The most columns of a table."""
MOST_CELLS = 2_000_000
"""The most cells of a table; a row counts up to its last filled cell."""
MOST_CELL_CHARACTERS = 1_000_000
"""The most characters of a cell."""
MOST_CHARACTERS = 100_000_000
"""The most characters of all cells; a text that several cells share counts in each."""
_LAST_ROW = 1_048_576  # of Excel
_MOST_ELEMENTS = 10_000_000
_MOST_SETTINGS_BYTES = 5_000_000
_DEEPEST = 32
_LONGEST_NUMBER = 400
# Formats that show a number as such: no percent, unit, currency, fraction or leading zeros. _x and *x are spaces.
_SPACE = r"(?:_.|\*.|[-+() ])*"
_AS_IT_IS = re.compile(
    rf"(?i:General)|@|(?:\[(?!\$|DBNum)[^]]*\])?{_SPACE}[#,?]*0?[#,?]*(?:\.[0#?]*)?(?:E\+0+)?{_SPACE}"
)


class LimitError(Exception):
    """A table exceeds a limit; the message names the place, the limit and what to do."""


class SheetCells(NamedTuple):
    """The rows of a sheet that are not blank, by number; and the places of formulas without a result, column from 0.

    `hidden` names what a spreadsheet program does not show of it: the sheet, or rows.
    """

    name: str
    rows: list[tuple[int, Sequence[object]]]
    unsaved: frozenset[tuple[int, int]]
    hidden: str = ""


class Formatted(float):
    """A number that its cell shows as another text, such as 30 % or 5 mg; `code` is the format of the cell."""

    code = ""


class _Settings(NamedTuple):
    """What the cells of a workbook refer to; `shown` holds the formats of numbers that read differently."""

    texts: list[str]
    dates: frozenset[int]
    timedeltas: frozenset[int]
    shown: Mapping[int, str]
    epoch: datetime


class Budget:
    """Counts what has been read of a table, and stops at the limits."""

    def __init__(self) -> None:
        self.rows = self.cells = self.characters = 0

    def add(self, place: str, row: Sequence[object]) -> None:
        """Counts a row that is not blank.

        Raises:
            LimitError: A limit is exceeded.
        """
        self.rows += 1
        self.cells += len(row)
        self.characters += sum([len(cell) for cell in row if isinstance(cell, str)])
        if len(row) > MOST_COLUMNS:
            raise LimitError(f"{place}: has {len(row):,} columns, and the limit is {MOST_COLUMNS:,}; remove the others")
        for what, count, limit in (
            ("rows", self.rows, MOST_ROWS),
            ("cells", self.cells, MOST_CELLS),
            ("characters", self.characters, MOST_CHARACTERS),
        ):
            if count > limit:
                raise LimitError(
                    f"{place}: the limit of {limit:,} {what} is reached; split the table into several files"
                )


def read_xlsx(file: BinaryIO, is_blank: Callable[[object], bool]) -> Iterator[SheetCells]:
    """Yields the sheets of a workbook in its order.

    Raises:
        LimitError: The workbook exceeds a limit.
        Exception: The file is damaged; what its parts raise.
    """
    with ZipFile(file) as archive:
        sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
        if odd := {entry.compress_type for entry in archive.infolist()} - {ZIP_STORED, ZIP_DEFLATED}:
            raise ValueError(f"packed by method {min(odd)}")
        workbook = _office_document(archive)
        parts = _relations(archive, workbook)
        strings = [target for kind, target in parts.values() if kind == "sharedStrings"][:1]
        root = _small(archive, workbook)
        sheets = [
            (str(sheet.get("name")), parts[identity][1], sheet.get("state", "visible") != "visible")
            for sheet in _named(root, "sheet")
            for identity in [next(value for name, value in sheet.items() if name.endswith("}id"))]
            if parts[identity][0] == "worksheet"
        ]
        total = sum(sizes[name] for name in [*strings, *(target for _, target, _ in sheets)])
        if total > MOST_XML_BYTES:
            size = f"{total / 1e6:,.0f} MB unpacked, and the limit is {MOST_XML_BYTES // 1_000_000} MB"
            raise LimitError(f"its sheets have {size}; split the table into several files")
        texts = _shared_texts(archive, strings[0]) if strings else []
        settings = _settings(archive, root, parts, texts)
        budget = Budget()
        for name, target, is_hidden in sheets:
            with archive.open(target) as stream:
                sheet = _sheet(name, stream, settings, budget, is_blank)
            yield sheet._replace(hidden="the sheet is hidden") if is_hidden and sheet.rows else sheet


def _office_document(archive: ZipFile) -> str:
    """The path of the part that lists the sheets."""
    found = [target for kind, target in _relations(archive, "").values() if kind == "officeDocument"]
    if not found:
        raise ValueError("it names no workbook")
    return found[0]


def _relations(archive: ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """What a part refers to: id -> kind and path."""
    folder, name = posixpath.split(part)
    relations = {}
    for relation in _named(_small(archive, posixpath.join(folder, "_rels", f"{name}.rels")), "Relationship"):
        target = posixpath.normpath(posixpath.join("/", folder, relation.get("Target", ""))).lstrip("/")
        relations[str(relation.get("Id"))] = (relation.get("Type", "").rpartition("/")[2], target)
    return relations


class _Tree(ElementTree.TreeBuilder):
    def doctype(self, *_: object) -> None:
        raise ValueError("a document type definition is in it")  # its entities could grow a hundredfold


def _small(archive: ZipFile, name: str) -> ElementTree.Element:
    if archive.getinfo(name).file_size > _MOST_SETTINGS_BYTES:
        raise LimitError(
            f"{name} in it exceeds {_MOST_SETTINGS_BYTES // 1_000_000} MB; copy the cells to a new workbook"
        )
    return ElementTree.fromstring(archive.read(name), ElementTree.XMLParser(target=_Tree()))


def _named(root: ElementTree.Element, name: str) -> Iterator[ElementTree.Element]:
    return (element for element in root.iter() if element.tag.rpartition("}")[2] == name)


def _settings(
    archive: ZipFile, workbook: ElementTree.Element, parts: Mapping[str, tuple[str, str]], texts: list[str]
) -> _Settings:
    from openpyxl.styles.numbers import BUILTIN_FORMATS, is_date_format, is_timedelta_format
    from openpyxl.utils.datetime import MAC_EPOCH, WINDOWS_EPOCH

    formats: list[str] = []
    for kind, target in parts.values():
        if kind == "styles":
            root = _small(archive, target)
            codes = dict(BUILTIN_FORMATS)
            codes |= {int(code.get("numFmtId", 0)): code.get("formatCode", "") for code in _named(root, "numFmt")}
            formats = [
                codes.get(int(style.get("numFmtId", 0)), "General")
                for styles in _named(root, "cellXfs")
                for style in _named(styles, "xf")
            ]
    mac = any(properties.get("date1904") in ("1", "true") for properties in _named(workbook, "workbookPr"))
    return _Settings(
        texts,
        frozenset(index for index, code in enumerate(formats) if is_date_format(code)),
        frozenset(index for index, code in enumerate(formats) if is_timedelta_format(code)),
        {index: code for index, code in enumerate(formats) if not _AS_IT_IS.fullmatch(code[:200].partition(";")[0])},
        MAC_EPOCH if mac else WINDOWS_EPOCH,
    )


class _Reader:
    """Follows the elements of a part; `texts` collects what is inside the elements of `collected`."""

    def __init__(self, collected: frozenset[str]) -> None:
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.buffer_size = 1 << 16
        self.parser.StartDoctypeDeclHandler = self._refuse_doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.collected = collected
        self.texts: list[str] = []
        self.characters = 0
        self.place = ""
        self._names: dict[str, str] = {}
        self._depth = self._elements = self._phonetic = 0

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        """Called for each element, by its name without a prefix."""

    def end(self, name: str) -> None:
        """Called at the end of each element."""

    def _start(self, prefixed: str, attributes: Mapping[str, str]) -> None:
        name = self._names.get(prefixed) or self._names.setdefault(prefixed, prefixed.rpartition(":")[2])
        self._depth += 1
        self._elements += 1
        if self._depth > _DEEPEST or self._elements > _MOST_ELEMENTS:
            limit = f"{_DEEPEST} levels" if self._depth > _DEEPEST else f"{_MOST_ELEMENTS:,} elements"
            raise LimitError(f"{self.place}: the limit of {limit} of XML is reached; copy the cells to a new workbook")
        if name == "rPh":  # how to pronounce the text before it
            self._phonetic += 1
        elif name in self.collected:
            if not self._phonetic:
                self.parser.CharacterDataHandler = self._add
        else:
            self.start(name, attributes)

    def _end(self, prefixed: str) -> None:
        name = self._names[prefixed]
        self._depth -= 1
        if name == "rPh":
            self._phonetic -= 1
        elif name in self.collected:
            self.parser.CharacterDataHandler = None
        else:
            self.end(name)

    def _add(self, text: str) -> None:
        self.texts.append(text)
        self.characters += len(text)
        if self.characters > MOST_CELL_CHARACTERS:
            raise LimitError(f"{self.place}: a cell has over {MOST_CELL_CHARACTERS:,} characters; shorten its text")

    def take(self) -> str:
        """The text collected since the last call."""
        text = "".join(self.texts)
        self.texts.clear()
        self.characters = 0
        return text

    def _refuse_doctype(self, *_: object) -> None:
        raise ValueError("a document type definition is in it")


class _SharedTexts(_Reader):
    def __init__(self) -> None:
        super().__init__(frozenset({"t"}))
        self.place = "the texts of its cells"
        self.found: list[str] = []

    def end(self, name: str) -> None:
        if name == "si":
            self.found.append(self.take().replace("x005F_", ""))


def _shared_texts(archive: ZipFile, name: str) -> list[str]:
    reader = _SharedTexts()
    with archive.open(name) as stream:
        reader.parser.ParseFile(stream)
    return reader.found


class _SheetReader(_Reader):
    def __init__(self, name: str, settings: _Settings, budget: Budget, is_blank: Callable[[object], bool]) -> None:
        super().__init__(frozenset({"v", "t"}))
        self.place = f"sheet '{name}'"
        self.rows: list[tuple[int, Sequence[object]]] = []
        self.unsaved: set[tuple[int, int]] = set()
        self.hidden: list[int] = []
        self._row_is_hidden = False
        self._sheet = self.place
        self._settings = settings
        self._budget = budget
        self._is_blank = is_blank
        self._columns: dict[str, int] = {}
        self._number = self._column = 0
        self._cells: dict[int, object] = {}
        self._kind = "n"
        self._style = 0
        self._formula = False

    def start(self, name: str, attributes: Mapping[str, str]) -> None:
        if name == "c":
            letters = attributes.get("r", "").rstrip("0123456789")
            self._column = self._column_of(letters) if letters else self._column + 1
            self._kind = attributes.get("t", "n")
            self._style = int(attributes.get("s", 0))
            self._formula = False
        elif name == "f":
            self._formula = True
        elif name == "row":
            number = int(float(attributes.get("r", self._number + 1)))
            if not self._number < number <= _LAST_ROW:
                wrong = f"comes after row {self._number}" if number <= _LAST_ROW else f"is past the last, {_LAST_ROW:,}"
                raise LimitError(f"{self._sheet}: row {number:,} {wrong}; copy the cells to a new workbook")
            self._number, self._column = number, -1
            self._row_is_hidden = attributes.get("hidden") in ("1", "true") or attributes.get("ht") == "0"
            self.place = f"{self._sheet}, row {number}"

    def end(self, name: str) -> None:
        if name == "c":
            text = self.take()
            value = self._value(text) if text else None
            if not self._is_blank(value):
                self._cells[self._column] = value
            elif self._formula:
                self.unsaved.add((self._number, self._column))
        elif name == "row" and self._cells:
            width = max(self._cells) + 1
            if width > MOST_COLUMNS:
                columns = f"a cell in column {width:,}, and the limit is {MOST_COLUMNS:,}"
                raise LimitError(f"{self.place}: has {columns}; remove what is outside the table")
            cells = tuple([self._cells.get(column) for column in range(width)])
            self._budget.add(self.place, cells)
            self.rows.append((self._number, cells))
            if self._row_is_hidden:
                self.hidden.append(self._number)
            self._cells.clear()

    def _column_of(self, letters: str) -> int:
        """The column of its letters, from 0: A is 0, AA is 26."""
        column = self._columns.get(letters)
        if column is None:
            if not (0 < len(letters) <= 3 and letters.isascii() and letters.isalpha()):
                raise ValueError(f"'{letters[:20]}' is no column")
            column = 0
            for letter in letters.upper():
                column = 26 * column + ord(letter) - 64
            column = self._columns[letters] = column - 1
        return column

    def _value(self, text: str) -> object:
        from openpyxl.utils.datetime import from_excel, from_ISO8601

        if self._kind == "s":
            return self._settings.texts[int(text)]
        if self._kind == "b":
            return bool(int(text))
        if self._kind == "d":
            return from_ISO8601(text)
        if self._kind != "n":
            return text
        if len(text) > _LONGEST_NUMBER:
            raise ValueError(f"a number of {len(text):,} characters")
        number = float(text) if set(text) & set(".eE") else int(text)
        if self._style not in self._settings.dates:
            if self._style not in self._settings.shown:
                return number
            formatted = Formatted(number)
            formatted.code = self._settings.shown[self._style]
            return formatted
        try:
            return from_excel(number, self._settings.epoch, timedelta=self._style in self._settings.timedeltas)
        except (OverflowError, ValueError):
            return "#VALUE!"


def _sheet(
    name: str, stream: Any, settings: _Settings, budget: Budget, is_blank: Callable[[object], bool]
) -> SheetCells:
    reader = _SheetReader(name, settings, budget, is_blank)
    reader.parser.ParseFile(stream)
    hidden = f"{len(reader.hidden)} rows are hidden, the first is row {reader.hidden[0]}" if reader.hidden else ""
    return SheetCells(name, reader.rows, frozenset(reader.unsaved), hidden)
