"""`medjudge eval --items`: a judge says of every item of a question whether an answer meets it."""

import time
from collections.abc import Sequence
from hashlib import sha256

from medjudge.chat_api.spending import Spending
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.files import write_json
from medjudge.item_records import ItemScore
from medjudge.judge.api_items import ApiItemJudge
from medjudge.judge.folder import KINDS
from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.generative_items import GenerativeItemJudge
from medjudge.judge.identity import folder_identity
from medjudge.judge.item_store import item_judgments, item_judgments_file, item_study_file
from medjudge.judge.item_study import ItemStudy, PhysicianItemStudy
from medjudge.judge.items import ItemJudge, item_assignments
from medjudge.judge.open import JudgeRef
from medjudge.judge.ordinal import OrdinalJudge
from medjudge.judge.ordinal_items import OrdinalItemJudge
from medjudge.judge.protocol import Judge
from medjudge.records import Question
from medjudge.rubrics.item_prompt import item_prompts_sha256
from medjudge.scheme import Scheme
from medjudge.screen import progress_bar, say, stop_explained
from medjudge.store import Run
from medjudge.text.checklist_items import items_of
from medjudge.validation.items import ItemMaterial, item_study
from medjudge.workflows.judge import JudgeOptions, load, most_reply_tokens, rewrite_without_failed, served
from medjudge.workflows.run_folder import record_spending


def checks_items(judge_ref: JudgeRef) -> bool:
    """Whether a judge can check items: an API judge can, and a folder whose kind and training allow it."""
    card, folder = judge_ref.card, judge_ref.folder
    return judge_ref.api_model is not None or (
        card is not None and folder is not None and KINDS[card.kind].checks_items(folder)
    )


def require_items(judge_ref: JudgeRef, options: JudgeOptions, questions: Sequence[Question], processes: int) -> None:
    """Refuses, before any work, what `--items` cannot be used with.

    Raises:
        InputError: The judge or its engine cannot check items, several processes share the work, or there is no item.
    """
    if not checks_items(judge_ref):
        raise InputError(
            f"--items: judge {judge_ref.name} ({_kind_of(judge_ref)}) gives no verdicts on items; name an openai: "
            "judge, built-in, or a folder that learned verdicts on points"
        )
    if options.engine != "transformers" and judge_ref.folder is not None:
        raise InputError(
            f"--items: not with the engine {options.engine}; score the answers first, and add --items without "
            "--judge-engine and --engine"
        )
    if processes > 1:
        raise InputError(
            "--items: runs in one process; score the answers first, and add --items without `accelerate launch`"
        )
    if not any(items_of(question) for question in questions):
        raise InputError(
            "--items: no question has items or a numbered checklist; `medjudge data check` counts them, and "
            "docs/items.md shows how to write them"
        )


def _kind_of(judge_ref: JudgeRef) -> str:
    """What a judge that cannot check items is, for the message."""
    if judge_ref.panel is not None:
        return "a panel"
    return "no judge folder" if judge_ref.card is None else judge_ref.card.kind


def mark_items(run: Run, judge_ref: JudgeRef, options: JudgeOptions, loaded: Judge | None = None) -> ItemStudy:
    """Checks what is not checked yet, and writes `items/JUDGE.json`; every verdict is on disk before the next is made.

    Args:
        loaded: The judge where it is in memory already.

    Raises:
        InputError: The run holds verdicts by another judge of this name, or the judge cannot be loaded.
        UnfinishedError: A server did not answer, the limit on costs is reached, or the judge's files changed.
    """
    scheme = run.scheme()
    sha = _identity(judge_ref, options, scheme)
    _require_same_judge(run, judge_ref, sha)
    file, recorded = item_judgments_file(run, judge_ref.name), run.manifest().get("item_judges", {})
    before = item_judgments(run, judge_ref.name)
    rewrite_without_failed(file, before, options, recorded.get(judge_ref.name, {}))
    done = {judgment.answer_key for judgment in item_judgments(run, judge_ref.name)}
    work = item_assignments(run.questions(), run.answers(), scheme)
    waiting = [assignment for assignment in work if assignment.answer.key not in done]
    if done and waiting:
        say(f"items of {len(work) - len(waiting)} answers are checked by {judge_ref.name}; {len(waiting)} to go")
    if waiting:
        judge = _item_judge(judge_ref, options, run, loaded)
        _record_judge(run, judge_ref, options, sha)
        start, made = time.monotonic(), 0
        bar = progress_bar(len(waiting), f"items ({judge_ref.name})", "answer")
        try:
            with stop_explained(lambda: f"the items of {made} answers were checked and are kept in {run.path}"):
                for judgment in judge.judge_items(waiting):
                    run.append(item_judgments_file(run, judge_ref.name), judgment.model_dump_json())
                    made += 1
                    bar.update()
        finally:
            bar.close()
            _record_judge(run, judge_ref, options, sha, time.monotonic() - start)
            if judge_ref.api_model is not None:
                record_spending(run, options.limit.prices)
        if _identity(judge_ref, options, scheme) != sha:
            raise UnfinishedError(
                f"judge {judge_ref.name}: its files changed while it checked items, and "
                f"{item_judgments_file(run, judge_ref.name)} holds verdicts by those from before; restore them, or "
                "remove this file"
            )
    return write_item_study(run, judge_ref)


def write_item_study(run: Run, judge_ref: JudgeRef) -> ItemStudy:
    """Computes the scores by items from the records of a run, and writes `items/JUDGE.json`."""
    material = ItemMaterial(
        run.questions(), run.answers(), item_judgments(run, judge_ref.name), _unseen_scores(run, judge_ref)
    )
    study = item_study(judge_ref.name, material)
    write_json(item_study_file(run, judge_ref.name), study.model_dump(mode="json"))
    return study


def physicians_items(run: Run, judge_ref: JudgeRef) -> PhysicianItemStudy | None:
    """The judge's verdicts on items against physicians', where both checked answers of the run."""
    marked = run.item_scores()
    if not marked:
        return None
    if not item_judgments(run, judge_ref.name):
        if checks_items(judge_ref):
            say(f"{run.items_file}: {len(marked)} verdicts; `medjudge eval --items` lets this judge check items, too")
        return None
    return write_item_study(run, judge_ref).physicians


def _unseen_scores(run: Run, judge_ref: JudgeRef) -> list[ItemScore]:
    """Physicians' verdicts, but for conversations that the judge was trained on: agreement there would mean nothing."""
    scores = run.item_scores()
    group_of = {question.id: question.group for question in run.questions()}
    seen = {group_of[question_id] for question_id in judge_ref.seen if question_id in group_of}
    unseen = [score for score in scores if group_of.get(score.question_id) not in seen]
    if len(unseen) < len(scores):
        notify(
            f"judge {judge_ref.name}: was trained or tuned on the questions of {len(scores) - len(unseen)} of "
            f"{len(scores)} physicians' verdicts on items, which are left out"
        )
    return unseen


def _item_judge(judge_ref: JudgeRef, options: JudgeOptions, run: Run, loaded: Judge | None) -> ItemJudge:
    if judge_ref.api_model is not None:
        spending = Spending(run, options.limit)
        return ApiItemJudge(judge_ref.api_model, options.server, spending, replies=options.replies)
    judge = loaded or load(judge_ref, options, run)
    if isinstance(judge, GenerativeJudge):
        return GenerativeItemJudge(judge)
    assert isinstance(judge, OrdinalJudge)
    return OrdinalItemJudge(judge)


def _identity(judge_ref: JudgeRef, options: JudgeOptions, scheme: Scheme) -> str:
    """The sha256 of everything that changes a judge's verdicts on items."""
    prompts = item_prompts_sha256(scheme)
    if judge_ref.card is not None and judge_ref.folder is not None:
        parts = [folder_identity(judge_ref.folder, judge_ref.card), prompts]
    else:
        parts = [*map(str, served(judge_ref, options)), prompts]
    return sha256("\x1f".join(parts).encode()).hexdigest()


def _require_same_judge(run: Run, judge_ref: JudgeRef, items_sha256: str) -> None:
    recorded = run.manifest().get("item_judges", {}).get(judge_ref.name)
    file = item_judgments_file(run, judge_ref.name)
    if recorded is not None and recorded.get("sha256") != items_sha256 and file.exists():
        raise InputError(
            f"{file}: holds verdicts by another judge or server of this name, or by other prompts; move the file away, "
            "or choose another run"
        )


def _record_judge(
    run: Run, judge_ref: JudgeRef, options: JudgeOptions, items_sha256: str, seconds: float = 0.0
) -> None:
    judges = run.manifest().get("item_judges", {})
    before = judges.get(judge_ref.name, {})
    judges[judge_ref.name] = {
        "kind": "api" if judge_ref.card is None else judge_ref.card.kind,
        "base_model": judge_ref.api_model or (judge_ref.card.base_model if judge_ref.card else None),
        "sha256": items_sha256,
        "judgments": len(item_judgments(run, judge_ref.name)),
        "reply_tokens": most_reply_tokens(options, before),
        "seconds": round(before.get("seconds", 0.0) + seconds, 1),
    }
    run.update_manifest(item_judges=judges)
