"""A panel judges: each member as if it were alone, and then their verdicts are combined.

Its members are calibrated once in a run, on a part of the physicians' scores; the run keeps the result.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.chat_api.spending import Limit, Spending
from medjudge.distill.panel_fit import MemberJudgments, fit_panel, member_probabilities, training_part
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.files import file_sha256, write_json
from medjudge.judge.open import AnyRef, ApiRef, ImportedRef, JudgeOptions, MemberRef, PanelRef
from medjudge.judge.panel import MemberFit, MemberRecord, PanelFit, PanelRecord, panel_file, read_fit
from medjudge.judge.protocol import Assignment, assignments, scored, unscored
from medjudge.parallel.group import Group
from medjudge.provenance import stamped
from medjudge.records import AnswerKey, ErrorKind, Judgment, PhysicianScore
from medjudge.rounds import scored_rounds
from medjudge.scale import LEVELS
from medjudge.scheme import Scheme
from medjudge.screen import say
from medjudge.statistics.panels import combined
from medjudge.store import Run
from medjudge.validation.usability import NO_REASON, NOT_JUDGED, REASONS
from medjudge.validation.validations import statuses_in, use_in
from medjudge.workflows.judge import introduction, judge_answers, require_same_judge
from medjudge.workflows.physician_scores import scores_of_run

_Judged = Mapping[tuple[AnswerKey, int], Judgment]
"""A member's judgments by answer and round."""


class CalibrationScores(NamedTuple):
    """Physicians' scores of answers of a run, the file that they come from, and its hash."""

    scores: Sequence[PhysicianScore]
    file: str
    sha256: str


def judge_panel(
    run: Run,
    panel: PanelRef,
    options: JudgeOptions,
    only: set[AnswerKey] | None = None,
    group: Group = Group(),
    scores: CalibrationScores | None = None,
) -> list[Judgment]:
    """As `judge_answers`, by each member and then by all together; one that cannot go on does not stop the others.

    Args:
        scores: Physicians' scores to calibrate the members on; those of the run unless given.

    Raises:
        InputError: As for `judge_answers` and `check_panel`.
    """
    for member in panel.members:
        if isinstance(member, ImportedRef):
            continue
        try:
            judge_answers(run, member, options, only, group=group)
        except UnfinishedError as error:
            if group.size > 1:
                raise
            notify(f"panel {panel.name}: goes on without member {member.name}: {error}")
    if group.first:
        _combine(run, panel, options, scores or own_scores(run))
    group.wait()
    return run.judgments(panel.name)


def check_panel(run: Run, judge_ref: AnyRef, options: JudgeOptions) -> None:
    """Checks a panel before anything is written; does nothing for a single judge.

    Args:
        run: It need not exist.

    Raises:
        InputError: The run holds judgments of another judge of the panel's or a member's name, or the panel's
            calibration is another one's.
    """
    if not isinstance(judge_ref, PanelRef):
        return
    recorded = run.manifest().get("judges", {}).get(judge_ref.name, {})
    if judge_ref.name in run.judges() and recorded.get("kind") != "panel":
        raise InputError(
            f"{judge_ref.place}: {run.path} holds judgments of another judge named {judge_ref.name}; rename the YAML "
            "file or choose another --run"
        )
    for member in judge_ref.members:
        if run.path.exists() and not isinstance(member, ImportedRef):
            require_same_judge(run, member, options)
    stored_fit(run, judge_ref, options)


def panel_introduction(
    panel: PanelRef, options: JudgeOptions, scheme: Scheme, run: Run, models: Collection[str]
) -> str:
    """As `introduction`: a line for the panel and one for each member."""
    status = statuses_in(run, panel.name, models)["OP"].line
    settings = panel.settings
    lines = [
        f"judge {panel.name}: a panel of {len(panel.members)}, {settings.combine} of at least {settings.fewest}, "
        f"{settings.weights} weights; {status}"
    ]
    for member in panel.members:
        if isinstance(member, ImportedRef):
            lines.append(f"  judge {member.name}: known by its judgments in {run.path}")
        else:
            lines.append(f"  {introduction(member, options, scheme, run, models)}")
    return "\n".join(lines)


def _combine(run: Run, panel: PanelRef, options: JudgeOptions, scores: CalibrationScores | None) -> None:
    """Writes the panel's judgments from those of its members, and what each of them did into `run.json`."""
    fit = fit_of(run, panel, options, scores)
    work = assignments(run.questions(), run.answers(), options.rounds, run.scheme())
    judged = [
        {(judgment.answer_key, judgment.round): judgment for judgment in run.judgments(member.name)}
        for member in panel.members
    ]
    decided = [item for item in work if _decided(item, panel, judged)]
    judgments = _combined(panel.name, panel, decided, judged, fit)
    run.rewrite(run.judgments_file(panel.name), stamped(judgments, run.texts()))
    record = PanelRecord(
        combine=panel.settings.combine,
        weights=panel.settings.weights,
        at_least=panel.settings.fewest,
        members=[
            _member_record(run, member, own, decided, _fit_of_member(fit, place, panel), options.limit)
            for place, (member, own) in enumerate(zip(panel.members, judged, strict=True))
        ],
        calibrated_on=fit.answers if fit else 0,
        too_few=sum(judgment.score is None for judgment in judgments),
    )
    _write_entry(run, panel, options, record, fit)


def _decided(item: Assignment, panel: PanelRef, judged: Sequence[_Judged]) -> bool:
    """True if the panel can say something: enough members scored, or those that have not judged yet are too few."""
    verdicts = [own.get((item.answer.key, item.round)) for own in judged]
    if not any(verdicts):
        return False
    in_favour = sum(verdict is not None and verdict.score is not None for verdict in verdicts)
    pending = sum(
        verdict is None and not isinstance(member, ImportedRef)
        for verdict, member in zip(verdicts, panel.members, strict=True)
    )
    fewest = panel.settings.fewest
    return in_favour >= fewest or in_favour + pending < fewest


def _fit_of_member(fit: PanelFit | None, place: int, panel: PanelRef) -> MemberFit:
    """The fit of a member; an uncalibrated one of equal weight where nothing was fitted."""
    name = panel.members[place].name
    if fit is None:
        why = "no physicians' scores, or too few"
        return MemberFit(judge=name, sha256="", weight=1 / len(panel.members), why=why)
    return next(member for member in fit.members if member.judge == name)


def _combined(
    name: str, panel: PanelRef, work: Sequence[Assignment], judged: Sequence[_Judged], fit: PanelFit | None
) -> list[Judgment]:
    probabilities = np.full((len(work), len(panel.members), LEVELS), np.nan)
    fits = [_fit_of_member(fit, place, panel) for place in range(len(panel.members))]
    for place, own in enumerate(judged):
        verdicts = [own.get((item.answer.key, item.round)) for item in work]
        rows = [row for row, verdict in enumerate(verdicts) if verdict is not None and verdict.score is not None]
        category = np.array([work[row].question.category for row in rows], dtype=object)
        known = [verdict for verdict in verdicts if verdict is not None and verdict.score is not None]
        probabilities[rows, place] = member_probabilities(fits[place], known, category)
    pooled = combined(probabilities, np.array([one.weight for one in fits]), panel.settings.combine)
    return [
        _judgment(name, panel, item, [own.get((item.answer.key, item.round)) for own in judged], own_rows, row)
        for item, own_rows, row in zip(work, probabilities, pooled, strict=True)
    ]


def _judgment(
    name: str,
    panel: PanelRef,
    item: Assignment,
    verdicts: Sequence[Judgment | None],
    probabilities: np.ndarray,
    pooled: np.ndarray,
) -> Judgment:
    """The panel's judgment: `raw` holds what each member said, `rationale` the same for people."""
    members = [
        _said(member, verdict, row) for member, verdict, row in zip(panel.members, verdicts, probabilities, strict=True)
    ]
    raw = json.dumps({"members": members}, ensure_ascii=False)
    in_favour = sum("probabilities" in member for member in members)
    lines = "\n".join(_line(member) for member in members)
    if in_favour < panel.settings.fewest or not np.isfinite(pooled).all():
        error = (
            f"{in_favour} of {len(members)} members scored this answer, and the panel needs {panel.settings.fewest}: "
            + "; ".join(_line(member) for member in members)
        )
        return unscored(item, name, ErrorKind.TOO_FEW_MEMBERS, error, raw)
    return scored(item, name, pooled, rationale=lines, raw=raw)


def _said(member: MemberRef, verdict: Judgment | None, probabilities: np.ndarray) -> dict[str, Any]:
    """A member's word on an answer: its score and the probabilities that count, or why it was left out."""
    if verdict is None:
        kind = ErrorKind.NOT_IN_FILE.value if isinstance(member, ImportedRef) else None
        return {"judge": member.name, "error_kind": kind, "error": NOT_JUDGED}
    if verdict.score is None:
        kind = verdict.error_kind.value if verdict.error_kind else None
        return {"judge": member.name, "error_kind": kind, "error": verdict.error}
    rounded = [round(float(share), 4) for share in probabilities]
    return {"judge": member.name, "score": verdict.score, "probabilities": rounded}


def _line(member: Mapping[str, Any]) -> str:
    if "score" in member:
        return f"{member['judge']}: {member['score']}"
    return f"{member['judge']}: left out, {member['error']}"


def _member_record(
    run: Run, member: MemberRef, own: _Judged, work: Sequence[Assignment], fit: MemberFit, limit: Limit
) -> MemberRecord:
    verdicts = [own.get((item.answer.key, item.round)) for item in work]
    reasons = [
        NOT_JUDGED if verdict is None else NO_REASON if verdict.error_kind is None else REASONS[verdict.error_kind]
        for verdict in verdicts
        if verdict is None or verdict.score is None
    ]
    usd: float | None = None if isinstance(member, ImportedRef) else 0.0
    if isinstance(member, ApiRef):
        usd = Spending(run, Limit(None, limit.prices)).of_model(member.model).usd
    entry = run.manifest().get("judges", {}).get(member.name, {})
    return MemberRecord(
        judge=member.name,
        weight=fit.weight,
        calibrated=fit.maps is not None,
        why=fit.why,
        judged=sum(verdict is not None for verdict in verdicts),
        waiting=0 if isinstance(member, ImportedRef) else sum(verdict is None for verdict in verdicts),
        left_out=dict(Counter(reasons).most_common()),
        seconds=entry.get("seconds", 0.0),
        usd=usd,
    )


def _write_entry(run: Run, panel: PanelRef, options: JudgeOptions, record: PanelRecord, fit: PanelFit | None) -> None:
    """Writes the panel into `run.json`, as the judge that judged last."""
    scheme = run.scheme()
    settings = panel.settings.model_dump(mode="json", exclude={"calibration"}) | {"at_least": panel.settings.fewest}
    members = [member_identity(run, member, options) for member in panel.members]
    parts = [members, settings, fit.model_dump(mode="json") if fit else None]
    judges = run.manifest().get("judges", {})
    judges[panel.name] = {
        "kind": "panel",
        "base_model": None,
        "sha256": sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest(),
        "rubrics_sha256": panel.rubrics_sha256(scheme),
        "judgments": len(run.judgments(panel.name)),
        "seconds": round(sum(member.seconds for member in record.members), 1),
        "seen_question_ids": sorted({*panel.seen, *(fit.question_ids if fit else ())}),
        "validated_on": [],
        "panel": record.model_dump(mode="json"),
    }
    run.update_manifest(judges=judges, judge=panel.name)


def own_scores(run: Run) -> CalibrationScores | None:
    """The physicians' scores that the run itself holds; None where it holds none."""
    if not run.physicians_file.exists() or not (scores := run.settled_scores()):
        return None
    file = run.physicians_file
    return CalibrationScores(scores_of_run(run, scores, file.name), file.name, file_sha256(file))


def member_identity(run: Run, member: MemberRef, options: JudgeOptions) -> str:
    """The sha256 of what changes a member's scores; of one known by its judgments, as the run has it."""
    if isinstance(member, ImportedRef):
        return use_in(run, member.name).judge_sha256
    return member.identity(options, run.scheme())


def stored_fit(run: Run, panel: PanelRef, options: JudgeOptions) -> PanelFit | None:
    """The members' calibration and weights: as the run keeps them, else as the settings' file has it.

    Args:
        run: It need not exist.

    Raises:
        InputError: The file cannot be read, or was fitted for other members or weights.
    """
    file = panel_file(run, panel.name)
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


def fit_of(run: Run, panel: PanelRef, options: JudgeOptions, source: CalibrationScores | None) -> PanelFit | None:
    """The stored fit or, where there is none, one on a training part of the scores, which the run then keeps.

    Conversations that a member was trained on are no part of it.

    Args:
        source: None for no scores.

    Returns:
        None where there are too few scores both to calibrate on and to validate with.
    """
    fit = stored_fit(run, panel, options)
    if fit is None and source is not None:
        fit = _fitted(run, panel, options, source)
    file = panel_file(run, panel.name)
    if fit is not None and not file.exists():
        write_json(file, fit.model_dump(mode="json"))
    return fit


def _fitted(run: Run, panel: PanelRef, options: JudgeOptions, source: CalibrationScores) -> PanelFit | None:
    questions = run.questions()
    seen = {question.group for question in questions if question.id in panel.seen}
    unseen = {question.id for question in questions if question.group not in seen}
    training = training_part(questions, [score for score in source.scores if score.question_id in unseen])
    if training is None:
        say(f"panel {panel.name}: too few physicians' scores both to calibrate its members and to validate them")
        return None
    members = [
        MemberJudgments(member.name, member_identity(run, member, options), scored_rounds(run.judgments(member.name)))
        for member in panel.members
    ]
    fit = fit_panel(members, training, panel.settings.weights, source.file, source.sha256)
    say(
        f"panel {panel.name}: members calibrated on {fit.answers} answers in {fit.conversations} conversations of "
        f"{source.file}, which its validation leaves out"
    )
    return fit
