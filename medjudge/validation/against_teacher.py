"""Is a local judge as good as its teacher? Paired, on answers that both and physicians scored."""

from typing import Any

import numpy as np
from scipy.stats import binomtest

from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import RESAMPLES, Method
from medjudge.statistics.estimates import rounded
from medjudge.statistics.two_judges import compare
from medjudge.validation.pairs import Pairs

MARGIN = 0.05
FEWEST_CONVERSATIONS = 30
"""Conversations below which non-inferiority is not shown, whatever the interval says."""


def mcnemar(judge_only: int, teacher_only: int) -> float:
    """The exact two-sided p-value of McNemar's test (1947) on which of two agrees more often with a third.

    Args:
        judge_only: Answers on which only the first agrees.
        teacher_only: Answers on which only the second agrees.

    Returns:
        1 where they never differ.
    """
    differing = judge_only + teacher_only
    return float(binomtest(judge_only, differing).pvalue) if differing else 1.0


def against_teacher(
    pairs: Pairs,
    teacher: str,
    margin: float = MARGIN,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "bca",
) -> dict[str, Any] | None:
    """Compares the agreement of judge and teacher with physicians.

    Non-inferiority is shown where the low end of the 95 % interval of the difference in usable agreement lies above
    minus the margin: a one-sided test at 2.5 %, as regulators ask for it. McNemar's test takes answers as independent;
    where conversations hold several, the interval of the difference is the one to trust.

    Args:
        teacher: Its name.
        margin: The largest loss of usable agreement, as a share, that would not matter; given before looking.

    Returns:
        None where no answer has scores of all three.
    """
    both = pairs.only(np.isfinite(pairs.teacher))
    if len(both.judge) == 0:
        return None
    of_teacher = both.teacher.astype(int)
    compared = compare(both.judge, of_teacher, both.physician, both.conversation, resamples, seed, method)
    usable = both.physician >= USABLE_FROM
    right, other_right = (both.judge >= USABLE_FROM) == usable, (of_teacher >= USABLE_FROM) == usable
    judge_only, teacher_only = int((right & ~other_right).sum()), int((~right & other_right).sum())
    low, conversations = compared.difference["usable_agreement"]["low"], len(np.unique(both.conversation))
    enough = low is not None and conversations >= FEWEST_CONVERSATIONS
    return {
        "teacher": teacher,
        "n": len(both.judge),
        "conversations": conversations,
        "of_judge": compared.first,
        "of_teacher": compared.second,
        "difference": compared.difference,
        "mcnemar": {
            "judge_only": judge_only,
            "teacher_only": teacher_only,
            "p_value": rounded(mcnemar(judge_only, teacher_only)),
        },
        "non_inferiority": {"margin": margin, "shown": low >= -margin if enough and low is not None else None},
    }
