"""The decision on a change: agreement with physicians on answers that had no part in making it.

Agreement is measured in levels: an answer's improvement is how much closer the judge's expected score came to the
physicians' mean. Usable agreement of five answers moves in steps of a fifth and shows little; it only must not fall.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from medjudge.refine.disagreements import PRIOR_DEGREES, ROUNDING, cluster_means
from medjudge.scale import USABLE_FROM


class Scored(NamedTuple):
    """A change's answers; all arrays have shape (n,).

    Attributes:
        before: The judge's expected score before the change.
        after: The same after it.
        level_before: The judge's level before the change.
        level_after: The same after it.
        physician: The physicians' mean.
        usable: Whether the physicians' consensus is usable.
        cluster: What is resampled together: a question's models, or a category's conversations.
    """

    before: np.ndarray
    after: np.ndarray
    level_before: np.ndarray
    level_after: np.ndarray
    physician: np.ndarray
    usable: np.ndarray
    cluster: np.ndarray

    def improvement(self) -> np.ndarray:
        """How many levels closer each answer's score came to the physicians' mean, shape (n,)."""
        return np.abs(self.before - self.physician) - np.abs(self.after - self.physician)

    def usable_agreement(self) -> tuple[float, float]:
        """The share of answers that judge and physicians both call usable or not, before and after."""
        before, after = ((levels >= USABLE_FROM) == self.usable for levels in (self.level_before, self.level_after))
        return float(before.mean()), float(after.mean())


class Trial(NamedTuple):
    """One change: its held-out answers, and those it was made from."""

    held_out: Scored
    proposing: Scored


class Decision(NamedTuple):
    """Improvement in levels on the held-out answers with its standard error; None where it cannot be estimated."""

    kept: bool
    why: str
    improvement: float | None = None
    standard_error: float | None = None
    adjusted_p: float | None = None

    def numbers(self) -> dict[str, float | None]:
        """The figures by name."""
        return {name: getattr(self, name) for name in ("improvement", "standard_error", "adjusted_p")}


def decide(trials: Sequence[Trial], fdr: float) -> list[Decision]:
    """Decide on changes, all of one kind at once.

    A change is kept if its held-out improvement exceeds its standard error and is above 0 beyond chance. The first
    condition alone would keep one in six proposals that are noise. Three things guard against that. A change that does
    not improve the answers it was made from is dropped before its held-out answers are looked at. The p-values of the
    others are corrected (Benjamini and Hochberg, 1995) to a share of `fdr` false ones among those kept. The variance
    between a change's few clusters is moderated by that of the other changes (Smyth, 2004), and is at least that of
    whole levels.

    The standard error is that of a mean over clusters. A paired bootstrap over m clusters tends to it, less a factor of
    m / (m - 1).

    Args:
        trials: One per change.
        fdr: Accepted share of false ones among the kept changes, above 0 and below 1.

    Returns:
        One decision per trial.
    """
    means = [cluster_means(trial.held_out.improvement(), trial.held_out.cluster) for trial in trials]
    errors = [_error(means, index) for index in range(len(means))]
    reasons = [_why_dropped(trial, error) for trial, (error, _) in zip(trials, errors, strict=True)]
    tested = [index for index, reason in enumerate(reasons) if reason is None]
    p_values = [student.sf(means[index].mean() / errors[index][0], errors[index][1]) for index in tested]
    adjusted = dict(zip(tested, false_discovery_control(p_values) if tested else [], strict=True))
    return [
        Decision(False, reason)
        if reason
        else _decided(trials[index], means[index], errors[index][0], adjusted[index], fdr)
        for index, reason in enumerate(reasons)
    ]


def _why_dropped(trial: Trial, error: float) -> str | None:
    """The reason to drop a change before its held-out answers count; None for none."""
    if not len(trial.held_out.before):
        return "no held-out answer to decide by"
    if trial.proposing.improvement().mean() <= 0:
        return "no closer to the physicians on the answers it was made from"
    if not np.isfinite(error):
        return "one held-out model or conversation, and no other change to estimate its noise from"
    return None


def _error(means: Sequence[np.ndarray], index: int) -> tuple[float, float]:
    """The standard error of the mean of one change's clusters, and its degrees of freedom; NaN for no estimate."""
    own = means[index]
    others = [values for other, values in enumerate(means) if other != index and len(values)]
    degrees_of_others = sum(len(values) - 1 for values in others)
    prior = min(PRIOR_DEGREES, degrees_of_others)
    degrees = prior + len(own) - 1
    if degrees <= 0 or not len(own):
        return float("nan"), float("nan")
    squares = ((own - own.mean()) ** 2).sum()
    squares_of_others = sum(((values - values.mean()) ** 2).sum() for values in others)
    pooled = squares_of_others / degrees_of_others if degrees_of_others else 0.0
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
        return Decision(True, "closer to the physicians on held-out answers", improvement, error, float(adjusted_p))
    return Decision(False, why, improvement, error, float(adjusted_p))
