"""Changes of the recipe, each against the recipe without it, on unseen questions with the same scores and seeds."""

from collections.abc import Callable
from typing import Any

import numpy as np
from real_cells import Cell, Cells
from real_head import Head, Lines, Pairs, fitted
from real_learners import RIDGE, Standard, by_trees
from real_material import SEEDS, Material, drawn, folds, lines_for
from real_paired import between

from medjudge.scale import USABLE_FROM
from medjudge.statistics.panels import combined, log_odds_weights, shrunk

COUNTS = (800,)
RANKING, REPLAYED = 0.3, 0.3
_PAIRS = 8000
_APART = 0.5
"""Levels by which the labels of two answers must differ for one to be better."""

Learner = Callable[[Material, Lines, np.ndarray, Material, int], np.ndarray]


def plain(material: Material, lines: Lines, scored: np.ndarray, held: Material, seed: int) -> np.ndarray:
    """The head by itself."""
    standard = Standard.of(material.gated[lines.rows])
    return fitted(standard(material.gated), lines, RIDGE).probabilities(standard(held.gated))


def with_ranking(material: Material, lines: Lines, scored: np.ndarray, held: Material, seed: int) -> np.ndarray:
    """The ordinal loss and, within a question, that of the wrong order of two answers."""
    standard = Standard.of(material.gated[lines.rows])
    pairs = pairs_of(material, lines, seed)
    return fitted(standard(material.gated), lines, RIDGE, pairs=pairs).probabilities(standard(held.gated))


def pairs_of(material: Material, lines: Lines, seed: int) -> Pairs:
    """Random pairs of answers to one question whose labels are apart."""
    expected, conversation = lines.labels @ np.arange(1, 6), material.conversation[lines.rows]
    draw, better, worse = np.random.default_rng(seed), [], []
    for name in np.unique(conversation.astype(str)):
        inside = np.flatnonzero(conversation == name)
        first, second = draw.choice(inside, (2, 4 * len(inside)))
        apart = expected[first] > expected[second] + _APART
        better.append(first[apart])
        worse.append(second[apart])
    chosen = draw.permutation(sum(map(len, better)))[:_PAIRS]
    return Pairs(lines.rows[np.concatenate(better)[chosen]], lines.rows[np.concatenate(worse)[chosen]], RANKING)


def people_last(material: Material, lines: Lines, scored: np.ndarray, held: Material, seed: int) -> np.ndarray:
    """First the teacher's lines; then people's with a share of the teacher's, pulled to what was learned first."""
    standard = Standard.of(material.gated[lines.rows])
    values, own = standard(material.gated), np.isin(lines.rows, scored)
    first = fitted(values, Lines(*(part[~own] for part in lines)), RIDGE)
    again = np.random.default_rng(seed).permutation(np.flatnonzero(~own))
    again = again[: round(len(scored) * REPLAYED / (1 - REPLAYED))]
    kept = np.concatenate([np.flatnonzero(own), again])
    last: Head = fitted(values, Lines(*(part[kept] for part in lines)), RIDGE, start=first)
    return last.probabilities(standard(held.gated))


def equal_models(material: Material, lines: Lines, scored: np.ndarray, held: Material, seed: int) -> np.ndarray:
    """Each answering model's lines weigh the same together."""
    _, member, count = np.unique(material.model[lines.rows].astype(str), return_inverse=True, return_counts=True)
    return plain(material, lines._replace(weights=len(member) / len(count) / count[member]), scored, held, seed)


def people_first(material: Material, lines: Lines, scored: np.ndarray, held: Material, seed: int) -> np.ndarray:
    """People's lines weigh three times the teacher's."""
    weights = np.where(np.isin(lines.rows, scored), 3.0, 1.0)
    return plain(material, lines._replace(weights=weights), scored, held, seed)


def trees(material: Material, lines: Lines, scored: np.ndarray, held: Material, seed: int) -> np.ndarray:
    """Randomised trees in the place of the head."""
    return by_trees(material, lines, held, seed)


TRIALS: dict[str, Learner] = {
    "a ranking term within a question": with_ranking,
    "people last, 30 % of the teacher's lines replayed": people_last,
    "equal weight for each answering model": equal_models,
    "three times the weight for people": people_first,
    "randomised trees": trees,
}


def trials_table(cells: Cells) -> dict[str, Any]:
    """Measures of each change and its difference from the head alone, by number of people's scores."""
    material, table = cells.material, {}
    for count in COUNTS:
        base = [_judged(cells, "head", plain, count, seed) for seed in SEEDS]
        table[f"{count:,} of people's scores"] = {
            name: between(
                [_judged(cells, name, learner, count, seed) for seed in SEEDS],
                base,
                material.people,
                material.conversation,
            )
            for name, learner in TRIALS.items()
        }
    table["seeds"] = seeds_table(cells)
    return table


def _judged(cells: Cells, name: str, learner: Learner, count: int, seed: int) -> np.ndarray:
    return cells.kept(f"trial-{name.replace(' ', '_')}-{count}-{seed}", lambda: _folded(cells, learner, count, seed))


def _folded(cells: Cells, learner: Learner, count: int, seed: int) -> np.ndarray:
    material = cells.material
    fold, found = folds(material, "questions", seed), np.zeros((len(material.people), 5))
    everyone = drawn(np.arange(len(fold)), count, seed)
    for number in np.unique(fold):
        seen, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        scored = np.intersect1d(everyone, seen)
        lines = lines_for(material, "both", seen, scored)
        found[held] = learner(material, lines, scored, material.only(held), seed)
    return found


def seeds_table(cells: Cells) -> dict[str, Any]:
    """The mean of three judges that differ in their seed, and a panel of them with calibrated weights, against one."""
    material = cells.material
    judged = [cells.probabilities(Cell("questions", "teacher", 0, seed)) for seed in SEEDS]
    members = np.stack(judged, axis=1)
    right = (members[:, :, USABLE_FROM - 1 :].sum(axis=2) >= 0.5) == material.usable[:, None]
    share = right.mean(axis=0)
    weights = log_odds_weights(shrunk(share, share * (1 - share) / len(np.unique(material.conversation.astype(str)))))
    rules = {"their mean": np.ones(len(SEEDS)), "a panel with calibrated weights": weights}
    return {
        name: between([combined(members, each, "mean")] * len(SEEDS), judged, material.people, material.conversation)
        for name, each in rules.items()
    }
