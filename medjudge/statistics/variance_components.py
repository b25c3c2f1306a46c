"""How much of a score's variance lies between questions, between answers to a question, and in the judge.

The mixed model is fitted by statsmodels (extra `variance`), which is imported when it is needed.
"""

import warnings
from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """One row a judgment; every array has shape (n,). `sample` and `judging` count from any number."""

    score: np.ndarray
    question: np.ndarray
    model: np.ndarray
    sample: np.ndarray
    judging: np.ndarray


class Components(NamedTuple):
    """Variances of a score, 0 or more; None where the design cannot separate one from the next below it.

    Attributes:
        questions: Between questions: how hard they are for all models.
        interaction: Of question and model: what is hard for one model only.
        answers: Between answers of one model to one question; with one sample each it holds the interaction, too.
        judge: Between judgments of one answer; with one round it is part of the answers'.
        converged: Whether the fit ended where the likelihood is flat.
    """

    questions: float
    interaction: float | None
    answers: float | None
    judge: float | None
    converged: bool = True


class Sizes(NamedTuple):
    """A design: questions, answers per question and model, judgments per answer."""

    questions: int
    samples: int
    rounds: int


def variance_components(rows: Rows) -> Components | None:
    """Restricted maximum likelihood of a model with models as fixed effects and all else random.

    Questions are crossed with models; answers are nested in both, and judgments in answers (Brennan, Generalizability
    Theory, 2001, chapter 3).

    Returns:
        None where every answer was judged once and every question answered once, or where no score differs.

    Raises:
        ImportError: statsmodels is not installed.
    """
    answer = _numbered(rows.question, rows.model, rows.sample)
    cell = _numbered(rows.question, rows.model)
    sampled, judged = answer.max() > cell.max(), len(answer) > answer.max() + 1
    if (not sampled and not judged) or np.ptp(rows.score) == 0:
        return None
    if judged and _within(rows.score, answer) < 1e-12:
        # Every round repeats the first: the judge varies by nothing, and the rounds are no data.
        _, first = np.unique(answer, return_index=True)
        once = variance_components(Rows(*(column[first] for column in rows)))
        return (
            Components(float(np.var(rows.score[first], ddof=1)), None, None, 0.0)
            if once is None
            else once._replace(judge=0.0)
        )
    return _fitted(rows, cell, answer, sampled=sampled, judged=judged)


def _fitted(rows: Rows, cell: np.ndarray, answer: np.ndarray, *, sampled: bool, judged: bool) -> Components:
    import pandas as pd
    from statsmodels.formula.api import mixedlm

    several = len(np.unique(rows.model)) > 1
    frame = pd.DataFrame({"score": rows.score, "question": rows.question, "model": rows.model})
    frame["cell"], frame["answer"] = cell, answer
    random = {}
    if several and sampled:
        random["interaction"] = "0 + C(cell)"
    if judged and (sampled or several):
        random["answers"] = "0 + C(answer)"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a variance at its boundary of 0 is a finding
        fixed = "score ~ C(model)" if several else "score ~ 1"
        fit = mixedlm(fixed, frame, groups="question", re_formula="1", vc_formula=random or None).fit(reml=True)
    found = dict(zip(sorted(random), (float(value) for value in fit.vcomp), strict=True))
    questions, rest = float(np.asarray(fit.cov_re)[0, 0]), float(fit.scale)
    return Components(
        max(0.0, questions),
        max(0.0, found["interaction"]) if "interaction" in found else None,
        max(0.0, found["answers"]) if "answers" in found else (None if judged else rest),
        rest if judged else None,
        bool(fit.converged),
    )


def standard_error(components: Components, sizes: Sizes, *, between_models: bool = False) -> float:
    """Of a model's mean score over questions, or of the difference of two models on the same questions.

    The arithmetic of a decision study (Cronbach et al., 1972; Brennan, 2001, chapter 4): each variance is divided by
    how often it is drawn.

    Args:
        sizes: A design, which need not be the one that was measured.
    """
    questions, samples, rounds = sizes
    shared = 0.0 if between_models else components.questions
    variance = (shared + (components.interaction or 0.0)) / questions
    variance += (components.answers or 0.0) / (questions * samples)
    variance += (components.judge or 0.0) / (questions * samples * rounds)
    return float(np.sqrt(2 * variance if between_models else variance))


def _numbered(*columns: np.ndarray) -> np.ndarray:
    """Numbers the combinations of columns from 0."""
    whole = np.zeros(len(columns[0]), dtype=int)
    for column in columns:
        values, number = np.unique(column, return_inverse=True)
        whole = np.unique(whole * len(values) + number, return_inverse=True)[1]
    return whole


def _within(score: np.ndarray, group: np.ndarray) -> float:
    """The largest squared distance of a score from its group's mean."""
    means = np.bincount(group, score) / np.bincount(group)
    return float(((score - means[group]) ** 2).max())
