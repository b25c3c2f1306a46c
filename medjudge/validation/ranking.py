"""Agreement on the ranking of the answering models, by usability rates."""

import numpy as np
from scipy.stats import rankdata
from typing_extensions import Unpack

from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import Resampling, Sums, by_percentile, tally
from medjudge.statistics.estimates import Estimate, Record, estimates
from medjudge.statistics.measures import divided
from medjudge.validation.answers import Pairs


class ModelRates(Record):
    """Usability rates (0..1) of one answering model, by physicians, judge and teacher, on the same `n` answers."""

    n: int
    physicians: float
    judge: float
    teacher: float | None = None


class Ranking(Record):
    """A comparison of the judge's order of the answering models with the physicians'."""

    models: dict[str, ModelRates]
    spearman: Estimate
    pairwise_accuracy: Estimate


def first_of_two(ranking: Ranking, against: str) -> str | None:
    """The better of two models by judge and by physicians, in words; None where there are more models.

    Args:
        against: Whom the judge is compared with.
    """
    if len(ranking.models) > 2:
        return None
    (one, of_one), (other, of_other) = ranking.models.items()
    judge, physicians = (
        "neither (equal rates)" if first == second else one if first > second else other
        for first, second in ((of_one.judge, of_other.judge), (of_one.physicians, of_other.physicians))
    )
    if judge == physicians:
        return f"Of two models, {judge} is first by the judge and by {against}"
    return f"Of two models, {judge} is first by the judge, {physicians} by {against}"


def system_spearman(judge: np.ndarray, physician: np.ndarray) -> np.ndarray:
    """Spearman's correlation of two sets of rates; shapes (models, ...) -> (...), NaN where one of both is constant."""
    first, second = (rankdata(rates, axis=0) - (len(rates) + 1) / 2 for rates in (judge, physician))
    return divided((first * second).sum(axis=0), np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0)))


def pairwise_accuracy(judge: np.ndarray, physician: np.ndarray) -> np.ndarray:
    """The share of pairs of models, apart by physicians, that the judge orders alike; its ties count half.

    Shapes (models, ...) -> (...); NaN where physicians order no pair. The measure of Kocmi et al. (2021) for metrics of
    translation.
    """
    first, second = _orders(judge), _orders(physician)
    right = (first * second > 0) + 0.5 * ((first == 0) & (second != 0))
    return divided(right.sum(axis=0), (second != 0).sum(axis=0))


def ranking(pairs: Pairs, **how: Unpack[Resampling]) -> Ranking | None:
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
            "pairwise_accuracy": pairwise_accuracy(judge, physician),
        }
        return {name: np.where(missing, np.nan, values) for name, values in measures.items()}

    return Ranking(
        models={str(model): _rates(pairs.only(column == index)) for index, model in enumerate(models)},
        **estimates(tallies, pairs.conversation, statistics, **by_percentile(how)),
    )


def _rates(pairs: Pairs) -> ModelRates:
    by_all = {"physicians": pairs.physician, "judge": pairs.judge}
    if np.isfinite(pairs.teacher).all():
        by_all["teacher"] = pairs.teacher
    rates = {name: round(float((levels >= USABLE_FROM).mean()), 6) for name, levels in by_all.items()}
    return ModelRates(n=len(pairs.judge), **rates)


def _orders(rates: np.ndarray) -> np.ndarray:
    """-1, 0 or 1 for every pair of models: (models, ...) -> (pairs, ...)."""
    first, second = np.triu_indices(len(rates), k=1)
    return np.sign(rates[first] - rates[second])
