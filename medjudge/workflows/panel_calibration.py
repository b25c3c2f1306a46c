"""A panel's members are calibrated once in a run, on a part of the physicians' scores; the run keeps the result."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.distill.panel_fit import MemberJudgments, fit_panel, training_part
from medjudge.errors import InputError
from medjudge.files import file_sha256, write_json
from medjudge.judge.open import JudgeRef, PanelRef
from medjudge.judge.panel import PanelFit, panel_file, read_fit
from medjudge.records import PhysicianScore
from medjudge.rounds import scored_rounds
from medjudge.screen import say
from medjudge.store import Run
from medjudge.validation.validations import use_in
from medjudge.workflows.judge import JudgeOptions, identity
from medjudge.workflows.physician_scores import scores_of_run


class CalibrationScores(NamedTuple):
    """Physicians' scores of answers of a run, the file that they come from, and its hash."""

    scores: Sequence[PhysicianScore]
    file: str
    sha256: str


def own_scores(run: Run) -> CalibrationScores | None:
    """The physicians' scores that the run itself holds; None where it holds none."""
    if not run.physicians_file.exists() or not (scores := run.settled_scores()):
        return None
    file = run.physicians_file
    return CalibrationScores(scores_of_run(run, scores, file.name), file.name, file_sha256(file))


def member_identity(run: Run, member: JudgeRef, options: JudgeOptions) -> str:
    """The sha256 of what changes a member's scores; of one known by its judgments, as the run has it."""
    return use_in(run, member.name).judge_sha256 if member.imported else identity(member, options, run.scheme())


def stored_fit(run: Run, judge_ref: JudgeRef, panel: PanelRef, options: JudgeOptions) -> PanelFit | None:
    """How the members are calibrated and weighted: as the run keeps it, else as the settings' file has it.

    Args:
        run: It need not exist.

    Raises:
        InputError: The file cannot be read, or was fitted for other members or weights.
    """
    file = panel_file(run, judge_ref.name)
    if not file.exists():
        if panel.settings.calibration is None:
            return None
        file = Path(panel.settings.calibration)
    fit = read_fit(file)
    here = {member.name: member_identity(run, member, options) for member in panel.members}
    there = {member.judge: member.sha256 for member in fit.members}
    if here.keys() != there.keys() or fit.weights != panel.settings.weights:
        raise InputError(
            f"{file}: was fitted for {', '.join(there)} with {fit.weights} weights; rename the panel's YAML file, or "
            "remove this file to calibrate again"
        )
    changed = [name for name in here if here[name] != there[name]]
    if changed:
        raise InputError(
            f"{file}: member {changed[0]} has changed since it was calibrated; remove the file to calibrate again"
        )
    return fit


def fit_of(
    run: Run, judge_ref: JudgeRef, panel: PanelRef, options: JudgeOptions, source: CalibrationScores | None
) -> PanelFit | None:
    """The stored fit or, where there is none, one on a training part of the scores, which the run then keeps.

    Conversations that a member was trained on are no part of it.

    Args:
        source: None for no scores.

    Returns:
        None where there are too few scores both to calibrate on and to validate with.
    """
    fit = stored_fit(run, judge_ref, panel, options)
    if fit is None and source is not None:
        fit = _fitted(run, judge_ref, panel, options, source)
    file = panel_file(run, judge_ref.name)
    if fit is not None and not file.exists():
        write_json(file, fit.model_dump(mode="json"))
    return fit


def _fitted(
    run: Run, judge_ref: JudgeRef, panel: PanelRef, options: JudgeOptions, source: CalibrationScores
) -> PanelFit | None:
    questions = run.questions()
    seen = {question.group for question in questions if question.id in judge_ref.seen}
    unseen = {question.id for question in questions if question.group not in seen}
    training = training_part(questions, [score for score in source.scores if score.question_id in unseen])
    if training is None:
        say(f"panel {judge_ref.name}: too few physicians' scores both to calibrate its members and to validate them")
        return None
    members = [
        MemberJudgments(member.name, member_identity(run, member, options), scored_rounds(run.judgments(member.name)))
        for member in panel.members
    ]
    fit = fit_panel(members, training, panel.settings.weights, source.file, source.sha256)
    say(
        f"panel {judge_ref.name}: members calibrated on {fit.answers} answers in {fit.conversations} conversations of "
        f"{source.file}, which its validation leaves out"
    )
    return fit
