"""`medjudge data convert`: files of other projects become this project's records."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.expert_sets import SCHEME, read_liveqa_2479, read_liveqa_med, read_mediqa2019
from medjudge.benchmark.expert_tables import read_kqa, read_morqa, read_oncqa, read_red_teaming
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
from medjudge.benchmark.llmeval_med import Oddity, read_llmeval_scores
from medjudge.benchmark.published import TEACHER, PublishedSet
from medjudge.errors import InputError
from medjudge.judge.api import file_name
from medjudge.records import Question
from medjudge.scheme import LLMEVAL_MED, Scheme, open_scheme
from medjudge.store import Run, write_records


class Format(str, Enum):
    """Formats that can be converted."""

    mediqa2019 = "mediqa2019"
    liveqa_med = "liveqa-med"
    llmeval_scores = "llmeval-scores"
    llmeval2 = "llmeval2"
    healthbench = "healthbench"
    healthbench_meta = "healthbench-meta"
    kqa = "kqa"
    morqa = "morqa"
    oncqa = "oncqa"
    red_teaming = "red-teaming"
    halluqa = "halluqa"
    evouna = "evouna"
    disc_medllm = "disc-medllm"
    liveqa_2479 = "liveqa-2479"


class _Published(NamedTuple):
    """How a published set is read, and the scheme that its questions belong to."""

    read: Callable[[Path], PublishedSet]
    scheme: str


class _InFiles(NamedTuple):
    """The same for a set of several files, or of a folder of them."""

    read: Callable[[Sequence[Path]], PublishedSet]
    scheme: str


_PUBLISHED = {
    Format.healthbench: _Published(read_healthbench, LLMEVAL_MED.name),
    Format.healthbench_meta: _Published(read_healthbench_meta, LLMEVAL_MED.name),
    Format.kqa: _Published(read_kqa, SCHEME),
    Format.morqa: _Published(read_morqa, LLMEVAL_MED.name),
    Format.oncqa: _Published(read_oncqa, SCHEME),
    Format.red_teaming: _Published(read_red_teaming, LLMEVAL_MED.name),
}
_PUBLISHED_IN_FILES = {
    Format.halluqa: _InFiles(read_halluqa, REFERENCE_QA),
    Format.evouna: _InFiles(read_evouna, REFERENCE_QA),
    Format.disc_medllm: _InFiles(read_disc_medllm, CONSULTATIONS),
    Format.liveqa_2479: _InFiles(read_liveqa_2479, SCHEME),
}


@dataclass(frozen=True)
class Converted:
    """What was written.

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


class _Records(NamedTuple):
    """Questions with their scheme, and the records of each other file."""

    questions: list[Question]
    scheme: Scheme
    others: dict[Path, Any]
    oddities: tuple[Oddity, ...] = ()


def convert_data(
    format: Format,
    files: Sequence[Path],
    out: Path,
    *,
    model: str = "model",
    judge: str = "gpt-4o",
    scheme: str | None = None,
) -> Converted:
    """Converts files into records in a folder, which can be used as a run folder.

    Args:
        format: What the files are.
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
    if format is Format.llmeval_scores:
        records = _llmeval_scores(run, files, model, judge_name, named or LLMEVAL_MED)
    elif format is Format.llmeval2:
        records = _llmeval2(run, files, named)
    elif format in _PUBLISHED or format in _PUBLISHED_IN_FILES:
        records = _published(run, format, files, named)
    else:
        records = _expert_set(run, format, files, named or open_scheme(SCHEME))
    for question in records.questions:
        if problem := records.scheme.problem_with(question.category, question.language):
            raise InputError(f"question {question.id}: {problem}; choose another --scheme")
    for path, lines in records.others.items():
        write_records(path, lines)
    run.write_questions(records.questions, records.scheme)
    written = {path: len(lines) for path, lines in records.others.items()}
    return Converted({**written, run.questions_file: len(records.questions)}, records.oddities)


def _expert_set(run: Run, format: Format, files: Sequence[Path], scheme: Scheme) -> _Records:
    if format is Format.mediqa2019:
        experts = read_mediqa2019(list(files))
    elif len(files) == 2:
        experts = read_liveqa_med(*files)
    else:
        raise InputError("liveqa-med: name two files, the XML of the reference answers and the judged answers")
    others = {run.physicians_file: experts.scores, run.answers_file: experts.answers}
    return _Records(experts.questions, scheme, others)


def _llmeval_scores(run: Run, files: Sequence[Path], model: str, judge_name: str, scheme: Scheme) -> _Records:
    scores = read_llmeval_scores(list(files), model, judge_name, scheme)
    others = {run.judgments_file(judge_name): scores.judgments, run.answers_file: scores.answers}
    oddities = tuple(oddity for oddity in scores.oddities if oddity.about_score)
    return _Records(scores.questions, scheme, others, oddities)


def _llmeval2(run: Run, files: Sequence[Path], named: Scheme | None) -> _Records:
    if len(files) != 2:
        raise InputError("llmeval2: name two files or folders, the people's scores and GPT-4's")
    read = read_llmeval2(*files)
    others = {
        run.physicians_file: read.scores,
        run.judgments_file(TEACHER): read.judgments,
        run.answers_file: read.answers,
    }
    return _Records(read.questions, named or read.scheme, others, tuple(read.oddities))


def _published(run: Run, format: Format, files: Sequence[Path], named: Scheme | None) -> _Records:
    known: _Published | _InFiles
    if format in _PUBLISHED_IN_FILES:
        known = _PUBLISHED_IN_FILES[format]
        read = known.read(files)
    elif len(files) == 1:
        known = _PUBLISHED[format]
        read = known.read(files[0])
    else:
        raise InputError(f"{format.value}: name one file")
    if not read.questions:
        raise InputError(f"{', '.join(map(str, files))}: no question in it")
    others: dict[Path, Any] = {
        run.physicians_file: read.scores,
        run.items_file: read.items,
        run.judgments_file(TEACHER): read.judgments,
        run.answers_file: read.answers,
    }
    filled = {path: records for path, records in others.items() if records}
    return _Records(read.questions, named or open_scheme(known.scheme), filled, tuple(read.oddities))
