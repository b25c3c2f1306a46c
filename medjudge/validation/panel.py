"""A panel beside its members: each one's agreement with the physicians, and how many independent votes they are."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.judge.panel import MemberRecord, PanelRecord, said_by_members
from medjudge.judge.panel_study import MemberAgreement, PanelStudy
from medjudge.records import AnswerKey, Judgment, PhysicianScore, Question
from medjudge.rounds import scored_rounds
from medjudge.scale import USABLE_FROM
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.estimates import Estimate, estimate, rounded
from medjudge.statistics.panels import Dependence, dependence
from medjudge.statistics.two_judges import compare
from medjudge.validation.against_teacher import FEWEST_CONVERSATIONS
from medjudge.validation.pairs import Pairs, paired
from medjudge.validation.study import Settings

_UNDEFINED: Estimate = {"value": None, "low": None, "high": None}


class PanelJudgments(NamedTuple):
    """What a panel did in a run, its judgments, and each member's own, uncalibrated ones by name."""

    record: PanelRecord
    panel: Sequence[Judgment]
    members: Mapping[str, Sequence[Judgment]]


def panel_study(
    judged: PanelJudgments,
    questions: Sequence[Question],
    scores: Sequence[PhysicianScore],
    settings: Settings = Settings(),
    scheme: Scheme = LLMEVAL_MED,
) -> PanelStudy:
    """Compares a panel and its members with the same physicians.

    A member is as good as all where the high end of the 95 % interval of panel minus member in usable agreement lies at
    or below the gate's margin, and worse where the low end lies above 0; below 30 conversations neither is said. The
    members' errors are those that they bring into the panel, after calibration.

    Args:
        scores: The physicians' scores that the panel was not calibrated on.
        settings: Intervals, and the gate with the margin.
    """
    margin = (settings.gate or scheme.gate).teacher_margin
    rows = []
    for member in judged.record.members:
        both = paired(questions, judged.panel, scores, judged.members[member.judge], scheme)
        rows.append(_member(member, both, margin, settings))
    pairs = paired(questions, judged.panel, scores, (), scheme)
    alike = _dependence(judged, pairs, settings)
    costs = [member.usd for member in judged.record.members]
    return PanelStudy(
        combine=judged.record.combine,
        weights=judged.record.weights,
        at_least=judged.record.at_least,
        margin=margin,
        calibrated_on=judged.record.calibrated_on,
        members=rows,
        answers=alike.answers,
        correlation=alike.correlation,
        mean_correlation=alike.mean,
        effective_votes=alike.votes,
        enough=_enough(rows),
        seconds=round(sum(member.seconds for member in judged.record.members), 1),
        usd=None if None in costs else round(sum(cost for cost in costs if cost is not None), 6),
    )


def _member(member: MemberRecord, both: Pairs, margin: float, settings: Settings) -> MemberAgreement:
    """A member on the answers that it, the panel and physicians scored; `both.teacher` is the member's level."""
    scored = both.only(np.isfinite(both.teacher))
    measures: dict[str, Estimate] = {}
    difference: dict[str, Estimate] = {}
    as_good = None
    if len(scored.judge):
        compared = compare(
            scored.judge,
            scored.teacher.astype(int),
            scored.physician,
            scored.conversation,
            settings.resamples,
            settings.seed,
            settings.interval,
        )
        measures, difference = compared.second, compared.difference
        low, high = difference["usable_agreement"]["low"], difference["usable_agreement"]["high"]
        if low is not None and high is not None and len(np.unique(scored.conversation)) >= FEWEST_CONVERSATIONS:
            as_good = True if high <= margin else False if low > 0 else None
    return MemberAgreement(
        judge=member.judge,
        weight=member.weight,
        n=len(scored.judge),
        calibrated=member.calibrated,
        measures=measures,
        difference=difference,
        as_good=as_good,
        seconds=member.seconds,
        seconds_per_answer=round(member.seconds / member.judged, 4) if member.seconds and member.judged else None,
        usd=member.usd,
    )


def _enough(rows: Sequence[MemberAgreement]) -> str | None:
    """The cheapest member as good as all, and the fastest of equally cheap ones."""
    good = [row for row in rows if row.as_good]
    cheapest = min(good, key=lambda row: (row.usd is None, row.usd or 0.0, row.seconds), default=None)
    return cheapest.judge if cheapest else None


class _Alike(NamedTuple):
    answers: int
    correlation: list[list[float | None]]
    mean: Estimate
    votes: Estimate


def _dependence(judged: PanelJudgments, pairs: Pairs, settings: Settings) -> _Alike:
    """How alike the members' errors are, on the answers that all of them and physicians scored."""
    names = [member.judge for member in judged.record.members]
    usable = {key: [_usable(rounds, name) for name in names] for key, rounds in scored_rounds(judged.panel).items()}
    keys = [
        AnswerKey(str(question), str(model), int(sample))
        for question, model, sample in zip(pairs.question_id, pairs.model, pairs.sample, strict=True)
    ]
    of_pairs = np.array([usable[key] for key in keys]).reshape(-1, len(names))
    rows = np.isfinite(of_pairs).all(axis=1)
    if not rows.any():
        return _Alike(0, [], _UNDEFINED, _UNDEFINED)
    wrong = (of_pairs[rows] >= 0.5 - 1e-9) != (pairs.physician[rows] >= USABLE_FROM)[:, None]
    found: Dependence = dependence(wrong, pairs.conversation[rows], settings.resamples, settings.seed)
    correlation = [[rounded(float(value)) for value in row] for row in found.correlation]
    return _Alike(int(rows.sum()), correlation, estimate(found.mean), estimate(found.votes))


def _usable(rounds: Sequence[Judgment], member: str) -> float:
    """The member's P(usable), mean over the panel's rounds; NaN where it was left out of one."""
    said = [said_by_members(judgment).get(member) for judgment in rounds]
    return float(np.mean([np.nan if row is None else sum(row[USABLE_FROM - 1 :]) for row in said]))
