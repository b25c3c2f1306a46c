"""A judge compared with another one on the answers that both and physicians scored.

The other judge is its teacher, a member of the panel, or a judge that was trained on what this one never saw.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from typing_extensions import Unpack

from medjudge.errors import InputError
from medjudge.judge.panel import read_panel_record
from medjudge.judge.study_summary import Measures
from medjudge.records import Judgment, PhysicianScore, Question
from medjudge.scale import LEVELS
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.bootstrap import Resampling, Sums, bootstrap, tally
from medjudge.statistics.estimates import Record, estimate, paired_interval
from medjudge.statistics.measures import bias, cohen_kappa, quadratic_kappa, usable_agreement
from medjudge.store import Run
from medjudge.validation.answers import Pairs, paired

FEWEST_CONVERSATIONS = 30
"""Conversations below which non-inferiority is inconclusive, whatever the interval says."""
_MEASURES = {
    "usable_agreement": usable_agreement,
    "cohen_kappa": cohen_kappa,
    "quadratic_kappa": quadratic_kappa,
    "bias": bias,
}


class NonInferiority(Record):
    """`shown`: whether the judge loses at most `margin` against its teacher; null where the scores do not suffice."""

    margin: float
    shown: bool | None


class TeacherComparison(Record):
    """Judge and teacher, each against the physicians, on the `n` answers that all three scored."""

    teacher: str
    n: int
    conversations: int
    of_judge: Measures
    of_teacher: Measures
    difference: Measures
    non_inferiority: NonInferiority


class MemberAgreement(Record):
    """One member of a panel against the physicians, on the `n` answers of the panel's study that it scored.

    `difference` is the panel minus the member on these answers. `as_good`: true where the member is shown to lose less
    than the margin against the panel, false where it is shown to be worse, null where the scores do not suffice. Time
    and cost are for all of its judgments in the run.
    """

    judge: str
    n: int
    measures: Measures
    difference: Measures
    as_good: bool | None
    seconds: float
    seconds_per_answer: float | None
    usd: float | None


class PanelStudy(Record):
    """The members of a panel, each compared with the panel.

    `enough` is the cheapest member shown to be as good as the panel within `margin`, None where there is none.
    """

    margin: float
    members: list[MemberAgreement]
    enough: str | None
    seconds: float
    usd: float | None


class LeaveOutRow(Record):
    """A judge that never saw `left_out`, compared with one that did, on the same answers.

    `removed` counts the training lines that the former did without.
    """

    left_out: str | None
    n: int
    coverage: float
    conversations: int
    unseen: Measures | None
    seen: Measures | None
    difference: Measures | None
    removed: int | None = None


class LeaveOutStudy(Record):
    """One row for each model or category left out of training, and one of all their answers."""

    by: Literal["model", "category"]
    config: str
    rows: list[LeaveOutRow]


class Compared(NamedTuple):
    """Estimates by measure, of each judge and of first minus second, on `n` answers; empty where there are none."""

    n: int
    conversations: int
    first: Measures
    second: Measures
    difference: Measures


def compare(pairs: Pairs, **how: Unpack[Resampling]) -> Compared:
    """Compares a judge with a second one (`pairs.teacher`), on the answers that both scored.

    The same resamples serve both, so differences in difficulty cancel out.
    """
    both = pairs.only(np.isfinite(pairs.teacher))
    n, conversations = len(both.judge), both.conversations
    if n == 0:
        return Compared(0, 0, {}, {}, {})
    tallies = {
        side: tally((levels - 1) * LEVELS + both.physician - 1, (LEVELS, LEVELS))
        for side, levels in (("first", both.judge), ("second", both.teacher.astype(int)))
    }

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        values = {f"{side} {name}": measure(sums[side]) for side in tallies for name, measure in _MEASURES.items()}
        for name in _MEASURES:
            values[f"difference {name}"] = values[f"first {name}"] - values[f"second {name}"]
        return values

    intervals = bootstrap(tallies, both.conversation, statistics, **how)
    usable = "difference usable_agreement"
    intervals[usable] = paired_interval(intervals[usable], conversations)
    sides = (
        {name: estimate(intervals[f"{side} {name}"], conversations, name == "usable_agreement") for name in _MEASURES}
        for side in (*tallies, "difference")
    )
    return Compared(n, conversations, *sides)


def against_teacher(
    pairs: Pairs, teacher: str, margin: float = 0.05, **how: Unpack[Resampling]
) -> TeacherComparison | None:
    """Compares the agreement of judge and teacher with physicians.

    Non-inferiority is shown where the low end of the 95 % interval of the difference in usable agreement lies above
    minus the margin: a one-sided test at 2.5 %, as regulators ask for it.

    Args:
        margin: The largest loss of usable agreement, as a share, that would not matter; given before looking.

    Returns:
        None where no answer has scores of all three.
    """
    n, conversations, of_judge, of_teacher, difference = compare(pairs, **how)
    if n == 0:
        return None
    low = difference["usable_agreement"]["low"]
    shown = low >= -margin if low is not None and conversations >= FEWEST_CONVERSATIONS else None
    return TeacherComparison(
        teacher=teacher,
        n=n,
        conversations=conversations,
        of_judge=of_judge,
        of_teacher=of_teacher,
        difference=difference,
        non_inferiority=NonInferiority(margin=margin, shown=shown),
    )


def panel_study(
    run: Run, panel: str, scores: Sequence[PhysicianScore], margin: float, **how: Unpack[Resampling]
) -> PanelStudy:
    """Compares a panel of a run and its members with the same physicians.

    A member is as good as all where the high end of the 95 % interval of panel minus member in usable agreement lies at
    or below the margin, and worse where the low end lies above 0; below 30 conversations neither is said.

    Args:
        margin: The loss of usable agreement that does not matter.
    """
    record = read_panel_record(run, panel)
    assert record is not None
    questions, judgments, scheme = run.questions(), run.judgments(panel), run.scheme()
    rows = []
    for member in record.members:
        compared = compare(paired(questions, judgments, scores, run.judgments(member.judge), scheme), **how)
        as_good = None
        if compared.conversations >= FEWEST_CONVERSATIONS:
            low, high = (compared.difference["usable_agreement"][end] for end in ("low", "high"))
            if low is not None and high is not None:
                as_good = True if high <= margin else False if low > 0 else None
        seconds = round(member.seconds / member.judged, 4) if member.seconds and member.judged else None
        rows.append(
            MemberAgreement(
                judge=member.judge,
                n=compared.n,
                measures=compared.second,
                difference=compared.difference,
                as_good=as_good,
                seconds=member.seconds,
                seconds_per_answer=seconds,
                usd=member.usd,
            )
        )
    good = [row for row in rows if row.as_good]
    cheapest = min(good, key=lambda row: (row.usd is None, row.usd or 0.0, row.seconds), default=None)
    costs = [row.usd for row in rows if row.usd is not None]
    return PanelStudy(
        margin=margin,
        members=rows,
        enough=cheapest.judge if cheapest else None,
        seconds=round(sum(row.seconds for row in rows), 1),
        usd=round(sum(costs), 6) if len(costs) == len(rows) else None,
    )


def leave_out_rows(
    by: Literal["model", "category"],
    questions: Sequence[Question],
    unseen: Mapping[str, Sequence[Judgment]],
    seen: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    scheme: Scheme = LLMEVAL_MED,
    **how: Unpack[Resampling],
) -> list[LeaveOutRow]:
    """One row for each value that was left out; with several, a last one of all their answers (`left_out` is None).

    `n` counts the answers that both judges scored, and `coverage` is their share of the answers of this value that
    physicians scored. `unseen`, `seen` and `difference` are None where they scored none. The intervals cover the choice
    of answers, not chance in training: other seeds would move both judges.

    Args:
        by: Whether values are answering models or categories.
        questions: They give the category and the conversation of each answer.
        unseen: Value -> judgments by the judge that was trained without it. Those of other values are ignored.
        seen: Judgments by the judge trained on everything.

    Raises:
        InputError: Physicians scored no answer of a value.
    """
    category = {question.id: question.category for question in questions}
    answers = {score.answer_key for score in scores if score.question_id in category}
    scored = Counter(key.model if by == "model" else category[key.question_id] for key in answers)
    parts: list[tuple[str | None, Pairs, int]] = []
    for value, judgments in unseen.items():
        if not scored[value]:
            raise InputError(f"leaving out {by} {value}: physicians scored no answer of it; take one that they scored")
        pairs = paired(questions, judgments, scores, seen, scheme)
        part = pairs.only((pairs.model if by == "model" else pairs.category) == value)
        parts.append((value, part, scored[value]))
    if len(parts) > 1:
        of_all = (np.concatenate(columns) for columns in zip(*(pairs for _, pairs, _ in parts), strict=True))
        parts.append((None, Pairs(*of_all), sum(number for *_, number in parts)))
    rows = []
    for left_out, pairs, number in parts:
        n, conversations, of_unseen, of_seen, difference = compare(pairs, **how)
        rows.append(
            LeaveOutRow(
                left_out=left_out,
                n=n,
                coverage=round(n / number, 6),
                conversations=conversations,
                unseen=of_unseen or None,
                seen=of_seen or None,
                difference=difference or None,
            )
        )
    return rows
