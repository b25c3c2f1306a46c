"""The questions and answers of a run folder: which are used, how they come in, and which judge is meant."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from datetime import datetime, timezone
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from medjudge.benchmark.files import read_benchmark
from medjudge.benchmark.own_files import read_own_answers
from medjudge.chat_api.spending import Limit, Spending
from medjudge.errors import InputError
from medjudge.files import file_sha256, read_text
from medjudge.models.hardware import describe
from medjudge.records import Answer, AnswerKey, Question
from medjudge.rubrics.render import prompt_hashes, styles_of
from medjudge.scheme import Scheme, open_scheme
from medjudge.store import Run, read_questions, write_records, write_scheme

_VERSIONS = ("medjudge", "torch", "transformers", "peft")


class Choice(NamedTuple):
    """A choice of questions. A chosen question brings the earlier turns of its conversation.

    Attributes:
        ids: A text file with the ids of questions, one a line.
        per_category: Only the first so many questions of each category.
        answered_only: Only questions that have an answer.
    """

    ids: Path | None = None
    per_category: int | None = None
    answered_only: bool = False


class OpenedBenchmark(NamedTuple):
    """Questions and what they belong to.

    Attributes:
        source: Where they come from, as the user or the run names it.
        questions: All of them, or those of a run.
        scheme: What they belong to.
        of_run: Whether they were read from an existing run folder.
    """

    source: str
    questions: list[Question]
    scheme: Scheme
    of_run: bool = False


def open_benchmark(
    benchmark: str | None,
    scheme: str | None = None,
    folder: Path | str | None = None,
    choice: Choice = Choice(),
    limit: int | None = None,
) -> tuple[Run, OpenedBenchmark]:
    """Reads a benchmark by the scheme that is named or, where none is, by the copy that an existing run keeps.

    Without a benchmark, a run folder that exists goes on with its own questions. A choice of questions is made from the
    benchmark that the run names, so that another choice than before is noticed.

    Args:
        benchmark: `sample`, LLMEval-Med's `dataset.json`, or a `.jsonl` file of questions.
        scheme: A scheme's name, folder or file.
        folder: Where the questions go; `runs/BENCHMARK` unless given.

    Returns:
        The run, which need not exist, and the benchmark.

    Raises:
        InputError: The benchmark or the scheme is wrong.
    """
    source = benchmark or "sample"
    run = Run(Path(folder) if folder else Path("runs") / Path(source).stem)
    if benchmark is None and folder is not None and run.questions_file.exists():
        source = (run.manifest().get("benchmark") or {}).get("source", str(run.questions_file))
        readable = source == "sample" or Path(source).is_file()
        if (choice, limit, scheme) == (Choice(), None, None) or not readable:
            return run, OpenedBenchmark(source, run.questions(), run.scheme(), of_run=True)
    named = open_scheme(scheme) if scheme is not None else run.scheme() if run.has_scheme else None
    opened = read_benchmark(source, named)
    return run, OpenedBenchmark(source, opened.questions, opened.scheme)


def adopt_scheme(run: Run, source: str) -> None:
    """Gives a run that keeps no copy of its scheme this one.

    Args:
        source: A scheme's name, folder or file.

    Raises:
        InputError: There is no such scheme, the run keeps a copy of another one, or a question is outside it.
    """
    scheme = open_scheme(source)
    if not run.has_scheme:
        read_questions(run.questions_file, scheme)
        write_scheme(run.path, scheme)
    elif run.scheme().sha256 != scheme.sha256:
        raise InputError(f"--scheme {source}: {run.path} keeps a copy of another scheme; leave --scheme out")


def start_run(run: Run, questions: Sequence[Question], scheme: Scheme, source: str, command: dict[str, Any]) -> None:
    """Writes the questions into a run folder, or checks that the folder holds the same ones already.

    Args:
        scheme: What the questions belong to.
        source: Where they come from.
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
                f"--run {run.path}: holds other questions than {source} (or another choice of them); choose "
                "another --run"
            )
    else:
        # Written first: after a kill, the same command without --benchmark reads the questions' source from it.
        run.update_manifest(benchmark={"source": source})
        run.write_questions(questions, scheme)
    run.update_manifest(
        id=run.manifest().get("id", uuid4().hex),
        versions={name: version(name) for name in _VERSIONS},
        command=command,
        benchmark={"source": source, "questions": len(questions), "sha256": file_sha256(run.questions_file)},
        scheme=scheme.ref.model_dump(),
        prompts={style: prompt_hashes(style, scheme) for style in styles_of(scheme)},
        hardware=describe(),
        updated=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def answers_of_files(files: Sequence[Path], questions: Sequence[Question]) -> list[Answer]:
    """Reads answers to questions of a benchmark.

    Raises:
        InputError: A file cannot be read or has no answer, an answer belongs to no question, or to two files.
    """
    known = {question.id for question in questions}
    merged: dict[AnswerKey, Answer] = {}
    for file in files:
        answers = read_own_answers(file, questions)
        if not answers:
            raise InputError(f"{file}: no answer in it; `medjudge data template` writes a file to fill in")
        strangers = [answer for answer in answers if answer.question_id not in known]
        if strangers:
            first = strangers[0]
            raise InputError(
                f"{file}: the answer of {first.model} to '{first.question_id}' belongs to no question of the benchmark "
                f"({len(strangers):,} of {len(answers):,} answers belong to none); its ids look like "
                f"{examples([question.id for question in questions])}, and `medjudge data template` writes them"
            )
        for answer in answers:
            if merged.setdefault(answer.key, answer) is not answer:
                raise InputError(
                    f"{file}: the answer to {answer.question_id} by {answer.model} is in another of the files too; "
                    "remove one of the two, or number them by sample"
                )
    return list(merged.values())


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


def judge_of_run(run: Run, name: str | None = None) -> str:
    """The judge whose judgments of a run to use.

    Args:
        name: The judge that was asked for; None for the one that judged last, else the only one.

    Raises:
        InputError: The run has no judgments, none of this judge, or of several and none of them judged last.
    """
    judges = run.judges()
    if name is None:
        name = run.last_judge if run.last_judge in judges or len(judges) != 1 else judges[0]
    if name is not None and name in judges:
        return name
    if not judges:
        raise InputError(f"{run.path}: no judgments in it; run `medjudge eval` first")
    raise InputError(f"{run.path}: give --judge, one of {', '.join(judges)}")


def chosen(
    questions: Sequence[Question], choice: Choice, answered: Collection[str], limit: int | None = None
) -> list[Question]:
    """The questions of a choice, in their order.

    Args:
        answered: The ids of the questions that have an answer.
        limit: Only the first so many of them.

    Raises:
        InputError: The file of ids cannot be read or names no question, or nothing is left.
    """
    left = list(questions)
    if choice.ids is not None:
        wanted = _ids(choice.ids, questions)
        left = [question for question in left if question.id in wanted]
    if choice.answered_only:
        left = [question for question in left if question.id in answered]
        if not left:
            raise InputError("--answered-only: no question has an answer; leave it out, or give --answers FILE")
    if choice.per_category is not None:
        before: defaultdict[str, count[int]] = defaultdict(count)  # questions of each category so far
        left = [question for question in left if next(before[question.category]) < choice.per_category]
    if choice != Choice():
        left = _with_earlier_turns(questions, left)
    return left[:limit]


def examples(ids: Sequence[str]) -> str:
    """A few ids for a message: `'a', 'b', 'c'`."""
    return ", ".join(f"'{name}'" for name in ids[:3])


def _ids(path: Path, questions: Sequence[Question]) -> set[str]:
    known = {question.id for question in questions}
    listed = {line.strip(): number for number, line in enumerate(read_text(path).split("\n"), 1) if line.strip()}
    if not listed:
        raise InputError(f"--ids {path}: no id in it; write the id of a question on each line")
    strangers = [name for name in listed if name not in known]
    if strangers:
        raise InputError(
            f"--ids {path}, line {listed[strangers[0]]}: '{strangers[0]}' is no question of the benchmark "
            f"({len(strangers)} of {len(listed)} are none); its ids look like {examples([q.id for q in questions])}"
        )
    return set(listed)


def _with_earlier_turns(questions: Sequence[Question], left: Sequence[Question]) -> list[Question]:
    last_round: dict[str, int] = {}
    for question in left:
        last_round[question.group] = max(question.round, last_round.get(question.group, 0))
    kept = {question.id for question in left}
    return [
        question for question in questions if question.id in kept or question.round < last_round.get(question.group, 0)
    ]
