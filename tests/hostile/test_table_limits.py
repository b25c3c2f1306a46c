"""Tables of hostile shapes are refused in one line. `eval/robustness/hostile.py tables` makes them in full size."""

import os
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZIP_LZMA, ZIP_STORED, ZipFile

import pytest
from openpyxl import Workbook

from eval.robustness import hostile_inputs as made
from medjudge.annotate.scores import read_physician_scores
from medjudge.benchmark import own_files
from medjudge.benchmark.files import check_file
from medjudge.errors import InputError
from medjudge.scheme import LLMEVAL_MED
from medjudge.tables import spreadsheets, xlsx
from medjudge.tables.columns import Problems, read_rows

GOOD = ("q1", "m", 0, "dr_a", 3, "fine")


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_physician_scores(path)
    message = str(caught.value)
    assert "\n" not in message
    return message


def sheet(path: Path, *rows: str) -> Path:
    made.write_sheet(path, iter(rows))
    return path


def test_a_cell_far_away_is_refused(tmp_path: Path) -> None:
    made.far_column(path := tmp_path / "a.xlsx")
    assert "sheet 'MK', row 124: the limit of 2,000,000 cells is reached; split the table" in refused(path)
    made.far_row(path)
    assert "sheet 'MK', row 2,000,000,000 is past the last, 1,048,576; copy" in refused(path)


def test_headings_without_cells_are_cells_of_each_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    made.headings(path)
    message = "a.csv: has 20,001 headings and 501 rows, and the limit is 2,000,000 cells; remove headings without cells"
    assert message in refused(path)
    with pytest.raises(InputError, match="20,001 headings"):
        read_rows(Problems(path), ["question_id"])


def test_a_workbook_that_unpacks_to_much_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack(*_: object) -> Iterator[str]:
        raise AssertionError("unpacked")

    monkeypatch.setattr(xlsx.ZipFile, "read", unpack)
    path = tmp_path / "a.xlsx"
    made.long_cell(path, millions=201)
    assert path.stat().st_size < 1_000_000
    assert "have 201 MB unpacked, and the limit is 200 MB" in refused(path)


@pytest.mark.parametrize("what", ["cells", "characters"])
@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_cells_and_characters_are_limited(tmp_path: Path, kind: str, what: str, monkeypatch) -> None:
    monkeypatch.setattr(spreadsheets, f"MOST_{what.upper()}", 5)
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("\n".join(",".join(map(str, cells)) for cells in [made.HEADINGS, *[GOOD] * 9]))
    else:
        sheet(path, *[made.row(GOOD)] * 9)
    assert f"row 1: the limit of 5 {what} is reached" in refused(path)


def test_a_text_that_many_cells_share_counts_in_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spreadsheets, "MOST_CHARACTERS", 50_000)
    book = Workbook(write_only=True)
    book.create_sheet("MK").append(["x" * 1000])
    for _ in range(99):
        book["MK"].append(["x" * 1000])
    book.save(tmp_path / "a.xlsx")
    assert "row 51: the limit of 50,000 characters is reached" in refused(tmp_path / "a.xlsx")


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("<a>" * 40, "not a readable .xlsx workbook (mismatched tag"),
        ("<a/>" * 6_500_001, "the limit of 6,500,000 elements of XML is reached"),
        ('<row r="5"/><row r="5"/>', "row 5 comes after row 5; copy the cells to a new workbook"),
        (f"<row><c><v>{'1' * 5000}</v></c></row>", "not a readable .xlsx workbook (Exceeds the limit (4300 digits)"),
        (f'<row><c t="str"><v>{"a" * 1_000_001}</v></c></row>', "a cell has over 1,000,000 characters"),
    ],
    ids=["deep", "many", "backwards", "digits", "long"],
)
def test_what_no_spreadsheet_program_writes_is_refused(tmp_path: Path, rows: str, message: str) -> None:
    assert message in refused(sheet(tmp_path / "a.xlsx", rows))


def test_parts_and_packings_that_spreadsheet_programs_do_not_write_are_refused(tmp_path: Path) -> None:
    path = sheet(tmp_path / "a.xlsx", made.row(GOOD))
    (score,) = read_physician_scores(path)
    assert (score.question_id, score.rater, score.score, score.comment) == ("q1", "dr_a", 3, "fine")
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}

    def changed(name: str, before: bytes, after: bytes, method: int = ZIP_STORED) -> Path:
        with ZipFile(path, "w", method) as archive:
            for part, data in parts.items():
                archive.writestr(part, data.replace(before, after) if part == name else data)
        return path

    workbook = "xl/workbook.xml"
    for name in (workbook, "xl/worksheets/a.xml"):
        dtd = changed(name, parts[name], b'<!DOCTYPE a [<!ENTITY e "x">]>' + parts[name])
        assert "a document type definition is in it" in refused(dtd)
    assert "packed by method 14" in refused(changed("", b"", b"", ZIP_LZMA))  # it may ask for 4 GiB at once
    usual, strict = b"schemas.openxmlformats.org/spreadsheetml/2006/main", b"purl.oclc.org/ooxml/spreadsheetml/main"
    assert "(a Strict Open XML Spreadsheet, and Excel's usual format is read); save it as .xlsx again" in refused(
        changed(workbook, usual, strict)
    )
    with pytest.raises(InputError, match="has no sheet of cells"):
        check_file(changed(workbook, b"officeDocument/2006/relationships", b"officeDocument/x"))


def test_a_line_of_commas_and_a_large_file_are_refused_before_they_are_cut_into_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question_id\n" + "," * 1_000_001)
    assert "line 2: has 1,000,001 characters, and the limit is 1,000,000" in refused(path)
    path.write_text("," * 1_000_001)
    assert "line 1: has 1,000,001 characters" in refused(path)
    path.write_text("x" * 131_073 + ",model\n")
    assert "a.csv, row 1: not valid CSV (field larger than field limit" in refused(path)
    os.truncate(path, (64 << 20) + 1)
    assert "a.csv: 65 MiB, and the limit is 64 MiB; split it into several files" in refused(path)  # rounded up


def test_a_file_of_too_many_questions_is_refused_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "questions.jsonl"
    made.questions(file, count=4)
    with file.open("a") as lines:
        lines.write("not read at all")
    monkeypatch.setattr(own_files, "MOST_QUESTIONS", 3)
    with pytest.raises(InputError, match="line 4: the limit of 3 questions is reached; split the file"):
        own_files.read_own_questions(file, LLMEVAL_MED)


def test_hidden_rows_and_sheets_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    book = Workbook()
    book.active.title = "scores"
    for cells in (["id", "score"], ["a", 1], ["b", 2], ["c", 3]):
        book.active.append(cells)
    book.active.row_dimensions[3].hidden = True
    book.create_sheet("old").append(["id", "score"])
    book["old"].sheet_state = "veryHidden"
    book.create_sheet("empty").sheet_state = "hidden"
    book.save(tmp_path / "x.xlsx")
    assert len(read_rows(Problems(tmp_path / "x.xlsx"), ["id", "score"])) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"{tmp_path / 'x.xlsx'}, sheet 'scores': 1 rows are hidden, the first is row 3, and read")
    assert second.startswith(f"{tmp_path / 'x.xlsx'}, sheet 'old': the sheet is hidden, and read")
