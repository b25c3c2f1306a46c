"""Whether tables of hostile shapes are read or refused within 20 s and 1 GiB.

    python eval/hostile_tables.py WORK

WORK is an empty folder. Each file is made there and read in a process of its own, as `validate --physicians`,
`annotate export` and `data check` read it. The outcome, the seconds of wall clock and of processor, and the peak memory
of the process go to eval/results/hostile-tables.json. The exit status is 1 if a shape exceeds a limit.
"""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import Process
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

MOST_SECONDS, MOST_BYTES = 20.0, 1 << 30
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
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
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


def huge_cell(path: Path) -> None:
    """A file of 1.5 MB with a cell of 1.5 GB."""
    write_sheet(path, (text for text in ["<row><c><v>", *["a" * 10_000_000] * 150, "</v></c></row>"]))


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
    from openpyxl import Workbook

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


def separators(path: Path) -> None:
    """One line of 50,000,000 commas."""
    path.write_text("," * 50_000_000)


def long_answer(path: Path) -> None:
    """A text of 10 MB in one line."""
    path.write_text("word " * 2_000_000)


def questions(path: Path, count: int) -> None:
    """Questions that lack a reference and earlier turns."""
    with path.open("w") as file:
        for number in range(count):
            file.write(json.dumps({**QUESTION, "id": f"q{number}", "group": f"g{number}", "round": 3}) + "\n")


def far_round(path: Path) -> None:
    """A question in round 10**12."""
    path.write_text(json.dumps({**QUESTION, "id": "q", "group": "g", "round": 10**12}) + "\n")


READ = "from medjudge.annotate.scores import read_physician_scores as read; print(len(read(file)), 'scores')"
WRAP = "from medjudge.annotate.wrapping import parts_of as parts; print(len(parts(file.read_text(), 60)), 'rows')"
CHECK = (
    "from medjudge.benchmark.files import check_file; from medjudge.cli.data import oddity_lines; "
    "print(len(list(oddity_lines(check_file(file).oddities, False))), 'lines')"
)
SHAPES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "a cell of 1.5 GB": ("a.xlsx", huge_cell, READ),
    "2 GB of rows": ("b.xlsx", huge_sheet, READ),
    "a row numbered 2,000,000,000": ("c.xlsx", far_row, READ),
    "100,000 rows as wide as Excel": ("d.xlsx", far_column, READ),
    "elements 10,000,000 deep": ("e.xlsx", deep, READ),
    "a sheet of 99,999 scores": ("f.xlsx", partial(proper_sheet, count=99_999), READ),
    "a sheet of 199,999 scores": ("n.xlsx", partial(proper_sheet, count=199_999), READ),
    "the same from openpyxl": ("g.xlsx", proper_workbook, READ),
    "a CSV of 99,999 scores": ("h.csv", partial(write_csv, count=99_999), READ),
    "a CSV of 1,000,000 scores": ("i.csv", partial(write_csv, count=1_000_000), READ),
    "a CSV line of 50,000,000 commas": ("j.csv", separators, READ),
    "an answer of 10 MB in one line": ("k.txt", long_answer, WRAP),
    "200,000 questions without reference": ("o.jsonl", partial(questions, count=200_000), CHECK),
    "600,000 questions without reference": ("l.jsonl", partial(questions, count=600_000), CHECK),
    "a question in round 10**12": ("m.jsonl", far_round, CHECK),
}
CHILD = """
import resource, sys
from pathlib import Path
from medjudge.errors import InputError
file = Path(sys.argv[1])
try:
    {code}
except InputError as error:
    print("refused:", str(error).replace(str(file), file.name))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)
"""


def main() -> None:
    """Makes the files, reads them and writes the result."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(sys.argv[1])
    results: dict[str, dict[str, object]] = {}
    within = True
    for shape, (name, make, code) in SHAPES.items():
        path = folder / name
        # In a process of its own: a child's peak memory starts at what its parent holds.
        making = Process(target=make, args=(path,))
        making.start()
        making.join()
        start = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(code=code), str(path)], capture_output=True, text=True, check=False
        )
        wall = time.monotonic() - start
        *outcome, used = done.stdout.strip().split("\n") if done.returncode == 0 else (f"exit {done.returncode}", "0 0")
        processor, memory = map(float, used.split())
        within &= done.returncode == 0 and processor <= MOST_SECONDS and memory <= MOST_BYTES
        results[shape] = {
            "bytes": path.stat().st_size,
            "outcome": outcome[-1],
            "seconds": round(wall, 1),
            "processor_seconds": round(processor, 1),
            "peak_mib": round(memory / (1 << 20)),
        }
        print(shape, results[shape], flush=True)
        path.unlink()
    from study import record  # loads torch, whose memory would count as that of the children

    record("hostile-tables", {"command": "python eval/hostile_tables.py WORK", "within": within, "shapes": results})
    sys.exit(not within)


if __name__ == "__main__":
    main()
