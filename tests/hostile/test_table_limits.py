"""Tables of hostile shapes are refused in one line. `eval/robustness/hostile.py tables` makes them in full size."""

from collections.abc import Callable, Iterator
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile

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


def test_a_sheet_is_read_as_it_stands(tmp_path: Path) -> None:
    (score,) = read_physician_scores(sheet(tmp_path / "a.xlsx", made.row(GOOD)))
    assert (score.question_id, score.rater, score.score, score.comment) == ("q1", "dr_a", 3, "fine")


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (made.far_column, "sheet 'MK', row 124: the limit of 2,000,000 cells is reached; split the table"),
        (made.far_row, "sheet 'MK', row 2,000,000,000 is past the last, 1,048,576; copy"),
    ],
)
def test_a_cell_far_away_is_refused(tmp_path: Path, write: Callable[[Path], None], message: str) -> None:
    write(tmp_path / "a.xlsx")
    assert message in refused(tmp_path / "a.xlsx")


def test_headings_without_cells_are_cells_of_each_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    made.headings(path)
    message = "a.csv: has 20,001 headings and 501 rows, and the limit is 2,000,000 cells; remove headings without cells"
    assert message in refused(path)
    with pytest.raises(InputError, match="20,001 headings"):
        read_rows(Problems(path), ["question_id"])


def test_a_size_is_rounded_up(tmp_path: Path) -> None:
    with (tmp_path / "a.csv").open("wb") as file:
        file.truncate((64 << 20) + 1)
    assert "a.csv: 65 MiB, and the limit is 64 MiB; split it into several files" in refused(tmp_path / "a.csv")


def test_a_workbook_that_unpacks_to_much_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unpack(*_: object) -> Iterator[str]:
        raise AssertionError("unpacked")

    monkeypatch.setattr(xlsx.ZipFile, "read", unpack)
    path = tmp_path / "a.xlsx"
    made.long_cell(path, millions=201)
    assert path.stat().st_size < 1_000_000
    assert "have 201 MB unpacked, and the limit is 200 MB" in refused(path)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("MOST_CELLS", "row 1: the limit of 5 cells is reached"),
        ("MOST_CHARACTERS", "row 1: the limit of 5 characters is reached"),
    ],
)
@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_cells_and_characters_are_limited(
    tmp_path: Path, kind: str, limit: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreadsheets, limit, 5)
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        path.write_text("\n".join(",".join(map(str, cells)) for cells in [made.HEADINGS, *[GOOD] * 9]))
    else:
        sheet(path, *[made.row(GOOD)] * 9)
    assert message in refused(path)


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


def test_a_workbook_whose_sheets_cannot_be_found_is_refused(tmp_path: Path) -> None:
    Workbook().save(tmp_path / "whole.xlsx")
    with ZipFile(tmp_path / "whole.xlsx") as whole, ZipFile(tmp_path / "a.xlsx", "w") as copy:
        for name in whole.namelist():
            part = whole.read(name)
            named = part.replace(b"officeDocument/2006/relationships", b"officeDocument/x")
            copy.writestr(name, named if name == "xl/workbook.xml" else part)
    with pytest.raises(InputError, match="has no sheet of cells"):
        check_file(tmp_path / "a.xlsx")


def test_a_dtd_and_another_packing_are_refused(tmp_path: Path) -> None:
    path = sheet(tmp_path / "a.xlsx", made.row(GOOD))
    with ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for name in ("xl/workbook.xml", "xl/worksheets/a.xml"):
        with ZipFile(path, "w") as archive:
            for part, data in parts.items():
                archive.writestr(part, b'<!DOCTYPE a [<!ENTITY e "x">]>' + data if part == name else data)
        assert "a document type definition is in it" in refused(path)
    with ZipFile(path, "w", ZIP_LZMA) as archive:  # it may ask for 4 GiB before the first byte
        for part, data in parts.items():
            archive.writestr(part, data)
    assert "packed by method 14" in refused(path)


def test_a_line_of_commas_is_refused_before_it_is_cut_into_cells(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question_id\n" + "," * 1_000_001)
    assert "line 2: has 1,000,001 characters, and the limit is 1,000,000" in refused(path)
    path.write_text("," * 1_000_001)
    assert "line 1: has 1,000,001 characters" in refused(path)


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
