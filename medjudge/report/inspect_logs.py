"""A run as logs of Inspect (inspect-ai), one per model, so that `inspect view` shows every judgment."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timezone
from glob import escape
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import NamedTuple

from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    EvalStats,
    write_eval_log,
)
from inspect_ai.model import (
    ChatCompletionChoice,
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageUser,
    ModelOutput,
    ModelUsage,
    StopReason,
)
from inspect_ai.scorer import Score

from medjudge.answer.conversation import questions_before
from medjudge.errors import InputError
from medjudge.files import remove_leftovers
from medjudge.records import CONSTRUCTED, AgreedScore, Answer, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.rounds import binding_by_answer
from medjudge.scale import consensus
from medjudge.store import Run
from medjudge.validation.status import ValidationStatus
from medjudge.validation.usability import ModelUsability, score_models
from medjudge.validation.validations import statuses_in

_STOP_REASONS: dict[str | None, StopReason] = {
    "stop": "stop",
    "length": "max_tokens",
    "content_filter": "content_filter",
}


class _Judged(NamedTuple):
    """A run as one judge saw it."""

    run: Run
    judge: str
    questions: dict[str, Question]
    before: dict[str, list[Question]]  # the earlier turns of each question's conversation
    judgments: dict[AnswerKey, list[Judgment]]
    rates: dict[str, ModelUsability]
    physicians: dict[AnswerKey, list[PhysicianScore]]
    validation_status: dict[str, ValidationStatus]
    made: str  # ISO 8601


def write_inspect_logs(run: Run, judge: str, target: Path) -> list[Path]:
    """Writes one log a model, in the order of the models' first answers.

    A sample of a log is an answer: its id is the question's, its epoch the answer's sample number counted from 1. The
    judge's score is the one of `scores.json`'s judgments; an answer without one is unscored as Inspect has it (NaN,
    with the reason), and no metric takes it for a number. Texts are written as they are.

    Args:
        judge: A judge that has judgments in the run.
        target: A folder, or a file that ends in `.eval` where only one model answered. What an earlier export wrote
            there is replaced.

    Returns:
        The files.

    Raises:
        InputError: One file is named for several models, or a question's id cannot name a sample.
    """
    question_ids = {question.id for question in run.questions()}
    answers: dict[str, list[Answer]] = {}
    for answer in run.answers():
        if answer.question_id in question_ids:
            answers.setdefault(answer.model, []).append(answer)
    if not answers:
        raise InputError(f"{run.answers_file}: no answer to a question of the run; `medjudge eval` makes them")
    one_file = target.suffix == ".eval"
    if one_file and len(answers) != 1:
        raise InputError(f"--out {target}: {len(answers)} models answered, and a log is of one; name a folder")
    judged = _judged(run, judge, list(answers))
    paths = []
    for model, of_model in answers.items():
        path = target if one_file else target / _file_name(judged, model)
        _write_log(_log(judged, model, of_model), path)
        paths.append(path)
    return paths


def _write_log(log: EvalLog, path: Path) -> None:
    """Writes a log, all of it or nothing, readable by its owner only: it holds texts and physicians' scores."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    remove_leftovers(path.parent, f"{escape(path.name)}.*.part")
    with TemporaryDirectory(prefix=f"{path.name}.", suffix=f".{os.getpid()}.part", dir=path.parent) as scratch:
        written = Path(scratch) / "log.eval"
        write_eval_log(log, written, format="eval")
        written.chmod(0o600)
        written.replace(path)


def _file_name(judged: _Judged, model: str) -> str:
    """JUDGE_MODEL_HASH.eval: readable, of harmless characters, and another one for each run, judge and model."""
    # 30 characters, for a name has 255 bytes at most and a character up to four.
    readable = [re.sub(r"[^\w.]|_", "-", name)[:30] for name in (judged.judge, model)]
    return "_".join([*readable, _identity(judged, model)[:8]]) + ".eval"


def _identity(judged: _Judged, model: str) -> str:
    """Names the log of a run, judge and model; the same at every export."""
    parts = [str(judged.run.path.resolve()), judged.judge, model]
    return sha256("\x1f".join(parts).encode()).hexdigest()[:22]


def _judged(run: Run, judge: str, models: Sequence[str]) -> _Judged:
    questions, judgments, scheme = run.questions(), run.judgments(judge), run.scheme()
    by_answer: dict[AnswerKey, list[Judgment]] = {}
    for judgment in sorted(judgments, key=lambda judgment: judgment.round):
        by_answer.setdefault(judgment.answer_key, []).append(judgment)
    physicians: dict[AnswerKey, list[PhysicianScore]] = {}
    for score in run.settled_scores():
        physicians.setdefault(score.answer_key, []).append(score)
    written = datetime.fromtimestamp(run.judgments_file(judge).stat().st_mtime, timezone.utc)
    return _Judged(
        run,
        judge,
        {question.id: question for question in questions},
        {question.id: questions_before(question, questions) for question in questions},
        by_answer,
        score_models(questions, judgments, models, scheme),
        physicians,
        statuses_in(run, judge),
        run.manifest().get("updated") or written.isoformat(timespec="seconds"),
    )


# --- One log ---------------------------------------------------------------------------------------------------------


def _log(judged: _Judged, model: str, answers: Sequence[Answer]) -> EvalLog:
    text = {(answer.question_id, answer.sample): answer.text for answer in answers}
    samples = [_sample(judged, answer, text) for answer in answers]
    identity = _identity(judged, model)
    return EvalLog(
        status="success",
        eval=EvalSpec(
            eval_id=identity,
            run_id=_identity(judged, ""),
            task_id=identity,
            created=judged.made,
            task=judged.run.path.resolve().name,
            task_args={"judge": judged.judge},
            model=model,
            dataset=_dataset(judged),
            config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
            packages={name: version(name) for name in ("medjudge", "inspect_ai")},
            tags=[f"judge {judged.judge}", judged.validation_status["OP"].state.value],
            metadata={
                "judge": judged.judge,
                "validation_status": {
                    part: f"{status.state}: {status.line}" for part, status in judged.validation_status.items()
                },
                "notes": judged.run.notes(),
            },
        ),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=_results(judged, model, samples),
            metadata={"usability": judged.rates[model].as_json()},
        ),
        # The viewer calls a log without times NaN days long.
        stats=EvalStats(started_at=judged.made, completed_at=judged.made, model_usage=_usage(model, answers)),
        samples=samples,
    )


def _dataset(judged: _Judged) -> EvalDataset:
    source = judged.run.manifest().get("benchmark", {}).get("source", judged.run.questions_file.name)
    return EvalDataset(name=source, samples=len(judged.questions), sample_ids=list(judged.questions))


def _usage(model: str, answers: Sequence[Answer]) -> dict[str, ModelUsage]:
    """The tokens of all answers; nothing where one does not tell them."""
    counted = [_tokens(answer) for answer in answers]
    known = [usage for usage in counted if usage is not None]
    if len(known) < len(counted):
        return {}
    tokens_in, tokens_out = (sum(getattr(usage, name) for usage in known) for name in ("input_tokens", "output_tokens"))
    return {model: ModelUsage(input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out)}


def _tokens(answer: Answer) -> ModelUsage | None:
    if answer.tokens_in is None or answer.tokens_out is None:
        return None
    return ModelUsage(
        input_tokens=answer.tokens_in,
        output_tokens=answer.tokens_out,
        total_tokens=answer.tokens_in + answer.tokens_out,
    )


# --- Results ---------------------------------------------------------------------------------------------------------


def _results(judged: _Judged, model: str, samples: Sequence[EvalSample]) -> list[EvalScore]:
    """A row a score's name; the judge's first, which carries the usability rates of `scores.json`."""
    names = dict.fromkeys([judged.judge, *(name for sample in samples for name in sample.scores or {})])
    return [_result(name, samples, _usability(judged.rates[model]) if name == judged.judge else {}) for name in names]


def _result(name: str, samples: Sequence[EvalSample], metrics: Mapping[str, EvalMetric]) -> EvalScore:
    values = [
        score.as_int()
        for sample in samples
        for score in [(sample.scores or {}).get(name)]
        if score and score.reason is None
    ]
    # A mean of no score is left out: any number would be read as one.
    mean = {"mean": EvalMetric(name="mean", value=fmean(values))} if values else {}
    return EvalScore(
        name=name,
        scorer=name,
        scored_samples=len(values),
        unscored_samples=len(samples) - len(values),
        metrics={**metrics, **mean},
    )


def _usability(rates: ModelUsability) -> dict[str, EvalMetric]:
    return {
        part: EvalMetric(name=part, group="usable, percent", value=rate.rate, metadata=asdict(rate))
        for part, rate in rates.parts.items()
        if rate.rate is not None
    }


# --- One sample ------------------------------------------------------------------------------------------------------


def _sample(judged: _Judged, answer: Answer, text: Mapping[tuple[str, int], str]) -> EvalSample:
    question = judged.questions[answer.question_id]
    conversation = list(_conversation(judged.before[question.id], answer, text))
    messages = [*conversation, ChatMessageUser(content=question.prompt, source="input")]
    reply = ChatMessageAssistant(content=answer.text, source="generate", model=answer.model)
    usage = _tokens(answer)
    return EvalSample(
        id=question.id,
        epoch=answer.sample + 1,
        input=messages,
        target=question.reference or "",
        messages=[*messages, reply],
        output=ModelOutput(
            model=answer.model,
            choices=[
                ChatCompletionChoice(message=reply, stop_reason=_STOP_REASONS.get(answer.finish_reason, "unknown"))
            ],
            usage=usage,
            error=None if answer.text.strip() else answer.finish_reason,
        ),
        scores=_scores(judged, answer),
        metadata={
            **question.model_dump(include={"category", "subcategory", "scene", "difficulty", "group", "round"}),
            "language": question.language,
            "checklist": question.checklist,
            "sample": answer.sample,
            "finish_reason": answer.finish_reason,
        },
        model_usage={answer.model: usage} if usage else {},
    )


def _conversation(
    before: Sequence[Question], answer: Answer, text: Mapping[tuple[str, int], str]
) -> Iterator[ChatMessage]:
    """The earlier turns: their prompts, each with what this model said to it in the same sample."""
    for turn in before:
        yield ChatMessageUser(content=turn.prompt, source="input")
        earlier_answer = text.get((turn.id, answer.sample))
        if earlier_answer is not None:
            yield ChatMessageAssistant(content=earlier_answer, source="input", model=answer.model)


def _scores(judged: _Judged, answer: Answer) -> dict[str, Score]:
    """The judge's score, one more for each further judging round, and the physicians' where they scored the answer."""
    rounds = {
        judged.judge if judgment.round == 1 else f"{judged.judge}, round {judgment.round}": _score(judgment, answer)
        for judgment in judged.judgments.get(answer.key, [])
    }
    if not rounds:
        rounds[judged.judge] = Score.unscored(
            reason="not_judged", answer=answer.text, explanation=f"{judged.judge} did not judge this answer"
        )
    return {**rounds, **_physicians(judged.physicians.get(answer.key, []))}


def _score(judgment: Judgment, answer: Answer) -> Score:
    fields = {"probabilities", "expected", "error", "raw", "answer_tokens_cut", "context_tokens_cut"}
    metadata = judgment.model_dump(include=fields, exclude_none=True)
    if judgment.score is None:
        return Score.unscored(
            reason="scoring_failed", answer=answer.text, explanation=judgment.error, metadata=metadata
        )
    return Score(value=judgment.score, answer=answer.text, explanation=judgment.rationale, metadata=metadata)


def _physicians(scores: Sequence[PhysicianScore]) -> dict[str, Score]:
    """Their scores as one level, next to the judge's; levels that an answer was written to deserve have another name.

    Where they agreed on a score later, it is the level.
    """
    real = [score for score in scores if score.rater != CONSTRUCTED]
    named = real or scores
    if not named:
        return {}
    [binding] = binding_by_answer(named).values()
    lines = [
        f"{score.rater}: {score.level}"
        + (", the agreed score" if isinstance(score, AgreedScore) else "")
        + (f" ({score.comment})" if score.comment else "")
        for score in named
    ]
    score = Score(
        value=consensus(score.level for score in binding),
        explanation="\n".join(lines),
        metadata={"scores": [score.model_dump(include={"rater", "score", "dimensions", "comment"}) for score in named]},
    )
    return {"physicians" if real else "constructed level": score}
