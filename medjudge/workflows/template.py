"""`medjudge data template`: a file of a benchmark's questions in which answers are filled in."""

import csv
import io
import json
from pathlib import Path

from medjudge.benchmark.files import read_benchmark
from medjudge.errors import InputError
from medjudge.files import replacing
from medjudge.scheme import open_scheme

_FIELDS = ("question_id", "prompt", "model", "text")
_WIDTHS = (24, 60, 20, 80)


def answer_template(benchmark: str, format: str, scheme: str | None = None) -> bytes:
    """A line or row for each question: `question_id` and `prompt`, and `model` and `text` to fill in.

    Args:
        benchmark: As for `evaluate`.
        format: jsonl or csv.
        scheme: A scheme's name, folder or file.

    Raises:
        InputError: The benchmark cannot be read, or the format needs a file.
    """
    if format == "xlsx":
        raise InputError("--format xlsx: needs --out FILE; a workbook is not written to stdout")
    rows = _rows(benchmark, scheme)
    if format == "jsonl":
        lines = [json.dumps(dict(zip(_FIELDS, row, strict=True)), ensure_ascii=False) + "\n" for row in rows]
        return "".join(lines).encode()
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_FIELDS)
    # A spreadsheet would take such a prompt for a formula. Answers are matched by their ids, which stay as they are.
    for name, prompt, *blank in rows:
        writer.writerow([name, f"'{prompt}" if prompt[:1] in "=+-@\t\r" else prompt, *blank])
    return text.getvalue().encode("utf-8-sig")  # the mark tells Excel that this is UTF-8


def write_template(benchmark: str, format: str, out: Path, scheme: str | None = None) -> int:
    """Writes a template into a file, as a whole or not at all.

    Returns:
        The number of questions.

    Raises:
        InputError: The benchmark cannot be read, or openpyxl is missing for a workbook.
    """
    rows = _rows(benchmark, scheme)
    data = _workbook(rows) if format == "xlsx" else answer_template(benchmark, format, scheme)
    with replacing(out) as file:
        file.write(data)
    return len(rows)


def _rows(benchmark: str, scheme: str | None) -> list[tuple[str, ...]]:
    questions = read_benchmark(benchmark, None if scheme is None else open_scheme(scheme)).questions
    return [(question.id, question.prompt, "", "") for question in questions]


def _workbook(rows: list[tuple[str, ...]]) -> bytes:
    from openpyxl import Workbook  # takes a while to import
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
    from openpyxl.utils import get_column_letter

    book = Workbook(write_only=True)
    sheet = book.create_sheet("answers")
    for column, width in enumerate(_WIDTHS, 1):
        sheet.column_dimensions[get_column_letter(column)].width = width
    for row in [_FIELDS, *rows]:
        cells = []
        for text in row:
            cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub(" ", text) or None)
            if text:
                cell.data_type = "s"  # a prompt that begins with = is no formula
            cells.append(cell)
        sheet.append(cells)
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()
