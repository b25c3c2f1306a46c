"""The judge station: judges the answers of a run folder with a judge, and records whose judgments these are."""

import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from medjudge.chat_api.batch_jobs import read_batch_jobs
from medjudge.chat_api.spending import Spending
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.item_records import ItemJudgment
from medjudge.judge.api import ApiJudge
from medjudge.judge.folder import JudgeCard
from medjudge.judge.open import AnyRef, ApiRef, FolderRef, JudgeOptions, JudgeRef, members_of, quantised
from medjudge.judge.protocol import Assignment, Judge, assignments
from medjudge.pair_records import PairJudgment
from medjudge.provenance import stamped
from medjudge.records import AnswerKey, ErrorKind, Judgment
from medjudge.scheme import Scheme
from medjudge.screen import progress_bar, say, stop_explained
from medjudge.store import Run
from medjudge.validation.status import Use, validation_status
from medjudge.validation.validations import statuses_in, validate_command
from medjudge.workflows.run_folder import record_spending

Made = TypeVar("Made", Judgment, ItemJudgment, PairJudgment)
_Ref = TypeVar("_Ref", bound=AnyRef)


def judge_answers(
    run: Run,
    judge_ref: JudgeRef,
    options: JudgeOptions,
    only: set[AnswerKey] | None = None,
    loaded: Judge | None = None,
) -> list[Judgment]:
    """Judges what is not judged yet; every judgment is on disk before the next one is made.

    Args:
        only: The answers to judge; None for all.
        loaded: The judge where it is in memory already; else it is loaded if there is anything to judge.

    Returns:
        All judgments of this judge in the run.

    Raises:
        InputError: The run holds judgments of another judge of this name, or the judge cannot be loaded.
        UnfinishedError: The judge's files changed while it judged. All judgments are kept.
    """
    judge_sha256 = require_same_judge(run, judge_ref, options)
    file = run.judgments_file(judge_ref.name)
    judgments = run.judgments(judge_ref.name)
    if isinstance(judge_ref, ApiRef):
        # What a batch job is judging would be paid for twice.
        if waiting := [job.batch_id or job.name for job in read_batch_jobs(run, judge_ref.name) if not job.collected]:
            raise InputError(
                f"{run.path}: batch {', '.join(waiting)} of {judge_ref.name} is not collected yet; collect it with "
                "`medjudge eval --batch`"
            )
        judgments = rewrite_without_failed(run, file, judgments, options, run.judge_entry(judge_ref.name))
    work = not_judged(assignments(run.questions(), run.answers(), options.rounds, run.scheme()), judgments)
    if only is not None:
        work = [assignment for assignment in work if assignment.answer.key in only]
    if not work:
        record_judge(run, judge_ref, options, judge_sha256)
        return judgments
    if judgments:
        say(f"{len(judgments)} judgments of {judge_ref.name} exist; {len(work)} to go")
    judge = loaded or load(judge_ref, options, run)
    if judge_ref.identity(options, run.scheme()) != judge_sha256:
        raise InputError(f"judge {judge_ref.name}: its files changed while it was loaded; run the same command again")
    # Before the first judgment, so that a run that was killed still knows whose judgments it holds.
    record_judge(run, judge_ref, options, judge_sha256)
    start, made = time.monotonic(), 0

    def kept() -> str:
        return f"{len(judgments) + made} of {len(judgments) + len(work)} judgments are kept in {run.path}"

    try:
        with stop_explained(kept), progress_bar(len(work), f"judging ({judge_ref.name})", "answer") as bar:
            for judgment in stamped(judge.judge(work), run.texts()):
                run.append(file, judgment.model_dump_json())
                made += 1
                bar.update()
    finally:
        refused = sorted(judge.client.refused) if isinstance(judge, ApiJudge) else []
        record_judge(run, judge_ref, options, judge_sha256, time.monotonic() - start, refused)
    if judge_ref.identity(options, run.scheme()) != judge_sha256:
        raise UnfinishedError(
            f"judge {judge_ref.name}: its files changed while it judged, and {run.path} holds judgments by those "
            "from before; restore them, or choose another --run for the new ones"
        )
    return run.judgments(judge_ref.name)


def load(judge_ref: JudgeRef, options: JudgeOptions, run: Run) -> Judge:
    """Loads a judge for the scheme of a run; what an API judge costs goes to the account of the run."""
    spending = Spending(run, options.limit) if isinstance(judge_ref, ApiRef) else None
    return judge_ref.load(options, run.scheme(), spending)


def with_inference(judge_ref: _Ref, options: JudgeOptions) -> _Ref | FolderRef:
    """Finds out before any work whether a judge can be run on the quantised base that the options name.

    Returns:
        The judge, on a quantised base where the options say so.

    Raises:
        InputError: It cannot: there is no generative judge, or something is not installed.
    """
    if options.quantization is None:
        return judge_ref
    option = "--judge-quantization"
    if not any(member.kind == "generative" for member in members_of(judge_ref)):
        kind = f"of kind {judge_ref.kind}" if isinstance(judge_ref, FolderRef) else "none"
        raise InputError(f"{option}: is for generative judges, and judge {judge_ref.name} is {kind}")
    if not isinstance(judge_ref, FolderRef):
        raise InputError(
            f"{option}: judge {judge_ref.name} is a panel; judge with its members one by one, "
            "and name them in the panel by their judgments"
        )
    return quantised(judge_ref, options.quantization)


def not_judged(work: Sequence[Assignment], judgments: Sequence[Judgment]) -> list[Assignment]:
    """The assignments that have no judgment yet."""
    done = {(judgment.answer_key, judgment.round) for judgment in judgments}
    return [item for item in work if (item.answer.key, item.round) not in done]


def rewrite_without_failed(
    run: Run, file: Path, judgments: list[Made], options: JudgeOptions, recorded: Mapping[str, Any]
) -> list[Made]:
    """Removes judgments whose request failed from their file: they are sent again. Returns the others.

    Args:
        recorded: The judge's entry in `run.json`.
    """
    remaining = not_failed(judgments, options, recorded)
    if len(remaining) < len(judgments):
        notify(f"{len(judgments) - len(remaining)} requests failed last time and are sent again")
        run.rewrite(file, remaining)
    return remaining


def not_failed(judgments: Sequence[Made], options: JudgeOptions, recorded: Mapping[str, Any]) -> list[Made]:
    """The judgments that another request would not change; an empty reply may, with a higher `--judge-tokens`."""
    more_room = most_reply_tokens(options, recorded) > recorded.get("reply_tokens", 0)
    return [
        judgment
        for judgment in judgments
        if not judgment.retryable and not (more_room and judgment.error_kind is ErrorKind.EMPTY_REPLY)
    ]


def most_reply_tokens(options: JudgeOptions, recorded: Mapping[str, Any]) -> int:
    """The highest `--judge-tokens` with which a judge was asked; 0 without the option."""
    return max(options.replies.tokens or 0, recorded.get("reply_tokens", 0))


def introduction(judge_ref: JudgeRef, options: JudgeOptions, scheme: Scheme, run: Run, models: Collection[str]) -> str:
    """One line: a judge's name, what it was trained on, its validation status for the answers of a run.

    A judge behind an API has no card: its status is that of the run.

    Args:
        run: Where the judgments will go; it need not exist.
        models: The models whose answers it will judge.

    Raises:
        InputError: As for `FolderRef.identity` and `statuses_in`.
    """
    if isinstance(judge_ref, ApiRef):
        status = statuses_in(run, judge_ref.name, models)["OP"].line
        place = f"{judge_ref.model} behind an API"
        return f"judge {judge_ref.name}: {place}; what it was trained on is unknown; in this run: {status}"
    card, quantization = judge_ref.card, judge_ref.quantization
    base = f"{card.base_model} quantised to {card.quantization}" if card.quantization else card.base_model
    use = Use(
        judge_ref.identity(options, scheme),
        judge_ref.rubrics_sha256(scheme),
        scheme.sha256,
        frozenset(models),
        validate_command(run, str(judge_ref.folder), quantization),
        None if quantization is None else str(quantization),
    )
    status = validation_status(card.validated_on, scheme=scheme.name, use=use).line
    return f"judge {judge_ref.name} ({judge_ref.folder}): {card.kind}, on {base}, {_training(card)}; {status}"


def _training(card: JudgeCard) -> str:
    """A judge's training data: the number of scored answers, and every source that its card names."""
    questions = card.training.get("questions", len(card.trained_on.question_ids))
    answers = f"{card.training['answers']} answers to " if "answers" in card.training else ""
    sources = card.training.get("sources")
    named = f"; sources of its training data: {', '.join(map(str, sources))}" if isinstance(sources, list) else ""
    return f"trained on {answers}{questions} questions{named}"


def require_same_judge(run: Run, judge_ref: JudgeRef, options: JudgeOptions) -> str:
    """Refuses a run that holds judgments of another judge of this name.

    Returns:
        The judge's identity.

    Raises:
        InputError: The run holds such judgments, or the judge's base model cannot be found.
    """
    judge_sha256 = judge_ref.identity(options, run.scheme())
    recorded = run.judge_entry(judge_ref.name)
    if not recorded or recorded.get("sha256") == judge_sha256:
        return judge_sha256
    if isinstance(judge_ref, ApiRef) and recorded.get("kind") == "api":
        how = "another server, other rubrics or prompts"
        before, now = recorded.get("served") or [], judge_ref.served(options)
        if len(before) > 1 and before != now:
            how = f"{_as_served(before)}, and not {_as_served(now)}"
        raise InputError(
            f"{run.path}: holds judgments of {judge_ref.name} made with {how}; choose another --run, or give the "
            "--base-url and --thinking of before"
        )
    raise InputError(
        f"{run.path}: holds judgments of another judge named {judge_ref.name}; rename the judge folder or choose "
        "another --run"
    )


def _as_served(parts: Sequence[str | None]) -> str:
    model, address, *thinking = parts
    return ", ".join([f"{model} at {address or 'api.openai.com'}", *map(str, thinking)])


def record_judge(
    run: Run,
    judge_ref: JudgeRef,
    options: JudgeOptions,
    judge_sha256: str,
    seconds: float = 0.0,
    refused: Sequence[str] = (),
) -> None:
    """Writes into `run.json` whose judgments these are, how many, and what an API judge cost.

    Args:
        judge_sha256: The judge's identity when it was loaded.
    """
    scheme, before = run.scheme(), run.judge_entry(judge_ref.name)
    entry: dict[str, Any] = {
        "kind": judge_ref.kind,
        "base_model": judge_ref.model if isinstance(judge_ref, ApiRef) else judge_ref.card.base_model,
        "base_revision": None,
        "quantization": None,
        "sha256": judge_sha256,
        "rubrics_sha256": judge_ref.rubrics_sha256(scheme),
        # Counted in the file: a run that was killed has made more than it could note here.
        "judgments": len(run.judgments(judge_ref.name)),
        "seconds": round(before.get("seconds", 0.0) + seconds, 1),
        "seen_question_ids": sorted(judge_ref.seen),
        "validated_on": [],
    }
    if isinstance(judge_ref, FolderRef):
        card, quantization = judge_ref.card, judge_ref.quantization
        entry |= {
            "base_revision": card.base_revision,
            "quantization": None if quantization is None else str(quantization),
            "validated_on": [study.model_dump(mode="json") for study in card.validated_on],
        }
    else:
        # The same prompt goes without what its server refuses; the replies in `raw` show which form they have.
        entry |= {
            "reply_tokens": most_reply_tokens(options, before),
            "served": judge_ref.served(options),
            "refused_parameters": sorted({*refused, *before.get("refused_parameters", [])}),
        }
        record_spending(run, options.limit.prices)
    judges = run.manifest().get("judges", {}) | {judge_ref.name: entry}
    run.update_manifest(judges=judges, judge=judge_ref.name)
