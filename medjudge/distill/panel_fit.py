"""The members of a panel are calibrated to the physicians before their verdicts are combined, and weighted."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.benchmark.splits import held_out_groups
from medjudge.distill.calibrate import (
    FEWEST_ANSWERS,
    FEWEST_CONVERSATIONS,
    TeacherMap,
    calibrate_teacher,
    calibrated,
    cross_fitted,
    soft_label,
)
from medjudge.judge.panel import MemberFit, PanelFit, Weighting
from medjudge.records import AnswerKey, Judgment, PhysicianScore, Question
from medjudge.rounds import binding_by_answer, expected_of
from medjudge.scale import LEVELS, USABLE_FROM, consensus
from medjudge.statistics.panels import log_odds_weights, shrunk

TRAINING_SHARE = 0.5
"""The share of the conversations that physicians scored: the others are left for validation."""


class MemberJudgments(NamedTuple):
    """A member's name, its identity, and its scored judgments by answer."""

    judge: str
    sha256: str
    rounds: Mapping[AnswerKey, Sequence[Judgment]]


class Training(NamedTuple):
    """The physicians' levels of the training part by answer, and its questions by id."""

    levels: dict[AnswerKey, int]
    questions: dict[str, Question]

    @property
    def conversations(self) -> int:
        return len({question.group for question in self.questions.values()})


class _Agreement(NamedTuple):
    """The share of answers on which a member agrees on usable, and the variance of that share."""

    share: float
    variance: float


def training_part(questions: Sequence[Question], scores: Sequence[PhysicianScore], seed: int = 0) -> Training | None:
    """Draws half of the scored conversations of each category and language.

    Returns:
        None where that is too little to calibrate on: the scores then serve for validation alone.
    """
    levels = {key: consensus(score.level for score in of) for key, of in binding_by_answer(scores).items()}
    scored = {key.question_id for key in levels}
    groups = held_out_groups([question for question in questions if question.id in scored], TRAINING_SHARE, seed)
    chosen = {question.id: question for question in questions if question.id in scored and question.group in groups}
    training = Training({key: level for key, level in levels.items() if key.question_id in chosen}, chosen)
    enough = len(training.levels) >= FEWEST_ANSWERS and training.conversations >= FEWEST_CONVERSATIONS
    return training if enough else None


def fit_panel(
    members: Sequence[MemberJudgments], training: Training, weights: Weighting, file: str, file_sha256: str
) -> PanelFit:
    """Calibrates each member per category, as a teacher is calibrated before it is copied, and weighs all.

    Args:
        weights: `equal`, or `agreement`: the log odds of each member's share of right answers, shrunk to their mean.
    """
    fits, agreements = [], []
    for member in members:
        calibration = calibrate_teacher(member.rounds, training.levels, training.questions)
        fitted = calibration.teacher_map
        agreements.append(_agreement(member.rounds, training, calibrate=fitted is not None))
        fits.append(
            MemberFit(
                judge=member.judge,
                sha256=member.sha256,
                weight=1 / len(members),
                categories=list(fitted.categories) if fitted else [],
                maps=np.round(fitted.maps, 6).tolist() if fitted else None,
                why=calibration.report["why"],
            )
        )
    return PanelFit(
        file=file,
        sha256=file_sha256,
        weights=weights,
        answers=len(training.levels),
        conversations=training.conversations,
        question_ids=sorted(training.questions),
        members=_weighted(fits, agreements) if weights == "agreement" else fits,
    )


def member_probabilities(fit: MemberFit | None, judgments: Sequence[Judgment], category: np.ndarray) -> np.ndarray:
    """The probabilities with which a member takes part, calibrated where it could be.

    Args:
        fit: None where nothing was fitted.
        category: Of the question of each, shape (n,).

    Returns:
        Shape (n, 5).
    """
    if fit is None or fit.maps is None:
        return np.array([soft_label([judgment]) for judgment in judgments]).reshape(-1, LEVELS)
    teacher_map = TeacherMap(tuple(fit.categories), np.array(fit.maps), 0.0)
    return calibrated(teacher_map, np.array([expected_of([judgment]) for judgment in judgments]), category)


def _weighted(fits: Sequence[MemberFit], agreements: Sequence[_Agreement | None]) -> list[MemberFit]:
    """The members with weights by agreement; one that scored nothing of the training part has that of the mean."""
    known = [agreement for agreement in agreements if agreement is not None]
    if len(known) < 2:
        return list(fits)
    shares = shrunk(np.array([one.share for one in known]), np.array([one.variance for one in known]))
    left = iter(shares.tolist())
    of_all = [float(shares.mean()) if agreement is None else next(left) for agreement in agreements]
    weights = log_odds_weights(np.array(of_all))
    return [
        fit.model_copy(
            update={
                "weight": round(float(weight), 6),
                "agreement": round(agreement.share, 6) if agreement else None,
                "shrunk": round(share, 6),
            }
        )
        for fit, agreement, share, weight in zip(fits, agreements, of_all, weights, strict=True)
    ]


def _agreement(
    rounds: Mapping[AnswerKey, Sequence[Judgment]], training: Training, calibrate: bool
) -> _Agreement | None:
    """Agreement on usable with conversations as clusters; a calibrated member's by maps of other conversations."""
    keys = sorted(rounds.keys() & training.levels.keys())
    if not keys:
        return None
    category, conversation = (
        np.array([getattr(training.questions[key.question_id], name) for key in keys], dtype=object)
        for name in ("category", "group")
    )
    physician = np.array([training.levels[key] for key in keys])
    labels = np.array([soft_label(rounds[key]) for key in keys])
    if calibrate:
        expected = np.array([expected_of(rounds[key]) for key in keys])
        labels = cross_fitted(expected, labels, physician, category, conversation).after
    usable = labels[:, USABLE_FROM - 1 :].sum(axis=1) >= 0.5 - 1e-9
    right = (usable == (physician >= USABLE_FROM)).astype(float)
    return _Agreement(float(right.mean()), _variance(right, conversation))


def _variance(right: np.ndarray, conversation: np.ndarray) -> float:
    """The variance of a mean over clusters, at least that of independent answers, one more right and one more wrong."""
    _, member = np.unique(conversation, return_inverse=True)
    n = len(right)
    share = (right.sum() + 1) / (n + 2)
    clustered = (np.bincount(member, right - right.mean()) ** 2).sum() / n**2
    return float(max(clustered, share * (1 - share) / n))
