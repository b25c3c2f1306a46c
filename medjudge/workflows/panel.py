"""A panel judges: each member as if it were alone, and then their verdicts are combined."""

import json
from collections import Counter
from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Any

import numpy as np

from medjudge.chat_api.spending import Limit, Spending
from medjudge.distill.calibrate import soft_label
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.judge.open import AnyRef, ApiRef, ImportedRef, JudgeOptions, MemberRef, PanelRef
from medjudge.judge.panel import MemberRecord, PanelRecord, combined
from medjudge.judge.protocol import Assignment, assignments, scored, unscored
from medjudge.provenance import stamped
from medjudge.records import AnswerKey, ErrorKind, Judgment
from medjudge.scale import LEVELS
from medjudge.scheme import Scheme
from medjudge.store import Run
from medjudge.validation.usability import NOT_JUDGED, REASONS
from medjudge.validation.validations import statuses_in, use_in
from medjudge.workflows.judge import introduction, judge_answers, require_same_judge

_Verdicts = Sequence[Judgment | None]
"""The members' judgments of one answer in one round, or one member's of all answers; None where it has none."""


def judged_by(run: Run, judge_ref: AnyRef, options: JudgeOptions, only: set[AnswerKey] | None = None) -> list[Judgment]:
    """As `judge_answers`, by any judge; one that is known by its judgments makes no more of them."""
    if isinstance(judge_ref, PanelRef):
        return judge_panel(run, judge_ref, options, only)
    if isinstance(judge_ref, ImportedRef):
        return run.judgments(judge_ref.name)
    return judge_answers(run, judge_ref, options, only)


def judge_panel(run: Run, panel: PanelRef, options: JudgeOptions, only: set[AnswerKey] | None = None) -> list[Judgment]:
    """As `judge_answers`, by each member and then by all together; one that cannot go on does not stop the others.

    Raises:
        InputError: As for `judge_answers` and `check_panel`.
    """
    for member in panel.members:
        try:
            judged_by(run, member, options, only)
        except UnfinishedError as error:
            notify(f"panel {panel.name}: goes on without member {member.name}: {error}")
    _combine(run, panel, options)
    return run.judgments(panel.name)


def check_panel(run: Run, judge_ref: AnyRef, options: JudgeOptions) -> None:
    """Checks a panel before anything is written; does nothing for a single judge.

    Args:
        run: It need not exist.

    Raises:
        InputError: The run holds judgments of another judge of the panel's or a member's name.
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


def panel_introduction(
    panel: PanelRef, options: JudgeOptions, scheme: Scheme, run: Run, models: Collection[str]
) -> str:
    """As `introduction`: a line for the panel and one for each member."""
    status = statuses_in(run, panel.name, models)["OP"].line
    settings = panel.settings
    lines = [
        f"judge {panel.name}: a panel of {len(panel.members)}, {settings.combine} of at least {settings.fewest}; "
        f"{status}"
    ]
    for member in panel.members:
        if isinstance(member, ImportedRef):
            lines.append(f"  judge {member.name}: known by its judgments in {run.path}")
        else:
            lines.append(f"  {introduction(member, options, scheme, run, models)}")
    return "\n".join(lines)


def _combine(run: Run, panel: PanelRef, options: JudgeOptions) -> None:
    """Writes the panel's judgments from those of its members, and what each of them did into `run.json`."""
    by_member = [
        {(judgment.answer_key, judgment.round): judgment for judgment in run.judgments(member.name)}
        for member in panel.members
    ]
    work: list[tuple[Assignment, _Verdicts]] = []
    for item in assignments(run.questions(), run.answers(), options.rounds, run.scheme()):
        verdicts = [own.get((item.answer.key, item.round)) for own in by_member]
        if _decided(panel, verdicts):
            work.append((item, verdicts))
    probabilities = np.full((len(work), len(panel.members), LEVELS), np.nan)
    for row, (_, judged) in enumerate(work):
        for place, verdict in enumerate(judged):
            if verdict is not None and verdict.score is not None:
                probabilities[row, place] = soft_label([verdict])
    pooled = combined(probabilities, panel.settings.combine)
    judgments = [
        _judgment(panel, item, judged, *rows) for (item, judged), *rows in zip(work, probabilities, pooled, strict=True)
    ]
    run.rewrite(run.judgments_file(panel.name), stamped(judgments, run.texts()))
    record = PanelRecord(
        combine=panel.settings.combine,
        at_least=panel.settings.fewest,
        members=[
            _member_record(run, member, [judged[place] for _, judged in work], options.limit)
            for place, member in enumerate(panel.members)
        ],
        too_few=sum(judgment.score is None for judgment in judgments),
    )
    _write_entry(run, panel, options, record)


def _decided(panel: PanelRef, verdicts: _Verdicts) -> bool:
    """True if the panel can say something: enough members scored, or those that have not judged yet are too few."""
    in_favour = sum(verdict is not None and verdict.score is not None for verdict in verdicts)
    pending = sum(
        verdict is None and not isinstance(member, ImportedRef)
        for verdict, member in zip(verdicts, panel.members, strict=True)
    )
    fewest = panel.settings.fewest
    return any(verdicts) and (in_favour >= fewest or in_favour + pending < fewest)


def _judgment(
    panel: PanelRef, item: Assignment, verdicts: _Verdicts, probabilities: np.ndarray, pooled: np.ndarray
) -> Judgment:
    """The panel's judgment: `raw` holds what each member said, `rationale` the same for people."""
    said: list[dict[str, Any]] = []
    lines = []
    for member, verdict, shares in zip(panel.members, verdicts, probabilities, strict=True):
        if verdict is not None and verdict.score is not None:
            rounded = [round(float(share), 4) for share in shares]
            said.append({"judge": member.name, "score": verdict.score, "probabilities": rounded})
            lines.append(f"{member.name}: {verdict.score}")
            continue
        kind = ErrorKind.NOT_IN_FILE if isinstance(member, ImportedRef) else None
        error: str | None = NOT_JUDGED
        if verdict is not None:
            kind, error = verdict.error_kind, verdict.error
        said.append({"judge": member.name, "error_kind": kind and kind.value, "error": error})
        lines.append(f"{member.name}: left out, {error}")
    raw = json.dumps({"members": said}, ensure_ascii=False)
    in_favour, fewest = sum("score" in one for one in said), panel.settings.fewest
    if in_favour < fewest or not np.isfinite(pooled).all():
        error = f"{in_favour} of {len(said)} members scored this answer, and the panel needs {fewest}: "
        return unscored(item, panel.name, ErrorKind.TOO_FEW_MEMBERS, error + "; ".join(lines), raw)
    return scored(item, panel.name, pooled, rationale="\n".join(lines), raw=raw)


def _member_record(run: Run, member: MemberRef, verdicts: _Verdicts, limit: Limit) -> MemberRecord:
    reasons = [
        NOT_JUDGED if verdict is None else REASONS[verdict.error_kind]
        for verdict in verdicts
        if verdict is None or verdict.score is None
    ]
    judged = sum(verdict is not None for verdict in verdicts)
    usd: float | None = None if isinstance(member, ImportedRef) else 0.0
    if isinstance(member, ApiRef):
        usd = Spending(run, Limit(None, limit.prices)).usd_of(member.model)
    return MemberRecord(
        judge=member.name,
        judged=judged,
        waiting=0 if isinstance(member, ImportedRef) else len(verdicts) - judged,
        left_out=dict(Counter(reasons).most_common()),
        seconds=run.manifest().get("judges", {}).get(member.name, {}).get("seconds", 0.0),
        usd=usd,
    )


def _write_entry(run: Run, panel: PanelRef, options: JudgeOptions, record: PanelRecord) -> None:
    """Writes the panel into `run.json`, as the judge that judged last."""
    scheme = run.scheme()
    settings = panel.settings.model_dump(mode="json") | {"at_least": panel.settings.fewest}
    # What changes a member's scores; of one known by its judgments, as the run has it.
    members = [
        use_in(run, member.name).judge_sha256 if isinstance(member, ImportedRef) else member.identity(options, scheme)
        for member in panel.members
    ]
    judges = run.manifest().get("judges", {})
    judges[panel.name] = {
        "kind": "panel",
        "base_model": None,
        "sha256": sha256(json.dumps([members, settings], sort_keys=True).encode()).hexdigest(),
        "rubrics_sha256": panel.rubrics_sha256(scheme),
        "judgments": len(run.judgments(panel.name)),
        "seconds": round(sum(member.seconds for member in record.members), 1),
        "seen_question_ids": sorted(panel.seen),
        "validated_on": [],
        "panel": record.model_dump(mode="json"),
    }
    run.update_manifest(judges=judges, judge=panel.name)
