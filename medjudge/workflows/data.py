"""`medjudge data`: files of other projects become records, and a file to fill answers in."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.expert_sets import SCHEME, read_liveqa_2479, read_liveqa_med, read_mediqa2019
from medjudge.benchmark.expert_tables import read_kqa, read_morqa, read_oncqa, read_red_teaming
from medjudge.benchmark.files import read_benchmark
from medjudge.benchmark.json_sets import (
    CONSULTATIONS,
    REFERENCE_QA,
    read_disc_medllm,
    read_evouna,
    read_halluqa,
    read_healthbench,
    read_healthbench_meta,
)
from medjudge.benchmark.llmeval2 import read_llmeval2
from medjudge.benchmark.llmeval_med import read_llmeval_scores
from medjudge.benchmark.published import TEACHER, Oddity, PublishedSet
from medjudge.errors import InputError
from medjudge.judge.api import file_name
from medjudge.scheme import LLMEVAL_MED, open_scheme
from medjudge.store import Run, write_records


class _Set(NamedTuple):
    """The reader of a published set's files, and the scheme of its questions; None where it defines its own."""

    read: Callable[..., PublishedSet]
    scheme: str | None
    number: int = 0
    """The number of files that `read` takes, one by one; 0 where it takes all at once."""
    names: str = "one file"
    """The files, for the message about another number of them."""


_MED = LLMEVAL_MED.name
_LIVEQA_MED = "two files, the XML of the reference answers and the judged answers"
_LIVEQA_2479 = "two files, the XML of the reference answers and the zip archive of the judged answers"
_LLMEVAL2 = "two files or folders, the people's scores and GPT-4's"
_SETS = {
    "mediqa2019": _Set(read_mediqa2019, SCHEME),
    "liveqa-med": _Set(read_liveqa_med, SCHEME, 2, _LIVEQA_MED),
    "llmeval2": _Set(read_llmeval2, None, 2, _LLMEVAL2),
    "healthbench": _Set(read_healthbench, _MED, 1),
    "healthbench-meta": _Set(read_healthbench_meta, _MED, 1),
    "kqa": _Set(read_kqa, SCHEME, 1),
    "morqa": _Set(read_morqa, _MED, 1),
    "oncqa": _Set(read_oncqa, SCHEME, 1),
    "red-teaming": _Set(read_red_teaming, _MED, 1),
    "halluqa": _Set(read_halluqa, REFERENCE_QA),
    "evouna": _Set(read_evouna, REFERENCE_QA),
    "disc-medllm": _Set(read_disc_medllm, CONSULTATIONS),
    "liveqa-2479": _Set(read_liveqa_2479, SCHEME, 2, _LIVEQA_2479),
}
"""By format."""


@dataclass(frozen=True)
class Converted:
    """The files that were written.

    Attributes:
        written: The number of records by file.
        oddities: What looked wrong in the files, with its place.
    """

    written: dict[Path, int]
    oddities: tuple[Oddity, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The object that `data convert --json` prints."""
        return {
            "written": {str(file): count for file, count in self.written.items()},
            "oddities": [{"place": oddity.place, "what": oddity.what} for oddity in self.oddities],
        }


def convert_data(
    format: str,
    files: Sequence[Path],
    out: Path,
    *,
    model: str = "model",
    judge: str = "gpt-4o",
    scheme: str | None = None,
) -> Converted:
    """Converts files into records in a folder, which can be used as a run folder.

    Args:
        format: What the files are: a published set, as `medjudge data convert --help` lists them, or `llmeval-scores`.
        out: A folder without questions so far.
        model: `llmeval-scores`: the model that answered.
        judge: `llmeval-scores`: the judge that scored.
        scheme: What the questions belong to: a scheme's name, folder or file; the format's own unless given.

    Raises:
        InputError: A file breaks its format, or `out` holds questions already.
    """
    judge_name = file_name(judge)
    if not model.strip() or not judge_name.strip():
        raise InputError("--model and --judge: a name is needed, not an empty text")
    run = Run(out)
    if run.questions_file.exists():
        raise InputError(f"--out {out}: holds {run.questions_file.name} already; remove it, or choose another folder")
    named = None if scheme is None else open_scheme(scheme)
    if format == "llmeval-scores":
        known = named or LLMEVAL_MED
        read = read_llmeval_scores(list(files), model, judge_name, known)
    else:
        read = read_published(format, files)
        known = named or (read.scheme if (own := _SETS[format].scheme) is None else open_scheme(own))
        judge_name = TEACHER
    for question in read.questions:
        if problem := known.problem_with(question.category, question.language):
            raise InputError(f"question {question.id}: {problem}; choose another --scheme")
    others: dict[Path, Any] = {run.physicians_file: read.scores, run.items_file: read.items}
    others[run.judgments_file(judge_name)] = read.judgments
    others[run.answers_file] = read.answers
    filled = {path: records for path, records in others.items() if records}
    for path, records in filled.items():
        write_records(path, records)
    run.write_questions(read.questions, known)
    written = {path: len(records) for path, records in filled.items()}
    return Converted({**written, run.questions_file: len(read.questions)}, tuple(read.oddities))


def read_published(format: str, files: Sequence[Path]) -> PublishedSet:
    """Reads the files of a published set.

    Raises:
        InputError: There are too few or too many of them, one breaks its format, or there is no question in them.
    """
    published = _SETS[format]
    if published.number and len(files) != published.number:
        raise InputError(f"{format}: name {published.names}")
    read = published.read(*files) if published.number else published.read(files)
    if not read.questions:
        raise InputError(f"{', '.join(map(str, files))}: no question in it")
    return read


_WIDTHS = {"question_id": 24, "prompt": 60, "model": 20, "text": 80}
"""The fields of a template, and the widths of their columns in a workbook."""


def answer_template(benchmark: str, format: str, scheme: str | None = None) -> tuple[bytes, int]:
    """A line or row for each question: `question_id` and `prompt`, and `model` and `text` to fill in.

    Args:
        benchmark: As for `evaluate`.
        format: jsonl, csv or xlsx.
        scheme: A scheme's name, folder or file.

    Returns:
        The content of the file, and the number of questions.

    Raises:
        InputError: The benchmark cannot be read.
    """
    questions = read_benchmark(benchmark, None if scheme is None else open_scheme(scheme)).questions
    rows = [(question.id, question.prompt, "", "") for question in questions]
    if format == "xlsx":
        return _workbook(rows), len(rows)
    if format == "jsonl":
        lines = [json.dumps(dict(zip(_WIDTHS, row, strict=True)), ensure_ascii=False) + "\n" for row in rows]
        return "".join(lines).encode(), len(rows)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_WIDTHS)
    # A spreadsheet would take such a prompt for a formula. Answers are matched by their ids, which stay as they are.
    for name, prompt, *blank in rows:
        writer.writerow([name, f"'{prompt}" if prompt[:1] in "=+-@\t\r" else prompt, *blank])
    return text.getvalue().encode("utf-8-sig"), len(rows)  # the mark tells Excel that this is UTF-8


def _workbook(rows: Sequence[tuple[str, ...]]) -> bytes:
    from openpyxl import Workbook  # takes a while to import
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    book = Workbook()
    sheet = book.active
    for row in [tuple(_WIDTHS), *rows]:
        sheet.append([ILLEGAL_CHARACTERS_RE.sub(" ", text) or None for text in row])
    for letter, width in zip("ABCD", _WIDTHS.values(), strict=True):
        sheet.column_dimensions[letter].width = width
        for cell in sheet[letter]:
            if cell.value:
                cell.data_type = "s"  # a prompt that begins with = is no formula
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()
