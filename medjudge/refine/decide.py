"""Whether a change is kept: agreement with physicians on answers that had no part in making it.

Agreement here is nearness in levels: an answer's improvement is by how much the judge's expected score came nearer to
the physicians' mean. Usable agreement of five answers moves in steps of a fifth and would show little; it may not fall.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from medjudge.refine.disagreements import PRIOR_DEGREES, ROUNDING, cluster_means
from medjudge.scale import USABLE_FROM


class Scored(NamedTuple):
    """A change's answers, with arrays of shape (n,): scores before and after it, the physicians' mean.

    `usable` is the physicians' verdict on their consensus. `level_before` and `level_after` are the judge's levels.
    `cluster` is what is drawn together: a question's models, or a category's conversations.
    """

    before: np.ndarray
    after: np.ndarray
    level_before: np.ndarray
    level_after: np.ndarray
    physician: np.ndarray
    usable: np.ndarray
    cluster: np.ndarray

    def improvement(self) -> np.ndarray:
        """By how many levels each answer's score came nearer to the physicians', shape (n,)."""
        return np.abs(self.before - self.physician) - np.abs(self.after - self.physician)

    def usable_agreement(self) -> tuple[float, float]:
        """The share of answers that judge and physicians both call usable or not, before and after."""
        before, after = ((one >= USABLE_FROM) == self.usable for one in (self.level_before, self.level_after))
        return float(before.mean()), float(after.mean())


class Trial(NamedTuple):
    """One change: its held-out answers, and those that it was made from."""

    held_out: Scored
    proposing: Scored


class Decision(NamedTuple):
    """Improvement in levels on the held-out answers with its standard error; None where it cannot be told."""

    kept: bool
    why: str
    improvement: float | None = None
    standard_error: float | None = None
    adjusted_p: float | None = None


def decide(trials: Sequence[Trial], fdr: float) -> list[Decision]:
    """Decides on changes, all of one kind at once.

    A change is kept where its held-out improvement exceeds its standard error, and lies above 0 beyond chance: of
    proposals that are noise, one in six passes the first. Three things guard against that. A change that does not
    improve the answers it was made from is dropped before its held-out answers are looked at. The p-values of the
    others are corrected (Benjamini and Hochberg, 1995) to a share of `fdr` false ones among those kept. And the
    variance between a change's few clusters is moderated by that of the other changes (Smyth, 2004), and is at least
    that of whole levels.

    The standard error is that of a mean over clusters, which a paired bootstrap over clusters tends to, but for the
    factor m / (m - 1) that a bootstrap of m clusters falls short by.

    Args:
        trials: One a change.
        fdr: Above 0 and below 1.
    """
    means = [cluster_means(trial.held_out.improvement(), trial.held_out.cluster) for trial in trials]
    errors = [_error(means, place) for place in range(len(means))]
    screened = [_screened(trial, error) for trial, error in zip(trials, errors, strict=True)]
    tested = [place for place, why in enumerate(screened) if why is None]
    p_values = [student.sf(means[place].mean() / errors[place][0], errors[place][1]) for place in tested]
    adjusted = dict(zip(tested, false_discovery_control(p_values) if tested else [], strict=True))
    return [
        Decision(False, why) if why else _decided(trials[place], means[place], errors[place][0], adjusted[place], fdr)
        for place, why in enumerate(screened)
    ]


def _screened(trial: Trial, error: tuple[float, float]) -> str | None:
    """Why a change is dropped before its held-out answers count; None where it is not."""
    if not len(trial.held_out.before):
        return "no held-out answer to decide by"
    if trial.proposing.improvement().mean() <= 0:
        return "no nearer to the physicians on the answers it was made from"
    if not np.isfinite(error[0]):
        return "one held-out model or conversation, and no other change to tell its noise from"
    return None


def _error(means: Sequence[np.ndarray], place: int) -> tuple[float, float]:
    """Standard error of the mean of a change's clusters, and its degrees of freedom; NaN where it cannot be told."""
    own, others = means[place], [one for at, one in enumerate(means) if at != place and len(one)]
    degrees_of_others = sum(len(one) - 1 for one in others)
    squares = ((own - own.mean()) ** 2).sum() if len(own) else 0.0
    prior = min(PRIOR_DEGREES, degrees_of_others)
    pooled = sum(((one - one.mean()) ** 2).sum() for one in others) / degrees_of_others if degrees_of_others else 0.0
    degrees = prior + len(own) - 1
    if degrees <= 0 or not len(own):
        return float("nan"), float("nan")
    variance = max((prior * pooled + squares) / degrees, ROUNDING)
    return float(np.sqrt(variance / len(own))), float(degrees)


def _decided(trial: Trial, means: np.ndarray, error: float, adjusted_p: float, fdr: float) -> Decision:
    improvement = float(means.mean())
    before, after = trial.held_out.usable_agreement()
    if improvement <= error:
        why = "the held-out improvement does not exceed its standard error"
    elif adjusted_p > fdr:
        why = f"the held-out improvement may be chance among this many changes (adjusted p {adjusted_p:.2f})"
    elif after < before:
        why = f"held-out usable agreement falls from {before:.2f} to {after:.2f}"
    else:
        return Decision(True, "nearer to the physicians on held-out answers", improvement, error, float(adjusted_p))
    return Decision(False, why, improvement, error, float(adjusted_p))
