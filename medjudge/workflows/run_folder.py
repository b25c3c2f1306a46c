"""What the workflows write into a run folder beside answers and judgments."""

from collections.abc import Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

from medjudge.benchmark.files import read_benchmark
from medjudge.benchmark.llmeval_med import Benchmark
from medjudge.chat_api.spending import Limit, Spending
from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.models.hardware import describe
from medjudge.records import Answer, Question
from medjudge.rubrics.render import prompt_hashes, styles_of
from medjudge.scheme import Scheme, open_scheme
from medjudge.store import Run, read_questions, write_records, write_scheme
from medjudge.workflows.choice import examples

_VERSIONS = ("medjudge", "torch", "transformers", "peft")


def default_run(benchmark: str) -> Path:
    """The run folder of a benchmark where none is named: `runs/BENCHMARK`."""
    return Path("runs") / Path(benchmark).stem


def open_benchmark(benchmark: str, scheme: str | None, run: Run) -> Benchmark:
    """Reads a benchmark by the scheme that is named or, where none is, by the copy that an existing run keeps.

    Args:
        benchmark: `sample`, LLMEval-Med's `dataset.json`, or a `.jsonl` file of questions.
        scheme: A scheme's name, folder or file.
        run: Where the questions go.

    Raises:
        InputError: The benchmark or the scheme is wrong.
    """
    if scheme is not None:
        return read_benchmark(benchmark, open_scheme(scheme))
    return read_benchmark(benchmark, run.scheme() if run.has_scheme else None)


def adopt_scheme(run: Run, source: str) -> None:
    """Gives a run that keeps no copy of its scheme this one.

    Args:
        source: A scheme's name, folder or file.

    Raises:
        InputError: There is no such scheme, the run keeps a copy of another one, or a question is outside it.
    """
    scheme = open_scheme(source)
    if run.has_scheme:
        if run.scheme().sha256 != scheme.sha256:
            raise InputError(f"--scheme {source}: {run.path} keeps a copy of another scheme; leave --scheme out")
        return
    read_questions(run.questions_file, scheme)
    write_scheme(run.path, scheme)


def start_run(run: Run, questions: Sequence[Question], scheme: Scheme, benchmark: str, command: dict[str, Any]) -> None:
    """Writes the questions into a run folder, or checks that the folder holds the same ones already.

    Args:
        scheme: What the questions belong to.
        command: The settings of the command, for the manifest.

    Raises:
        InputError: The folder belongs to another benchmark.
    """
    if run.questions_file.exists():
        if run.scheme().sha256 != scheme.sha256:
            raise InputError(
                f"--run {run.path}: holds questions of another scheme, or of an earlier state of {scheme.name}; choose "
                "another --run"
            )
        if run.questions() != list(questions):
            raise InputError(
                f"--run {run.path}: holds other questions than {benchmark} (or another choice of them); choose "
                "another --run"
            )
    else:
        run.write_questions(questions, scheme)
    run.update_manifest(
        id=run.manifest().get("id", uuid4().hex),
        versions={name: version(name) for name in _VERSIONS},
        command=command,
        benchmark={"source": benchmark, "questions": len(questions), "sha256": file_sha256(run.questions_file)},
        scheme=scheme.ref.model_dump(),
        prompts={style: prompt_hashes(style, scheme) for style in styles_of(scheme)},
        hardware=describe(),
        updated=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def require_answers_to(questions: Sequence[Question], answers: Sequence[Answer], source: str) -> None:
    """Refuses answers that are none, or not all to questions of a benchmark.

    Raises:
        InputError: There is no answer, or an answer belongs to no question of the benchmark.
    """
    if not answers:
        raise InputError(f"{source}: no answer in it; `medjudge data template` writes a file to fill in")
    known = {question.id for question in questions}
    strangers = [answer for answer in answers if answer.question_id not in known]
    if strangers:
        first = strangers[0]
        raise InputError(
            f"{source}: the answer of {first.model} to '{first.question_id}' belongs to no question of the benchmark "
            f"({len(strangers):,} of {len(answers):,} answers belong to none); its ids look like "
            f"{examples([question.id for question in questions])}, and `medjudge data template` writes them"
        )


def add_answers(run: Run, answers: Sequence[Answer], source: str) -> None:
    """Adds existing answers to a run.

    Raises:
        InputError: An answer differs from the one that the run has.
    """
    existing = {answer.key: answer for answer in run.answers()}
    for answer in answers:
        if answer.key in existing and existing[answer.key].text != answer.text:
            raise InputError(
                f"{source}: the answer to {answer.question_id} by {answer.model} differs from the one in {run.path}; "
                "choose another --run"
            )
    if not existing.keys() >= {answer.key for answer in answers}:
        merged = {**{answer.key: answer for answer in answers}, **existing}
        write_records(run.answers_file, merged.values())


def record_spending(run: Run, prices: Path | None) -> None:
    """Writes into `run.json` what requests to servers have cost so far."""
    if run.spending_file.exists():
        run.update_manifest(spending=Spending(run, Limit(None, prices)).totals())
