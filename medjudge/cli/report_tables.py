"""What `medjudge report --format` writes: tables alone, on stdout or in a file."""

import sys
from collections.abc import Sequence
from pathlib import Path

from medjudge.errors import InputError
from medjudge.files import file_sha256, write_whole
from medjudge.judge.study import read_study
from medjudge.report.contents import names_apart
from medjudge.report.leaderboard import usable_table
from medjudge.report.tables import Board, Kind, agreement_csv, latex, markdown, rates_csv
from medjudge.store import Run
from medjudge.workflows.judge import write_scores


def write_tables(
    runs: Sequence[Run], judges: Sequence[str], format: str, kinds: Sequence[Kind], out: Path | None
) -> None:
    """Writes the tables of the judges' scores; `scores.json` of each run is written, too.

    Args:
        judges: The judge of each run.
        format: csv, latex or markdown.
        kinds: Which tables; all that the format holds unless given.
        out: The file; stdout where there is none.

    Raises:
        InputError: Agreement is wanted and no judge is validated, or one CSV is to hold tables of different columns.
    """
    if format == "csv" and "agreement" in kinds and len(kinds) > 1:
        raise InputError("--format csv: agreement has columns of its own; give --table agreement alone")
    boards = [_board(*one) for one in zip(names_apart(runs), runs, judges, strict=True)]
    if "agreement" in kinds and not any(board.study for board in boards):
        raise InputError(
            f"--table agreement: nothing is measured yet; run `medjudge validate {runs[0].path} --judge {judges[0]}`"
        )
    if format == "csv":
        text = agreement_csv(boards) if "agreement" in kinds else rates_csv(boards, kinds)
        for note in dict.fromkeys(note for board in boards for note in board.notes):  # the file has no place for them
            print(note, file=sys.stderr)
    else:
        text = {"latex": latex, "markdown": markdown}[format](boards, kinds)
    if out is None:
        # As bytes: CSV keeps its line ends, and Chinese its characters, whatever the terminal is set to.
        sys.stdout.buffer.write(text.encode())
    else:
        write_whole(out, text)
        print(out)


def _board(name: str, run: Run, judge: str) -> Board:
    scores, _ = write_scores(run, judge)
    questions = run.questions()
    # The same name with other weights is another judge.
    manifest = run.manifest()
    identity = manifest.get("judges", {}).get(judge, {}).get("sha256", judge)
    return Board(
        name,
        judge,
        f"{identity} {file_sha256(run.questions_file)}",
        scores,
        questions,
        usable_table(questions, run.judgments(judge), list(scores["models"])),
        read_study(run, judge),
        manifest.get("notes", []),
    )
