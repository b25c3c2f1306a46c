"""Which texts a judge reads, and so which changes can affect its scores."""

from medjudge.errors import InputError
from medjudge.judge.folder import KINDS
from medjudge.judge.open import JudgeRef
from medjudge.refine.material import TargetKind


def kinds_read(judge_ref: JudgeRef) -> frozenset[TargetKind]:
    """The kinds of text that a judge takes a new version of.

    An API judge reads rubric and checklist. A generative judge was trained with the rubrics as they are, so it takes
    only new checklists. An ordinal judge reads no rubric, and the checklist only if its training set had some. A
    similarity judge reads only the reference.
    """
    if judge_ref.api_model is not None:
        return frozenset({"checklist", "rubric"})
    card, folder = judge_ref.card, judge_ref.folder
    if card is None or folder is None or not KINDS[card.kind].reads_checklist(folder):
        return frozenset()
    return frozenset({"checklist"})


def why_not_refinable(judge_ref: JudgeRef) -> str | None:
    """Why no change can affect the judge, and which judges to take instead; None where one can."""
    if judge_ref.imported:
        return "only its judgments are known, so it cannot score again; give its folder or openai:MODEL"
    if not kinds_read(judge_ref):
        return (
            "reads neither checklist nor rubric, so no change of them affects it; take an openai:MODEL or generative "
            "judge, or an ordinal judge trained on checklists"
        )
    return None


def require_refinable(judge_ref: JudgeRef) -> None:
    """Refuses a judge that no change can affect.

    Raises:
        InputError: The judge cannot score again, or reads neither checklists nor rubrics.
    """
    if why := why_not_refinable(judge_ref):
        raise InputError(f"--judge {judge_ref.name}: {why}, or add --dry-run")
