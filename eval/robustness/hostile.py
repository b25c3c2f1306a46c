"""Counts of hostile inputs that are read or refused as documented: drawn ones for every reader, and huge tables.

    python eval/robustness/hostile.py readers [INPUTS]
    python eval/robustness/hostile.py tables WORK

`readers` gives each reader INPUTS (300 unless given), drawn anew from a seed that the result names. A reader passes
where it returns a typed value that can be written again, or raises the error that it documents, within 10 s of
processor time. `tables` writes tables and questions of hostile shapes into WORK and reads each in a process of its own,
as `validate --physicians`, `annotate export` and `data check` read it, within 20 s of processor time and 1 GiB. The
results are the entries of these names in eval/results/robustness.json. The exit status is 1 where an input fails.
"""

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from eval.lib.study import record_entry
from eval.robustness import hostile_inputs as made
from eval.robustness.hostile_readers import MOST_SECONDS, READERS, Reader, outcome

SEED = 17
TABLE_SECONDS, TABLE_BYTES = 20.0, 1 << 30
READ = "from medjudge.annotate.scores import read_physician_scores as read; print(len(read(file)), 'scores')"
WRAP = "from medjudge.annotate.workbook import parts_of as parts; print(len(parts(file.read_text(), 60)), 'rows')"
CHECK = (
    "from medjudge.benchmark.files import check_file; from medjudge.cli.data import oddity_lines; "
    "print(len(list(oddity_lines(check_file(file).oddities, False))), 'lines')"
)
SHAPES: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "a cell of 1.5 GB": ("a.xlsx", partial(made.long_cell, millions=1500), READ),
    "2 GB of rows": ("b.xlsx", made.huge_sheet, READ),
    "a row numbered 2,000,000,000": ("c.xlsx", made.far_row, READ),
    "100,000 rows as wide as Excel": ("d.xlsx", made.far_column, READ),
    "20,000 headings of 500 rows": ("p.csv", made.headings, READ),
    "elements 10,000,000 deep": ("e.xlsx", made.deep, READ),
    "a sheet of 99,999 scores": ("f.xlsx", partial(made.proper_sheet, count=99_999), READ),
    "a sheet of 199,999 scores": ("n.xlsx", partial(made.proper_sheet, count=199_999), READ),
    "the same from openpyxl": ("g.xlsx", made.proper_workbook, READ),
    "a CSV of 99,999 scores": ("h.csv", partial(made.write_csv, count=99_999), READ),
    "a CSV of 1,000,000 scores": ("i.csv", partial(made.write_csv, count=1_000_000), READ),
    "a CSV line of 50,000,000 commas": ("j.csv", lambda file: file.write_text("," * 50_000_000), READ),
    "an answer of 10 MB in one line": ("k.txt", lambda file: file.write_text("word " * 2_000_000), WRAP),
    "200,000 questions without reference": ("o.jsonl", partial(made.questions, count=200_000), CHECK),
    "600,000 questions without reference": ("l.jsonl", partial(made.questions, count=600_000), CHECK),
    "a question in round 10**12": ("m.jsonl", partial(made.questions, count=1, round=10**12), CHECK),
}
CHILD = """
import re, resource, sys
from pathlib import Path
from medjudge.errors import InputError
file = Path(sys.argv[1])
try:
    {code}
except InputError as error:
    print("refused:", str(error).replace(str(file), file.name))
used = resource.getrusage(resource.RUSAGE_SELF)
# The peak of this program alone: ru_maxrss starts at what the parent held.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print(used.ru_utime + used.ru_stime, peak * 1024)
"""


def tried(reader: Reader, inputs: int) -> tuple[Counter[str], dict[str, str]]:
    """Counts the outcomes of one reader; and the first input, as text, of each problem."""
    counts: Counter[str] = Counter()
    problems: dict[str, str] = {}

    @seed(SEED)
    @settings(
        max_examples=inputs, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=[*HealthCheck]
    )
    @given(st.data())
    def count(data: st.DataObject) -> None:
        content = data.draw(made.hostile_files(reader))
        result = outcome(reader, content)
        counts["read" if result.read else "broken" if result.problem else "refused"] += 1
        if result.problem:
            problems.setdefault(result.problem, repr(content)[:300])

    count()
    return counts, problems


def try_readers(inputs: int) -> dict[str, Any]:
    """Counts by reader, and the problems: an input for each, by reader."""
    by_reader: dict[str, dict[str, int]] = {}
    problems: dict[str, dict[str, str]] = {}
    for reader in READERS:
        counts, found = tried(reader, inputs)
        by_outcome = {name: counts[name] for name in ("read", "refused", "broken")}
        by_reader[reader.name] = {"inputs": sum(counts.values()), **by_outcome}
        if found:
            problems[reader.name] = found
        print(reader.name, by_reader[reader.name], found, file=sys.stderr, flush=True)
    names = ("inputs", "read", "refused", "broken")
    totals = {name: sum(counts[name] for counts in by_reader.values()) for name in names}
    limits = {"seed": SEED, "processor_seconds_at_most": MOST_SECONDS}
    return {**limits, **totals, "by_reader": by_reader, "problems": problems}


def try_tables(folder: Path) -> dict[str, Any]:
    """Outcome, seconds and peak memory of each shape; `problems` names those that exceed a limit."""
    shapes: dict[str, dict[str, Any]] = {}
    problems = []
    for shape, (name, make, code) in SHAPES.items():
        path = folder / name
        make(path)
        start = time.monotonic()
        command = [sys.executable, "-c", CHILD.format(code=code), str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        wall = time.monotonic() - start
        *outcome, used = done.stdout.strip().split("\n") if done.returncode == 0 else (f"exit {done.returncode}", "0 0")
        processor, memory = map(float, used.split())
        if done.returncode != 0 or processor > TABLE_SECONDS or memory > TABLE_BYTES:
            problems.append(shape)
        shapes[shape] = {
            "bytes": path.stat().st_size,
            "outcome": outcome[-1],
            "seconds": round(wall, 1),
            "processor_seconds": round(processor, 1),
            "peak_mib": round(memory / (1 << 20)),
        }
        print(shape, shapes[shape], file=sys.stderr, flush=True)
        path.unlink()
    return {"problems": problems, "shapes": shapes}


def main() -> None:
    """Records the counts of readers or of tables."""
    match sys.argv[1:]:
        case ["readers", *rest] if not rest or (len(rest) == 1 and rest[0].isdecimal()):
            inputs = int(rest[0]) if rest else 300
            command, result = f"readers {inputs}", try_readers(inputs)
        case ["tables", folder]:
            command, result = "tables WORK", try_tables(Path(folder))
        case _:
            sys.exit("usage: python eval/robustness/hostile.py readers [INPUTS] | tables WORK")
    record_entry(
        "robustness", command.split()[0], {"command": f"python eval/robustness/hostile.py {command}", **result}
    )
    sys.exit(bool(result["problems"]))


if __name__ == "__main__":
    main()
