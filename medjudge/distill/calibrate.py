"""The teacher is calibrated to the physicians before it is copied: a monotone map from its score to their levels."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from medjudge.records import AnswerKey, Judgment, Question
from medjudge.rounds import expected_of, level_of
from medjudge.scale import LEVELS, median_level
from medjudge.statistics.bootstrap import Sums, tally
from medjudge.statistics.estimates import Estimate, estimates
from medjudge.statistics.measures import bias, quadratic_kappa, usable_agreement

FEWEST_ANSWERS, FEWEST_CONVERSATIONS = 30, 10
"""The least that teacher and physicians must both have scored; with less, the teacher is copied as it is."""
FOLDS = 5

_KNOTS = np.linspace(1, 5, 17)
"""The teacher's scores at which the map is held; between them it is linear."""
_OF_IDENTITY = 1.0
"""Pseudo-answers per knot that pull the overall map to the identity: 17 in all, so that 40 pairs do no harm."""
_BLUR = 0.2
"""The share of the identity that is spread over all levels: no level is impossible."""
_STRENGTHS = (25.0, 50.0, 100.0, 200.0, 400.0, 1e9)
"""Pseudo-answers of the overall map in each category's; the last one means that categories make no difference."""
_SOFTER = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
_RESAMPLES = 2000
_MEASURES = {"usable_agreement": usable_agreement, "bias": bias, "quadratic_kappa": quadratic_kappa}


class TeacherMap(NamedTuple):
    """Probabilities of the physicians' levels at each knot: `maps` (categories + 1, 17, 5), the overall map last.

    `strength` is how many pseudo-answers of the overall map each category's holds.
    """

    categories: tuple[str, ...]
    maps: np.ndarray
    strength: float


class Calibration(NamedTuple):
    """A teacher's map, None where it is copied as it is, and a report that says whether it is `applied`, or `why` not.

    `held_out` has name of a measure -> `before`, `after` and `difference`; `map` is there where it is applied.
    """

    teacher_map: TeacherMap | None
    report: dict[str, Any]


NOT_CALIBRATED = Calibration(None, {"applied": False, "why": "calibration is switched off"})


class HeldOut(NamedTuple):
    """Soft labels, shape (n, 5), of answers that had no part in making them; `before` is the teacher softened."""

    before: np.ndarray
    after: np.ndarray


def fit_teacher_map(
    expected: np.ndarray, physician: np.ndarray, category: np.ndarray, conversation: np.ndarray, seed: int = 0
) -> TeacherMap:
    """Fits P(physicians' level > k | teacher's score), k = 1 to 4, each isotonic in the teacher's score.

    Isotonic regression keeps order between the thresholds, so that each row is a distribution (the constrained form of
    Zadrozny and Elkan's isotonic calibration, KDD 2002, on cumulative probabilities). The overall map is shrunk to the
    identity by 17 pseudo-answers; each category's to the overall one, by the number with the lowest cross-validated
    log loss.

    Args:
        expected: The teacher's score, 1 to 5, mean over its rounds, shape (n,).
        physician: The physicians' level of the same answers, integers 1-5, shape (n,).
        conversation: Shape (n,); folds keep conversations whole.
    """
    fold = _folds(conversation, category, seed)
    return _fitted(tuple(np.unique(category)), _totals(expected, physician, category, fold))


def calibrated(teacher_map: TeacherMap, expected: np.ndarray, category: np.ndarray) -> np.ndarray:
    """The physicians' levels to expect: rows of probabilities, shape (n, 5).

    A category in which physicians scored nothing takes the overall map.
    """
    row_of = {name: row for row, name in enumerate(teacher_map.categories)}
    rows = np.array([row_of.get(name, len(row_of)) for name in category], dtype=int)
    return np.einsum("nk,nkl->nl", _hats(expected), teacher_map.maps[rows])


def cross_fitted(
    expected: np.ndarray,
    raw: np.ndarray,
    physician: np.ndarray,
    category: np.ndarray,
    conversation: np.ndarray,
    seed: int = 0,
) -> HeldOut:
    """Labels of each answer by a map of the other folds' conversations.

    Beside it the raw labels, mixed with the uniform distribution by the share that the other folds find best: without
    that, any map would beat a teacher that is wrong with probability 1.

    Args:
        raw: The teacher's own soft labels, shape (n, 5).
    """
    names = tuple(np.unique(category))
    fold = _folds(conversation, category, seed)
    totals = _totals(expected, physician, category, fold)
    softer = [(1 - share) * raw + share / LEVELS for share in _SOFTER]
    before, after = np.empty_like(raw, dtype=float), np.empty_like(raw, dtype=float)
    for number in range(FOLDS):
        held, others = fold == number, fold != number
        after[held] = calibrated(_fitted(names, np.delete(totals, number, axis=0)), expected[held], category[held])
        before[held] = min(softer, key=lambda labels: _log_loss(labels[others], physician[others]).mean())[held]
    return HeldOut(before, after)


def calibrate_teacher(
    rounds: Mapping[AnswerKey, Sequence[Judgment]],
    physicians: Mapping[AnswerKey, int],
    questions: Mapping[str, Question],
    seed: int = 0,
) -> Calibration:
    """Fits one teacher's map on what it and physicians both scored, and checks whether it helps on unseen scores.

    There is no map where too few answers were scored by both, or where the held-out log loss is no lower with it.
    """
    keys = sorted(rounds.keys() & physicians.keys())
    category = np.array([questions[key.question_id].category for key in keys], dtype=object)
    conversation = np.array([questions[key.question_id].group for key in keys], dtype=object)
    conversations = len(set(conversation))
    report: dict[str, Any] = {
        "answers": len(keys),
        "conversations": conversations,
        "applied": False,
        "why": f"too few scored by both; a map needs {FEWEST_ANSWERS} answers in {FEWEST_CONVERSATIONS} conversations",
    }
    if len(keys) < FEWEST_ANSWERS or conversations < FEWEST_CONVERSATIONS:
        return Calibration(None, report)
    physician = np.array([physicians[key] for key in keys])
    expected, raw, levels = (np.array([of(rounds[key]) for key in keys]) for of in (expected_of, soft_label, level_of))
    held_out = cross_fitted(expected, raw, physician, category, conversation, seed)
    report["held_out"] = compared(held_out, levels, physician, conversation, seed)
    difference = report["held_out"]["log_loss"]["difference"]["value"]
    if difference is None or difference >= 0:
        report["why"] = "the log loss of held-out physicians' levels is no lower with a map"
        return Calibration(None, report)
    teacher_map = fit_teacher_map(expected, physician, category, conversation, seed)
    report["applied"], report["why"], report["map"] = True, None, _map_report(teacher_map)
    return Calibration(teacher_map, report)


def soft_label(rounds: Sequence[Judgment]) -> np.ndarray:
    """The mean over rounds of a judge's probabilities, or of its score as one-hot where it gives none, shape (5,)."""
    return np.mean([judgment.probabilities or np.eye(LEVELS)[(judgment.score or 0) - 1] for judgment in rounds], axis=0)


def compared(
    held_out: HeldOut, levels: np.ndarray, physician: np.ndarray, conversation: np.ndarray, seed: int = 0
) -> dict[str, dict[str, Estimate]]:
    """Held-out agreement with the physicians before and after calibration, with 95 % intervals over conversations.

    Args:
        levels: The teacher's own levels, shape (n,): what the labels would be without a map.

    Returns:
        Name of a measure -> `before`, `after` and `difference`, after minus before, of one draw of conversations.
    """
    tallies = {}
    calibrated_levels = np.array([median_level(row) for row in held_out.after])
    for side, said, labels in zip(("before", "after"), (levels, calibrated_levels), held_out, strict=True):
        tallies[side] = tally((said - 1) * LEVELS + physician - 1, (LEVELS, LEVELS))
        tallies[f"{side} loss"] = tally(np.zeros(len(labels), dtype=int), (1,), _log_loss(labels, physician))

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        values = {}
        for side in ("before", "after"):
            values[f"log_loss {side}"] = sums[f"{side} loss"][0] / sums[side].sum(axis=(0, 1))
            values |= {f"{name} {side}": measure(sums[side]) for name, measure in _MEASURES.items()}
        for name in ("log_loss", *_MEASURES):
            values[f"{name} difference"] = values[f"{name} after"] - values[f"{name} before"]
        return values

    found = estimates(tallies, conversation, statistics, resamples=_RESAMPLES, seed=seed)
    sides = ("before", "after", "difference")
    return {name: {side: found[f"{name} {side}"] for side in sides} for name in ("log_loss", *_MEASURES)}


def _folds(conversation: np.ndarray, category: np.ndarray, seed: int) -> np.ndarray:
    """Conversations dealt out to the folds, category by category, shape (n,)."""
    names, first, member = np.unique(conversation, return_index=True, return_inverse=True)
    shuffled = np.random.default_rng(seed).permutation(len(names))
    dealt = shuffled[np.argsort(category[first][shuffled], kind="stable")]
    fold = np.empty(len(names), dtype=int)
    fold[dealt] = np.arange(len(names)) % FOLDS
    return fold[member]


def _hats(expected: np.ndarray) -> np.ndarray:
    """Each score as a mixture of its two neighbouring knots, shape (n, 17)."""
    step = _KNOTS[1] - _KNOTS[0]
    return np.maximum(0, 1 - np.abs(np.asarray(expected, float)[:, None] - _KNOTS) / step)


def _totals(expected: np.ndarray, physician: np.ndarray, category: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Answers at each knot, and how many of them lie above each threshold: (folds, categories, 17, 1 + 4)."""
    above = np.concatenate([np.ones((len(physician), 1)), physician[:, None] > np.arange(1, LEVELS)], axis=1)
    hats = _hats(expected)
    cells = [[(fold == number) & (category == name) for name in np.unique(category)] for number in range(FOLDS)]
    return np.array([[hats[rows].T @ above[rows] for rows in of_fold] for of_fold in cells])


def _fitted(names: tuple[str, ...], totals: np.ndarray) -> TeacherMap:
    """Chooses the strength by leaving out one fold after the other, and fits all of them."""
    losses = [
        sum(_loss_of(_maps(totals.sum(axis=0) - held, strength), held) for held in totals) for strength in _STRENGTHS
    ]
    strength = _STRENGTHS[int(np.argmin(losses))]
    return TeacherMap(names, _maps(totals.sum(axis=0), strength), strength)


def _maps(totals: np.ndarray, strength: float) -> np.ndarray:
    """The map of each category and, last, of all: (categories, 17, 5) sums -> (categories + 1, 17, 5)."""
    thresholds = np.arange(1, LEVELS)
    identity = np.clip(_KNOTS[:, None] - thresholds, 0, 1) * (1 - _BLUR) + _BLUR * (LEVELS - thresholds) / LEVELS
    whole = totals.sum(axis=0) + _OF_IDENTITY * np.column_stack([np.ones(len(_KNOTS)), identity])
    overall = _isotonic(whole)
    # The pseudo-answers follow the teacher's scores: three answers weigh little at any score.
    prior = strength * (whole[:, :1] / whole[:, 0].sum()) * np.column_stack([np.ones(len(_KNOTS)), overall])
    above = np.array([*(_isotonic(category_totals + prior) for category_totals in totals), overall])
    edges = np.ones((*above.shape[:2], 1))
    return -np.diff(np.concatenate([edges, above, 0 * edges], axis=2), axis=2)


def _isotonic(sums: np.ndarray) -> np.ndarray:
    """P(level > k) by knot, shape (17, 4), from answers and answers above; rising in the score, falling in k."""
    weights = sums[:, 0]
    columns = [isotonic_regression(sums[:, k] / weights, weights=weights).x for k in range(1, LEVELS)]
    # Nested but for the rounding of sums.
    return np.minimum.accumulate(np.stack(columns, axis=1), axis=1)


def _loss_of(maps: np.ndarray, totals: np.ndarray) -> float:
    """The summed log loss of held-out sums: those of a knot share its probabilities."""
    counts = -np.diff(np.concatenate([totals, np.zeros((*totals.shape[:2], 1))], axis=2), axis=2)
    return float(-(counts * np.log(np.maximum(maps[:-1], 1e-12))).sum())


def _log_loss(labels: np.ndarray, physician: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(labels[np.arange(len(labels)), physician - 1], 1e-12))


def _map_report(teacher_map: TeacherMap) -> dict[str, Any]:
    """A map in plain numbers: category (or `overall`) -> the teacher's level -> probabilities of the five levels.

    `pseudo_answers` is the map's strength; null where all categories share the overall map.
    """
    rows = {
        name: {str(level): [round(float(p), 3) for p in knots[4 * (level - 1)]] for level in range(1, LEVELS + 1)}
        for name, knots in zip((*teacher_map.categories, "overall"), teacher_map.maps, strict=True)
    }
    alike = teacher_map.strength == _STRENGTHS[-1]
    return {"pseudo_answers": None if alike else teacher_map.strength, "probabilities": rows}
