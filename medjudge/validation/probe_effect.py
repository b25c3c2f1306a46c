"""The effect of a probe: does a change of an answer that must not change its score change the judge's score?

`medjudge.probes` changes the answers; this module compares the judgments before and after.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from typing_extensions import Unpack

from medjudge.probes.probes import Counted
from medjudge.records import Judgment
from medjudge.rounds import expected_of, level_of, scored_rounds
from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import Interval, Resampling, by_percentile
from medjudge.statistics.estimates import Estimate, Record, clustered_wilson, interval_estimate, mean_interval


class ProbeEffect(Record):
    """A probe's effect on the judge."""

    n: int
    conversations: int
    unscored: int
    shift: Estimate
    flips: Estimate
    to_usable: Estimate
    to_unusable: Estimate


class ProbeStudy(Record):
    """The effects of all probes on `answers` answers; `not_applied` names the probes that changed none of them."""

    answers: int
    effects: dict[str, ProbeEffect]
    not_applied: list[str]


def probe_effect(
    before: Sequence[Judgment],
    after: Sequence[Judgment],
    clusters: Mapping[str, str],
    counted: Counted = "changes",
    **how: Unpack[Resampling],
) -> ProbeEffect:
    """A probe's effect on a judge, with 95 % intervals.

    Answers that were scored before and judged again count. One that is unscored after the probe counts as not usable,
    as everywhere: a flip where it was usable before; it has no `shift`. All shares are of the same `n` answers.

    Args:
        before: A judge's judgments of the answers as they are. Rounds are averaged.
        after: Its judgments of the changed answers.
        clusters: The conversation of each question, by id.
        counted: What counts as a flip. With `rises`, for a probe that may lower a score, `n` leaves out answers that
            were usable before. With `usable`, for a text that answers nothing, each answer that is usable after.
        how: For the interval of the shift, always a percentile interval.

    Returns:
        `n` answers from so many `conversations`; `unscored` after the probe; `shift`, the mean change of the expected
        score in levels; and as shares `flips` (the label usable changed, or as `counted` says), `to_usable` and
        `to_unusable`, with None for what is undefined.
    """
    judged_after = {judgment.answer_key for judgment in after}
    old, new = scored_rounds(before), scored_rounds(after)
    keys = [
        key for key in old if key in judged_after and not (counted == "rises" and level_of(old[key]) >= USABLE_FROM)
    ]
    conversation = np.array([clusters[key.question_id] for key in keys], dtype=str)
    scored = np.array([key in new for key in keys], dtype=bool)
    was = np.array([level_of(old[key]) >= USABLE_FROM for key in keys], dtype=bool)
    now = np.array([key in new and level_of(new[key]) >= USABLE_FROM for key in keys], dtype=bool)
    shift = np.array([expected_of(new[key]) - expected_of(old[key]) for key in keys if key in new], dtype=float)
    moved = mean_interval(shift, conversation[scored], **by_percentile(how))
    if len(np.unique(conversation[scored])) == 1:  # one conversation says nothing about others
        moved = Interval(moved.value, np.nan, np.nan)
    up, down = ~was & now, was & ~now
    return ProbeEffect(
        n=len(keys),
        conversations=len(np.unique(conversation)),
        unscored=int((~scored).sum()),
        shift=interval_estimate(*moved),  # one of 0 in every conversation keeps its interval of no width
        flips=_share(now if counted == "usable" else up | down, conversation),
        to_usable=_share(up, conversation),
        to_unusable=_share(down, conversation),
    )


def _share(happened: np.ndarray, conversation: np.ndarray) -> Estimate:
    if len(happened) == 0:
        return Estimate(value=None, low=None, high=None)
    return interval_estimate(*clustered_wilson(happened, conversation, cautious=True))
