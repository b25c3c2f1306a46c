"""`medjudge eval`: models answer if asked to, a judge scores the answers, and usability rates are written."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.sample import NOTICE, sample_folder
from medjudge.errors import InputError
from medjudge.judge.open import (
    ApiRef,
    FolderRef,
    ImportedRef,
    JudgeOptions,
    JudgeRef,
    PanelRef,
    check_servers,
    members_of,
    resolve_judge,
    resolve_panel,
)
from medjudge.judge.panel import is_panel
from medjudge.judge.protocol import Judge
from medjudge.models.hardware import report_peak_memory
from medjudge.records import Answer
from medjudge.screen import say
from medjudge.store import Run
from medjudge.validation.items import ItemStudy
from medjudge.validation.usability import ModelUsability, Rate
from medjudge.workflows.answer import (
    AnswerOptions,
    answer_with_all,
    answering_name,
    check_answering,
    check_engine,
    load_before_writing,
)
from medjudge.workflows.batch_jobs import judge_by_batch_jobs
from medjudge.workflows.judge import introduction, judge_answers, require_same_judge, with_inference
from medjudge.workflows.mark_items import mark_items, require_items
from medjudge.workflows.panel import check_panel, judge_panel, panel_introduction
from medjudge.workflows.physician_scores import Deferred, defer
from medjudge.workflows.preflight import preflight
from medjudge.workflows.report import Scores, write_scores
from medjudge.workflows.run_folder import (
    Choice,
    OpenedBenchmark,
    add_answers,
    answers_of_files,
    chosen,
    open_benchmark,
    start_run,
)


class EvaluateOptions(NamedTuple):
    """Settings of answering and judging, and the choice of questions.

    Attributes:
        answering: How models answer.
        judging: How the judge is run.
        choice: Which questions.
        items: Whether the judge also says of every item of a question whether an answer meets it.
        defer_share: The share of answers to list for physicians, 0 to 1; None for no list.
        offline: Refuses `openai:` models and judges of a server that is not this machine.
    """

    answering: AnswerOptions = AnswerOptions()
    judging: JudgeOptions = JudgeOptions()
    choice: Choice = Choice()
    items: bool = False
    defer_share: float | None = None
    offline: bool = False


class EvaluationRequest(NamedTuple):
    """The answers, the judge and the settings: the arguments of `evaluate`."""

    benchmark: str | None = None
    scheme: str | None = None
    models: tuple[str, ...] = ()
    answers: tuple[Path, ...] = ()
    judge: str = "local"
    run: Path | None = None
    limit: int | None = None
    options: EvaluateOptions = EvaluateOptions()


@dataclass(frozen=True)
class Evaluation:
    """A run folder after its answers were judged.

    Attributes:
        run: The run folder.
        judge: The judge's name.
        scores: Rates, validation status and coverage: what `scores.json` holds.
        notes: What the run says about its data.
        spent_usd: What requests to servers cost in total; None where none was sent or a price is unknown.
        deferred: The answers listed for physicians, if any.
        items: The scores by items, where the judge checked them.
    """

    run: Run
    judge: str
    scores: Scores
    notes: tuple[str, ...] = ()
    spent_usd: float | None = None
    deferred: Deferred | None = None
    items: ItemStudy | None = None

    @property
    def rates(self) -> dict[str, ModelUsability]:
        """Usability rates by model."""
        return self.scores.models

    @property
    def status_line(self) -> str:
        """The trust that the judge's scores deserve, in one sentence."""
        return self.scores.validation_status["OP"].line

    @property
    def complete(self) -> bool:
        """True if every answer has a score, every model answered every question, and every member of a panel judged.

        With items, also whether every answer to a question with items has verdicts on them.
        """
        panel = self.scores.panel
        behind = sum(member.waiting for member in panel.members) if panel else 0
        not_answered = (rates.overall.not_answered for rates in self.rates.values())
        without_verdicts = self.items.answers - self.items.judged if self.items else 0
        return not any([self.scores.coverage.unscored, behind, without_verdicts, *not_answered])

    def __repr__(self) -> str:
        lines = [f"Usability rates by judge {self.judge}, percent ({self.status_line})"]
        lines += [f"  {model}: {_cell(rates.overall)}" for model, rates in self.rates.items()]
        return "\n".join([*lines, *self.notes])


def _cell(rate: Rate) -> str:
    if rate.rate is None:
        return "-"
    if rate.mostly_unanswered:
        return f"{rate.usable} of {rate.answered} answered"
    return f"{rate.rate:.1f}" if rate.low is None else f"{rate.rate:.1f} ({rate.low:.0f}–{rate.high:.0f})"


class InFlight(NamedTuple):
    """A run whose judgments OpenAI's Batch API is still making; the same call collects them later.

    Attributes:
        run: The run folder.
        batch_jobs: A line for each batch job.
    """

    run: Run
    batch_jobs: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `eval --batch --json` prints."""
        return {"run": str(self.run.path), "under_way": list(self.batch_jobs)}


class Prepared(NamedTuple):
    """A request whose every part was checked; nothing is written yet.

    Attributes:
        benchmark: The chosen questions, with their scheme.
        answers: The answers of files, if any.
        introduction: A line on the judge, and one on what it will find.
    """

    request: EvaluationRequest
    judge_ref: JudgeRef | PanelRef
    benchmark: OpenedBenchmark
    answers: list[Answer] | None
    run: Run
    introduction: tuple[str, str]


def evaluate(
    benchmark: str | None = None,
    *,
    scheme: str | None = None,
    models: Sequence[str] = (),
    answers: Path | str | Sequence[Path | str] = (),
    judge: str = "local",
    run: Path | str | None = None,
    limit: int | None = None,
    options: EvaluateOptions = EvaluateOptions(),
) -> Evaluation:
    """Judges a benchmark's answers: the usability rate of each model.

    With nothing but a judge, the bundled sample and its answers are judged. What the run folder holds already is
    neither answered nor judged again.

    Args:
        benchmark: `sample`, LLMEval-Med's `dataset.json`, or a `.jsonl` file of questions; unless given, that of an
            existing run folder, else `sample`.
        scheme: What the questions belong to: a scheme's name, folder or file; unless given, the one that the run or the
            questions' folder has a copy of, else LLMEval-Med's.
        models: Models that answer first: folders, hub ids or `openai:MODEL`.
        answers: Files of existing answers (`.jsonl`) instead.
        judge: `local`, `built-in`, `similarity`, a judge folder, `openai:MODEL`, or a panel, `panel:a,b,c`.
        run: The run folder; `runs/BENCHMARK` unless given.
        limit: Only the first so many questions.
        options: How models answer, how the judge is run, and which questions are used.

    Raises:
        InputError: The input or an option is wrong; nothing was written.
        UnfinishedError: A server did not answer, or the limit on costs is reached; the same call goes on.
    """
    files = (answers,) if isinstance(answers, (str, Path)) else answers
    request = EvaluationRequest(benchmark, scheme, tuple(models), tuple(map(Path, files)), judge)
    return run_evaluation(request._replace(run=Path(run) if run else None, limit=limit, options=options))


def run_evaluation(request: EvaluationRequest) -> Evaluation:
    """As `evaluate`, for a request."""
    prepared = prepare(request)
    judge_ref, options = prepared.judge_ref, request.options.judging
    loaded = _loaded_before_writing(prepared)
    with _answered(prepared):
        in_process = isinstance(judge_ref, FolderRef) and options.engine == "transformers"
        with report_peak_memory(f"judging with {judge_ref.name}", options.device if in_process else None):
            items = None
            if isinstance(judge_ref, PanelRef):
                judge_panel(prepared.run, judge_ref, options)
            else:
                judge_answers(prepared.run, judge_ref, options, loaded=loaded)
                items = mark_items(prepared.run, judge_ref, options, loaded) if request.options.items else None
        return replace(_evaluation(prepared), items=items)


def run_batch_evaluation(request: EvaluationRequest, wait: bool = False) -> Evaluation | InFlight:
    """As `evaluate`, by OpenAI's Batch API: the first call submits, the same call later collects.

    Args:
        wait: Returns only when everything is judged.

    Raises:
        InputError: The judge is not an `openai:` judge, or another part of the request is wrong.
        UnfinishedError: A server did not answer, or the limit on costs is reached; the same call goes on.
    """
    prepared = prepare(request)
    if request.options.items:
        raise InputError("--batch: not with --items; collect the batch first, and add --items without --batch")
    if isinstance(prepared.judge_ref, PanelRef):
        raise InputError("--batch: not with a panel; judge with its openai: member first, and then with the panel")
    if not isinstance(prepared.judge_ref, ApiRef):
        raise InputError(f"--batch: for an openai: judge; {request.judge} runs on this machine and costs nothing")
    with _answered(prepared):
        batch_jobs = judge_by_batch_jobs(prepared.run, prepared.judge_ref, request.options.judging, wait)
        if batch_jobs:
            return InFlight(prepared.run, tuple(batch_jobs))
        return _evaluation(prepared)


def prepare(request: EvaluationRequest, sends_requests: bool = True) -> Prepared:
    """Checks everything that can be wrong before anything is written or paid for.

    Args:
        sends_requests: False for an estimate, which needs neither key nor network.

    Raises:
        InputError: Something is wrong.
    """
    options, judging = request.options, request.options.judging
    if request.models and options.choice.answered_only:
        raise InputError("--answered-only: is for answers that exist; --model answers every question")
    if request.models and request.answers:
        raise InputError("--model and --answers: give one of the two; a model answers, or existing answers are judged")
    run, benchmark = open_benchmark(request.benchmark, request.scheme, request.run, options.choice, request.limit)
    # A member may be known by its judgments in the run; a judge alone has nothing left to judge there.
    judge_ref = resolve_panel(request.judge, run) if is_panel(request.judge) else resolve_judge(request.judge)
    check_engine(judging.engine, judging.device)
    judge_ref = with_inference(judge_ref, judging)
    if judging.replies.tokens is not None and not any(isinstance(member, ApiRef) for member in members_of(judge_ref)):
        raise InputError(f"--judge-tokens: is for openai: judges, and {request.judge} is none; leave it out")
    if sends_requests:
        check_servers(judge_ref, judging, options.offline)
    if isinstance(judge_ref, ApiRef) and options.defer_share is not None:
        raise InputError(f"--defer-to-physicians: {request.judge} gives no probabilities; use a local judge")
    check_answering(request.models, options.answering, options.offline)
    answers = _existing_answers(request, benchmark, run)
    if answers is None and not request.models and not run.answers_file.exists():
        raise InputError("no answers to judge: give --answers FILE, or --model ID to answer first")
    existing = run.answers() if answers is None else answers
    answered = {answer.question_id for answer in existing}
    questions = chosen(benchmark.questions, options.choice, answered, request.limit)
    used = {question.id for question in questions}
    if answers is not None:
        answers = [answer for answer in answers if answer.question_id in used]
    counts = preflight(judge_ref, questions, used if request.models else answered, len(request.models))
    models = {answer.model for answer in existing} | set(map(answering_name, request.models))
    check_panel(run, judge_ref, judging)
    if options.items:
        require_items(judge_ref, judging, questions)
    if isinstance(judge_ref, PanelRef):
        line = panel_introduction(judge_ref, judging, benchmark.scheme, run, models)
    else:
        line = introduction(judge_ref, judging, benchmark.scheme, run, models)
    benchmark = benchmark._replace(questions=questions)
    return Prepared(request, judge_ref, benchmark, answers, run, (line, counts))


def _existing_answers(request: EvaluationRequest, benchmark: OpenedBenchmark, run: Run) -> list[Answer] | None:
    """The answers of files, or of the sample; None where models answer or the run has some."""
    files = request.answers
    if benchmark.source == "sample" and not request.models and not files:
        if benchmark.of_run and run.answers_file.exists():
            return None
        files = (sample_folder() / "answers.jsonl",)
    return answers_of_files(files, benchmark.questions) if files else None


def _loaded_before_writing(prepared: Prepared) -> Judge | None:
    """Loads a local judge before its run folder is made: one that cannot be loaded leaves no folder behind.

    Returns:
        The judge; None where the run exists, the judge is not in this process, or models that answer first need the
        memory.
    """
    judge_ref, options = prepared.judge_ref, prepared.request.options.judging
    if prepared.run.path.exists() or not isinstance(judge_ref, FolderRef) or options.engine == "ray":
        return None
    judge = judge_ref.load(options, prepared.benchmark.scheme)
    return None if prepared.request.models else judge


@contextmanager
def _answered(prepared: Prepared) -> Iterator[None]:
    """Holds the run's lock while its answers are complete: existing ones are added, and models have answered."""
    request, run, benchmark = prepared.request, prepared.run, prepared.benchmark
    answering, judging = request.options.answering, request.options.judging
    asked = {"benchmark": benchmark.source, "models": list(request.models) or None, "judge": request.judge}
    command = {**asked, "samples": answering.samples, "rounds": judging.rounds, **answering.recorded}
    model = load_before_writing(run, request.models, answering, benchmark.questions)
    with run.lock():
        start_run(run, benchmark.questions, benchmark.scheme, benchmark.source, command)
        if benchmark.source == "sample":
            run.update_manifest(notes=[NOTICE])
        for member in members_of(prepared.judge_ref):
            if not isinstance(member, ImportedRef):
                require_same_judge(run, member, judging)
        # Only now that nothing can be refused any more: an error is the only line.
        for line in prepared.introduction:
            say(line)
        if prepared.answers is not None:
            add_answers(run, prepared.answers, ", ".join(map(str, request.answers)) or "sample")
        answer_with_all(run, request.models, answering, model)
        del model  # the judge needs its memory
        yield


def _evaluation(prepared: Prepared) -> Evaluation:
    run, judge_ref, defer_share = prepared.run, prepared.judge_ref, prepared.request.options.defer_share
    scores = write_scores(run, judge_ref.name)
    deferred = None if defer_share is None else defer(run, judge_ref.name, defer_share)
    spending = run.manifest().get("spending") or {}
    notes = (NOTICE,) if prepared.benchmark.source == "sample" else ()
    return Evaluation(run, scores.judge, scores, notes, spending.get("usd"), deferred)
