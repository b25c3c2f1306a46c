"""`medjudge eval --items`: a judge says of every item of a question whether an answer meets it."""

from collections.abc import Sequence
from typing import TypeGuard

from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.item_records import ItemJudgment
from medjudge.judge.items import (
    item_assignments,
    item_judgments,
    item_judgments_file,
    item_prompts_sha256,
    item_study_file,
)
from medjudge.judge.open import AnyRef, ApiRef, FolderRef, JudgeOptions, JudgeRef
from medjudge.judge.protocol import Judge
from medjudge.records import Question
from medjudge.screen import say
from medjudge.store import Run
from medjudge.text.checklist_items import items_of
from medjudge.validation.items import ItemStudy, PhysicianItemStudy, item_study
from medjudge.workflows.label_station import LabelStation
from medjudge.workflows.physician_scores import unseen_by


def checks_items(judge_ref: AnyRef) -> TypeGuard[JudgeRef]:
    """True if a judge can check items: an API judge can, and a folder whose kind and training allow it."""
    return isinstance(judge_ref, ApiRef) or (isinstance(judge_ref, FolderRef) and judge_ref.checks_items)


def require_items(judge_ref: AnyRef, options: JudgeOptions, questions: Sequence[Question]) -> None:
    """Refuses, before any work, what `--items` cannot be used with.

    Raises:
        InputError: The judge or its engine cannot check items, or there is no item.
    """
    if not checks_items(judge_ref):
        raise InputError(
            f"--items: judge {judge_ref.name} ({judge_ref.kind}) gives no verdicts on items; name an openai: "
            "judge, built-in, or a folder that learned verdicts on points"
        )
    if options.engine != "transformers" and isinstance(judge_ref, FolderRef):
        raise InputError(
            f"--items: not with the engine {options.engine}; score the answers first, and add --items without "
            "--judge-engine and --engine"
        )
    if not any(items_of(question) for question in questions):
        raise InputError(
            "--items: no question has items or a numbered checklist; `medjudge data check` counts them, and "
            "docs/items.md shows how to write them"
        )


def mark_items(run: Run, judge_ref: JudgeRef, options: JudgeOptions, loaded: Judge | None = None) -> ItemStudy:
    """Checks what is not checked yet, and writes `items/JUDGE.json`; every verdict is on disk before the next is made.

    Args:
        loaded: The judge where it is in memory already.

    Raises:
        InputError: The run holds verdicts by another judge of this name, or the judge cannot be loaded.
        UnfinishedError: A server did not answer, the limit on costs is reached, or the judge's files changed.
    """
    scheme, file = run.scheme(), item_judgments_file(run, judge_ref.name)
    station = LabelStation(run, judge_ref, options, file, ItemJudgment, item_prompts_sha256(scheme))
    done = {judgment.answer_key for judgment in station.begin()}
    work = item_assignments(run.questions(), run.answers(), scheme)
    waiting = [assignment for assignment in work if assignment.answer.key not in done]
    if done and waiting:
        say(f"items of {len(work) - len(waiting)} answers are checked by {judge_ref.name}; {len(waiting)} to go")
    if waiting:
        kept = "the items of {made} answers were checked and are"
        station.judge(waiting, "items", "answer", kept, loaded)
    return write_item_study(run, judge_ref)


def write_item_study(run: Run, judge_ref: AnyRef) -> ItemStudy:
    """Computes the scores by items from the records of a run, and writes `items/JUDGE.json`."""
    scores = unseen_by(run, judge_ref, run.item_scores(), "physicians' verdicts on items")
    study = item_study(run, judge_ref.name, scores)
    write_json(item_study_file(run, judge_ref.name), study.model_dump(mode="json"))
    return study


def physicians_items(run: Run, judge_ref: AnyRef) -> PhysicianItemStudy | None:
    """The judge's verdicts on items against physicians', where both checked answers of the run."""
    marked = run.item_scores()
    if not marked:
        return None
    if not item_judgments(run, judge_ref.name):
        if checks_items(judge_ref):
            say(f"{run.items_file}: {len(marked)} verdicts; `medjudge eval --items` lets this judge check items, too")
        return None
    return write_item_study(run, judge_ref).physicians
