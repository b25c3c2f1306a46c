"""Is a local judge as good as its teacher? Paired, on answers that both and physicians scored."""

import numpy as np
from scipy.stats import binomtest

from medjudge.judge.study import McNemar, NonInferiority, TeacherComparison
from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import RESAMPLES, Method
from medjudge.statistics.estimates import rounded
from medjudge.statistics.two_judges import compare
from medjudge.validation.pairs import Pairs

MARGIN = 0.05
FEWEST_CONVERSATIONS = 30
"""Conversations below which non-inferiority is inconclusive, whatever the interval says."""


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
) -> TeacherComparison | None:
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
    scored = pairs.only(np.isfinite(pairs.teacher))
    if len(scored.judge) == 0:
        return None
    teacher_level = scored.teacher.astype(int)
    compared = compare(scored.judge, teacher_level, scored.physician, scored.conversation, resamples, seed, method)
    usable = scored.physician >= USABLE_FROM
    judge_right = (scored.judge >= USABLE_FROM) == usable
    teacher_right = (teacher_level >= USABLE_FROM) == usable
    judge_only, teacher_only = int((judge_right & ~teacher_right).sum()), int((~judge_right & teacher_right).sum())
    low, conversations = compared.difference["usable_agreement"]["low"], len(np.unique(scored.conversation))
    conclusive = low is not None and conversations >= FEWEST_CONVERSATIONS
    return TeacherComparison(
        teacher=teacher,
        n=len(scored.judge),
        conversations=conversations,
        of_judge=compared.first,
        of_teacher=compared.second,
        difference=compared.difference,
        mcnemar=McNemar(
            judge_only=judge_only,
            teacher_only=teacher_only,
            p_value=rounded(mcnemar(judge_only, teacher_only)),
        ),
        non_inferiority=NonInferiority(margin=margin, shown=low >= -margin if conclusive and low is not None else None),
    )
