"""Whether a judge ranks the answering models as physicians do, by usability rates."""

import numpy as np
from scipy.stats import rankdata

from medjudge.judge.study import ModelRates, Ranking
from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import RESAMPLES, Sums, bootstrap, tally
from medjudge.statistics.estimates import estimate
from medjudge.statistics.measures import divided
from medjudge.validation.pairs import Pairs


def system_spearman(judge: np.ndarray, physician: np.ndarray) -> np.ndarray:
    """Spearman's correlation of two sets of rates; shapes (models, ...) -> (...), NaN where one of both is constant."""
    first, second = _centred(rankdata(judge, axis=0)), _centred(rankdata(physician, axis=0))
    return divided((first * second).sum(axis=0), np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0)))


def system_kendall(judge: np.ndarray, physician: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of two sets of rates; shapes (models, ...) -> (...), NaN where one of both is constant."""
    first, second = _orders(judge), _orders(physician)
    return divided((first * second).sum(axis=0), np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0)))


def pairwise_accuracy(judge: np.ndarray, physician: np.ndarray) -> np.ndarray:
    """The share of pairs of models, apart by physicians, that the judge orders alike; its ties count half.

    Shapes (models, ...) -> (...); NaN where physicians order no pair. The measure of Kocmi et al. (2021) for metrics of
    translation.
    """
    first, second = _orders(judge), _orders(physician)
    right = (first * second > 0) + 0.5 * ((first == 0) & (second != 0))
    return divided(right.sum(axis=0), (second != 0).sum(axis=0))


def ranking(pairs: Pairs, resamples: int = RESAMPLES, seed: int = 0) -> Ranking | None:
    """Compares usability rates of the models by judge and by physicians, on the answers that both scored.

    The intervals are always percentile intervals: the order of a few models jumps between a handful of values, and a
    correction of bias or acceleration has nothing smooth to work on.

    Returns:
        None for fewer than two models.
    """
    models, column = np.unique(pairs.model.astype(str), return_inverse=True)
    if len(models) < 2:
        return None
    usable = {"judge": pairs.judge >= USABLE_FROM, "physicians": pairs.physician >= USABLE_FROM}
    tallies = {name: tally(column, (len(models),), rows.astype(float)) for name, rows in usable.items()}
    tallies["n"] = tally(column, (len(models),))

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        # A model without an answer in a resample takes no part: its rate is undefined, and so is the order.
        judge, physician = divided(sums["judge"], sums["n"]), divided(sums["physicians"], sums["n"])
        missing = np.isnan(judge).any(axis=0)
        judge, physician = np.nan_to_num(judge), np.nan_to_num(physician)
        measures = {
            "spearman": system_spearman(judge, physician),
            "kendall_tau_b": system_kendall(judge, physician),
            "pairwise_accuracy": pairwise_accuracy(judge, physician),
        }
        return {name: np.where(missing, np.nan, values) for name, values in measures.items()}

    intervals = bootstrap(tallies, pairs.conversation, statistics, resamples, seed, "percentile")
    return Ranking(
        models={str(model): _rates(pairs.only(column == index)) for index, model in enumerate(models)},
        spearman=estimate(intervals["spearman"]),
        kendall_tau_b=estimate(intervals["kendall_tau_b"]),
        pairwise_accuracy=estimate(intervals["pairwise_accuracy"]),
    )


def _rates(pairs: Pairs) -> ModelRates:
    teacher = pairs.teacher[np.isfinite(pairs.teacher)]
    return ModelRates(
        n=len(pairs.judge),
        physicians=_usable_share(pairs.physician),
        judge=_usable_share(pairs.judge),
        teacher=_usable_share(teacher) if len(teacher) == len(pairs.judge) else None,
    )


def _usable_share(levels: np.ndarray) -> float:
    return round(float((levels >= USABLE_FROM).mean()), 6)


def _centred(values: np.ndarray) -> np.ndarray:
    return values - values.mean(axis=0)


def _orders(rates: np.ndarray) -> np.ndarray:
    """-1, 0 or 1 for every pair of models: (models, ...) -> (pairs, ...)."""
    first, second = np.triu_indices(len(rates), k=1)
    return np.sign(rates[first] - rates[second])
