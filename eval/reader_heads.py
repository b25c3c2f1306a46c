"""Level heads: the fit to what scored and other answers look like to the readers."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from built_in_table import FOLDS
from reader_examples import level_of
from reader_features import Seen
from scipy.optimize import minimize

from medjudge.judge.comparison import NUMBERS
from medjudge.judge.level_head import UNUSED, LevelHead, Scored, fit_level_head
from medjudge.judge.reader import FEATURES
from medjudge.judge.reader_judge import has_points, level_logits
from medjudge.scale import USABLE_FROM

AUXILIARY = {"parallel": 1.0, "graded": 0.2, "records": 0.1, "disturbed": 0.05, "matching": 0.02}
"""The weight in the level head of what no expert scored, against the experts' scores. Records weigh little: with more
weight the head is right about more records and fewer parallel answers. `records_table` measures authors left out."""
SHIFT_WEIGHTS = (1.0, 3.0)
"""Of held-out training questions and of the validation file in the shift. The latter has messages as people write them,
and the judges are too strict with those."""
_RIDGE = 0.003
_VERDICTS = NUMBERS
"""Where the verdicts' numbers begin: the highest, lowest and mean of met, open and contradicted."""
RAISE = (4, 5, 6, 8, 9, 10, 20, 21, 23, 24, *(_VERDICTS + at for at in (0, 3, 6, 9, 10)))
"""Nearness to reference and checklist, their words, enough length, points met, the impression, the second opinion."""
LOWER = tuple(_VERDICTS + at for at in (1, 4, 7))
"""Points that are open."""
OF_QUESTION = (0, 1, 2, 3, 12, 13, 14, 15, 16, 17, 18, 19, 22)
"""Nearness to the question, length and form: without weight where there is a reference or a checklist. A head
that weighs them there orders LiveQA's held-out answers less well."""
OF_CONTRADICTED = tuple(_VERDICTS + at for at in (2, 5, 8))
"""They may lower the level of a Chinese answer. English answers with points are experts' and have no weight on them: a
good answer in its own words comes near to more points, and more of these are taken for contradicted, than one about
something else."""


def head_of(seen: dict[str, Seen], chosen: np.ndarray, ablated: Sequence[int] = ()) -> LevelHead:
    """A level head from some of the scored answers, and all others.

    Answers with points of which no second opinion is heard are Chinese, and nearness between Chinese texts is higher:
    no English answer enters their row, and so no expert's score.

    Args:
        seen: `scored`, with references where there are any, `scored-alone` without, and the sources of `AUXILIARY`.
        chosen: Which of the scored answers, shape (n scored,).
        ablated: Features without weight where there are points.
    """
    of_rows: list[list[tuple[Seen, float]]] = [[], [], [], []]
    experts = {name: seen[name].chosen(chosen) for name in ("scored", "scored-alone")}
    total = float(sum(example.weight for example in experts["scored"].examples))
    for name, some in experts.items():
        of_kind = some.chosen(has_points(some.features) == (name == "scored"))
        weight = float(sum(example.weight for example in of_kind.examples))
        for row in (0, 2) if name == "scored-alone" else (3,):
            of_rows[row].append((of_kind, weight))
    for source, share in AUXILIARY.items():
        others = seen[source]
        # An alarm overrules the head, which therefore learns nothing from answers that should raise one.
        others = others.chosen(np.array([not example.alarm for example in others.examples], dtype=bool))
        with_points, english = has_points(others.features), ~np.isnan(others.opinions)
        masks = (~with_points, with_points & ~english, ~with_points & english, with_points & english)
        for row, mask in enumerate(masks):
            of_rows[row].append((others.chosen(mask), share * total))
    only_second = np.zeros(FEATURES + 1, int)
    only_second[-2:] = 1
    chinese, english = signs_of(LOWER + OF_CONTRADICTED, ablated), signs_of(LOWER, (*OF_CONTRADICTED, *ablated))
    fitted = [_together(parts, second=row >= 2) for row, parts in enumerate(of_rows)]
    return fit_level_head(fitted, [only_second, chinese, only_second, english], _RIDGE)


def signs_of(lower: Sequence[int], unused: Sequence[int]) -> np.ndarray:
    """What the weight of each feature may be where there are points, (features,); see `fit_level_head`."""
    signs = np.zeros(FEATURES + 1, int)
    signs[list(RAISE)], signs[list(lower)], signs[[*OF_QUESTION, *unused]] = 1, -1, UNUSED
    return signs


def _together(parts: Sequence[tuple[Seen, float]], second: bool) -> Scored:
    """The answers of one row; those of each source weigh together what stands beside it."""
    parts = [(some, weight) for some, weight in parts if some.examples]
    weights = []
    for some, weight in parts:
        own = np.array([example.weight for example in some.examples])
        weights.append(own * weight / own.sum())
    opinions = np.concatenate([np.nan_to_num(some.opinions) if second else 0 * some.untrained for some, _ in parts])
    features = np.concatenate([some.features for some, _ in parts])
    labels = np.array([example.label for some, _ in parts for example in some.examples])
    return Scored(np.column_stack([features, opinions]), labels, np.concatenate(weights))


def levels_by(head: LevelHead, seen: Seen, second: bool = True) -> np.ndarray:
    """Logits of level > 1, ..., > 4, shape (n, 4), with or without the second opinions."""
    opinions = seen.opinions if second else np.full(len(seen.examples), np.nan)
    return level_logits(head, seen.features, opinions, seen.alarms, seen.contradicted)


class Usable(NamedTuple):
    """Answers with the logit of being usable and whether the expert called them so, both of shape (n,)."""

    logit: np.ndarray
    usable: np.ndarray


def usable_of(seen: Seen, cumulative: np.ndarray) -> Usable:
    """The usable labels of some answers, from logits of shape (n, 4)."""
    levels = np.array([level_of(example) for example in seen.examples])
    return Usable(cumulative[:, USABLE_FROM - 2], levels >= USABLE_FROM)


def fitted_shift(sets: Sequence[Usable], weights: Sequence[float] = SHIFT_WEIGHTS, balanced: bool = False) -> float:
    """The shift at which usable answers are most likely called usable (logistic), each set with its weight.

    The training questions and the validation file differ in style and balance, and so will the answers to be judged.

    Args:
        balanced: Whether the usable answers of a set count as much as the others together.
    """
    shares = [
        np.where(each.usable, 0.5 / each.usable.mean(), 0.5 / (1 - each.usable.mean()))
        if balanced
        else np.ones(len(each.usable))
        for each in sets
    ]

    def loss(parameters: np.ndarray) -> float:
        shifted = [(usable.logit + parameters[0]) * np.exp(parameters[1]) for usable in sets]
        losses = [
            (share * np.logaddexp(0, np.where(usable.usable, -logit_, logit_))).mean()
            for usable, logit_, share in zip(sets, shifted, shares, strict=True)
        ]
        return float(np.average(losses, weights=weights))

    return float(minimize(loss, np.zeros(2), method="Nelder-Mead").x[0])


def shifted(head: LevelHead, row: int, shift: float) -> LevelHead:
    """The same head with all logits of a row raised."""
    cuts = head.cuts.copy()
    cuts[row] -= shift
    return LevelHead(head.weights, cuts)


def shifted_without(seen: Seen, cumulative: np.ndarray, held_out: Usable) -> np.ndarray:
    """Logits with a shift that was fitted without the own question's answers, shape (n, 4).

    Args:
        seen: The validation file's answers.
        cumulative: What the judge says of them, (n, 4).
        held_out: What the folds' heads say of the training questions.
    """
    fold_of = np.unique([example.group for example in seen.examples], return_inverse=True)[1] % FOLDS
    usable, result = usable_of(seen, cumulative), cumulative.copy()
    for fold in range(FOLDS):
        others = fold_of != fold
        result[~others] += fitted_shift([held_out, Usable(usable.logit[others], usable.usable[others])])
    return result
