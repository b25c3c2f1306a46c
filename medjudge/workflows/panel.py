"""A panel judges: each member as if it were alone, and then their verdicts are combined."""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from medjudge.chat_api.spending import Limit, Spending
from medjudge.distill.panel_fit import member_probabilities
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.judge.open import JudgeRef, PanelRef
from medjudge.judge.panel import MemberFit, MemberRecord, PanelFit, PanelRecord
from medjudge.judge.protocol import Assignment, Judge, assignments, scored, unscored
from medjudge.parallel.group import Group
from medjudge.provenance import stamped
from medjudge.records import AnswerKey, ErrorKind, Judgment
from medjudge.scale import LEVELS
from medjudge.scheme import Scheme
from medjudge.statistics.panels import combined
from medjudge.store import Run
from medjudge.validation.usability import NO_REASON, NOT_JUDGED, REASONS
from medjudge.validation.validations import statuses_in
from medjudge.workflows.judge import JudgeOptions, introduction, judge_answers, require_same_judge, rubrics_identity
from medjudge.workflows.panel_calibration import CalibrationScores, fit_of, member_identity, own_scores, stored_fit

_Judged = Mapping[tuple[AnswerKey, int], Judgment]
"""A member's judgments by answer and round."""


def judge_with(
    run: Run,
    judge_ref: JudgeRef,
    options: JudgeOptions,
    only: set[AnswerKey] | None = None,
    loaded: Judge | None = None,
    group: Group = Group(),
    scores: CalibrationScores | None = None,
) -> list[Judgment]:
    """As `judge_answers`, by one judge or by a panel; a member that cannot go on does not stop the others.

    Args:
        scores: Physicians' scores to calibrate a panel's members on; those of the run unless given.

    Raises:
        InputError: As for `judge_answers` and `check_panel`.
    """
    panel = judge_ref.panel
    if panel is None:
        return judge_answers(run, judge_ref, options, only, loaded, group)
    for member in panel.members:
        if member.imported:
            continue
        try:
            judge_answers(run, member, options, only, group=group)
        except UnfinishedError as error:
            if group.size > 1:
                raise
            notify(f"panel {judge_ref.name}: goes on without member {member.name}: {error}")
    if group.first:
        _combine(run, judge_ref, panel, options, scores or own_scores(run))
    group.wait()
    return run.judgments(judge_ref.name)


def check_panel(run: Run, judge_ref: JudgeRef, options: JudgeOptions) -> None:
    """Checks a panel before anything is written; does nothing for a single judge.

    Args:
        run: It need not exist.

    Raises:
        InputError: The run holds judgments of another judge of the panel's or a member's name, or the panel's
            calibration is another one's.
    """
    panel = judge_ref.panel
    if panel is None:
        return
    recorded = run.manifest().get("judges", {}).get(judge_ref.name, {})
    if judge_ref.name in run.judges() and recorded.get("kind") != "panel":
        raise InputError(
            f"{panel.place}: {run.path} holds judgments of another judge named {judge_ref.name}; rename the YAML file "
            "or choose another --run"
        )
    for member in panel.members:
        if run.path.exists() and not member.imported:
            require_same_judge(run, member, options)
    stored_fit(run, judge_ref, panel, options)


def introduction_of(
    judge_ref: JudgeRef, options: JudgeOptions, scheme: Scheme, run: Run, models: Collection[str]
) -> str:
    """As `introduction`; a panel has a line for itself and one for each member."""
    panel = judge_ref.panel
    if panel is None:
        return introduction(judge_ref, options, scheme, run, models)
    status = statuses_in(run, judge_ref.name, models)["OP"].line
    settings = panel.settings
    lines = [
        f"judge {judge_ref.name}: a panel of {len(panel.members)}, {settings.combine} of at least {settings.fewest}, "
        f"{settings.weights} weights; {status}"
    ]
    for member in panel.members:
        known = f"judge {member.name}: known by its judgments in {run.path}"
        lines.append(f"  {known if member.imported else introduction(member, options, scheme, run, models)}")
    return "\n".join(lines)


def _combine(
    run: Run, judge_ref: JudgeRef, panel: PanelRef, options: JudgeOptions, scores: CalibrationScores | None
) -> None:
    """Writes the panel's judgments from those of its members, and what each of them did into `run.json`."""
    fit = fit_of(run, judge_ref, panel, options, scores)
    work = assignments(run.questions(), run.answers(), options.rounds, run.scheme())
    judged = [
        {(judgment.answer_key, judgment.round): judgment for judgment in run.judgments(member.name)}
        for member in panel.members
    ]
    decided = [item for item in work if _decided(item, panel, judged)]
    judgments = _combined(judge_ref.name, panel, decided, judged, fit)
    run.rewrite(run.judgments_file(judge_ref.name), stamped(judgments, run.texts()))
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
    _write_entry(run, judge_ref, panel, options, record, fit)


def _decided(item: Assignment, panel: PanelRef, judged: Sequence[_Judged]) -> bool:
    """Whether the panel can say something: enough members scored, or those that have not judged yet are too few."""
    verdicts = [own.get((item.answer.key, item.round)) for own in judged]
    if not any(verdicts):
        return False
    in_favour = sum(verdict is not None and verdict.score is not None for verdict in verdicts)
    pending = sum(
        verdict is None and not member.imported for verdict, member in zip(verdicts, panel.members, strict=True)
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


def _said(member: JudgeRef, verdict: Judgment | None, probabilities: np.ndarray) -> dict[str, Any]:
    """What a member said about an answer: its own score and the probabilities that count, or why it was left out."""
    if verdict is None:
        kind = ErrorKind.NOT_IN_FILE.value if member.imported else None
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
    run: Run, member: JudgeRef, own: _Judged, work: Sequence[Assignment], fit: MemberFit, limit: Limit
) -> MemberRecord:
    verdicts = [own.get((item.answer.key, item.round)) for item in work]
    reasons = [
        NOT_JUDGED if verdict is None else NO_REASON if verdict.error_kind is None else REASONS[verdict.error_kind]
        for verdict in verdicts
        if verdict is None or verdict.score is None
    ]
    usd: float | None = None if member.imported else 0.0
    if member.api_model is not None:
        usd = Spending(run, Limit(None, limit.prices)).of_model(member.api_model).usd
    entry = run.manifest().get("judges", {}).get(member.name, {})
    return MemberRecord(
        judge=member.name,
        weight=fit.weight,
        calibrated=fit.maps is not None,
        why=fit.why,
        judged=sum(verdict is not None for verdict in verdicts),
        waiting=0 if member.imported else sum(verdict is None for verdict in verdicts),
        left_out=dict(Counter(reasons).most_common()),
        seconds=entry.get("seconds", 0.0),
        usd=usd,
    )


def _write_entry(
    run: Run, judge_ref: JudgeRef, panel: PanelRef, options: JudgeOptions, record: PanelRecord, fit: PanelFit | None
) -> None:
    """Writes the panel into `run.json`, as the judge that judged last."""
    scheme = run.scheme()
    settings = panel.settings.model_dump(mode="json", exclude={"calibration"}) | {"at_least": panel.settings.fewest}
    members = [member_identity(run, member, options) for member in panel.members]
    parts = [members, settings, fit.model_dump(mode="json") if fit else None]
    judges = run.manifest().get("judges", {})
    judges[judge_ref.name] = {
        "kind": "panel",
        "base_model": None,
        "sha256": sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest(),
        "rubrics_sha256": panel_rubrics(panel, scheme),
        "judgments": len(run.judgments(judge_ref.name)),
        "seconds": round(sum(member.seconds for member in record.members), 1),
        "seen_question_ids": sorted({*judge_ref.seen, *(fit.question_ids if fit else ())}),
        "validated_on": [],
        "panel": record.model_dump(mode="json"),
    }
    run.update_manifest(judges=judges, judge=judge_ref.name)


def panel_rubrics(panel: PanelRef, scheme: Scheme) -> str:
    """The sha256 of the rubrics that the members read."""
    parts = [rubrics_identity(member, scheme) for member in panel.members]
    return sha256(json.dumps(parts).encode()).hexdigest()
