"""Compares models by pairs: ranking, swaps, what single scores say of the same pairs, and physicians' pairs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.judge.pair_study import (
    PairAgreement,
    PairRanking,
    PairStudy,
    PhysicianPairStudy,
    PointwisePairs,
    RankedModel,
    SwapStudy,
)
from medjudge.judge.pairs import verdict_on
from medjudge.pair_records import PairJudgment, PairKey, PhysicianPair
from medjudge.records import CONSTRUCTED, Answer, AnswerKey, ErrorKind, Judgment, Question
from medjudge.rounds import scored_rounds
from medjudge.scale import LEVELS
from medjudge.statistics.bootstrap import Method, Sums, bootstrap, dense_tally
from medjudge.statistics.davidson import Comparisons, ranking
from medjudge.statistics.estimates import estimate
from medjudge.statistics.measures import divided
from medjudge.statistics.pointwise_pairs import likeliest, pair_probabilities
from medjudge.statistics.verdicts import both_orders, majority, swaps, verdict_agreement

RESAMPLES = 2000
"""Each resample fits the ranking anew."""
_INTERVALS: dict[Method, str] = {"percentile": "percentile", "bca": "bias-corrected and accelerated"}


class PairSettings(NamedTuple):
    """How a comparison is computed; `length` controls the ranking for the length of the answers."""

    length: bool = False
    resamples: int = RESAMPLES
    seed: int = 0
    interval: Method = "bca"


class PairMaterial(NamedTuple):
    """The records behind a comparison.

    Attributes:
        questions: Those of the run.
        answers: Those of the run.
        pairs: The judge's pairs; none where its scores of single answers stand for them.
        judgments: The judge's scores of single answers, if any.
        physicians: Physicians' pairs, if any.
    """

    questions: Sequence[Question]
    answers: Sequence[Answer]
    pairs: Sequence[PairJudgment]
    judgments: Sequence[Judgment]
    physicians: Sequence[PhysicianPair]


class PairTable(NamedTuple):
    """One row a pair, shape (n,); verdicts are those on the model `first`: 1 better, 0 tie, -1 worse.

    `outcomes` are the shares of first, tie and second, shape (n, 3); `length` is positive where the first answer is
    longer.
    """

    key: list[PairKey]
    first: np.ndarray
    second: np.ndarray
    verdict: np.ndarray
    outcomes: np.ndarray
    length: np.ndarray
    cluster: np.ndarray

    def only(self, rows: np.ndarray) -> "PairTable":
        """The rows of a mask."""
        columns = (column[rows] for column in self[1:])
        return PairTable([key for key, kept in zip(self.key, rows, strict=True) if kept], *columns)


def possible_pairs(questions: Iterable[Question], answers: Iterable[Answer], models: Sequence[str]) -> list[PairKey]:
    """All pairs of models on each question and sample that both answered, in the order of the questions."""
    answered = {answer.key for answer in answers}
    samples: dict[str, set[int]] = {}
    for key in answered:
        samples.setdefault(key.question_id, set()).add(key.sample)
    return [
        PairKey(question.id, _sorted(first, second), sample)
        for question in questions
        for sample in sorted(samples.get(question.id, ()))
        for first, second in combinations(models, 2)
        if {AnswerKey(question.id, first, sample), AnswerKey(question.id, second, sample)} <= answered
    ]


def pair_study(
    judge: str,
    how: Literal["pairs", "pointwise"],
    material: PairMaterial,
    models: Sequence[str],
    settings: PairSettings = PairSettings(),
) -> PairStudy:
    """Computes a comparison of models.

    Args:
        judge: The judge's name.
        how: Whether the judge compared answers, or its scores of single answers stand for pairs.
        models: The models to compare, at least two.

    Raises:
        InputError: No pair has a verdict.
    """
    possible = possible_pairs(material.questions, material.answers, models)
    singles = _pointwise_table(possible, material, models)
    swapped = None
    if how == "pairs":
        wanted = set(possible)
        of_models = [pair for pair in material.pairs if pair.pair_key in wanted]
        orders = _by_pair(of_models)
        pairs, unjudged = len(orders), _unjudged(orders.values())
        table, forward, backward = _paired_table(possible, orders, material, models)
        if len(table.key):
            measured = swaps(forward, backward, table.cluster, *_bootstrap(settings))
            swapped = SwapStudy(
                pairs=len(table.key), disagreeing=int((forward != backward).sum()), **measured._asdict()
            )
        shortened = sum(pair.answer_tokens_cut > 0 for pair in of_models)
    else:
        table, pairs, shortened = singles, len(possible), 0
        unjudged = {"an answer has no score": pairs - len(table.key)} if len(table.key) < pairs else {}
    if not table.key:
        reasons = "; ".join(f"{reason} ({count})" for reason, count in unjudged.items()) or "none was compared"
        raise InputError(f"judge {judge}: no pair has a verdict: {reasons}")
    return PairStudy(
        judge=judge,
        how=how,
        compared=list(models),
        possible=len(possible),
        pairs=pairs,
        judged=len(table.key),
        unjudged=unjudged,
        shortened=shortened,
        questions=len({key.question_id for key in table.key}),
        conversations=len(np.unique(table.cluster)),
        interval=(
            f"95 %, {_INTERVALS[settings.interval]} bootstrap over conversations, {settings.resamples} resamples"
        ),
        length_controlled=settings.length,
        ranking=_ranking(table, models, settings),
        swaps=swapped,
        pointwise=_against_pointwise(table, singles, models, settings) if how == "pairs" else None,
        physicians=_against_physicians(table, singles if how == "pairs" else None, material.physicians, settings),
    )


def _sorted(first: str, second: str) -> tuple[str, str]:
    return (first, second) if first < second else (second, first)


def _bootstrap(settings: PairSettings) -> tuple[int, int, Method]:
    return settings.resamples, settings.seed, settings.interval


class _BothOrders(NamedTuple):
    """A pair's judgments by which model was shown first: `models[0]` of its key, then `models[1]`."""

    forward: PairJudgment | None
    backward: PairJudgment | None


def _by_pair(pairs: Iterable[PairJudgment]) -> dict[PairKey, _BothOrders]:
    orders: dict[PairKey, _BothOrders] = {}
    for pair in pairs:
        known = orders.get(pair.pair_key, _BothOrders(None, None))
        is_forward = pair.first == pair.pair_key.models[0]
        orders[pair.pair_key] = known._replace(forward=pair) if is_forward else known._replace(backward=pair)
    return orders


_REASONS = {
    ErrorKind.EMPTY_ANSWER: "an answer is empty",
    ErrorKind.WINDOW: "the prompt does not fit the window",
    ErrorKind.REQUEST_FAILED: "the request failed",
    ErrorKind.REFUSED: "the server refused",
    ErrorKind.EMPTY_REPLY: "the reply was empty",
    ErrorKind.UNREADABLE_REPLY: "the reply could not be read",
}


def _unjudged(orders: Iterable[_BothOrders]) -> dict[str, int]:
    """How many pairs lack a verdict in an order, by the reason of the first that does."""
    reasons: Counter[str] = Counter()
    for pair in orders:
        missing = [order for order in pair if order is None or order.preferred is None]
        if missing:
            kind = missing[0].error_kind if missing[0] is not None else None
            reasons["one order is missing" if missing[0] is None else _REASONS.get(kind, "no verdict")] += 1  # type: ignore[arg-type]
    return dict(reasons)


def _paired_table(
    possible: Sequence[PairKey],
    orders: Mapping[PairKey, _BothOrders],
    material: PairMaterial,
    models: Sequence[str],
) -> tuple[PairTable, np.ndarray, np.ndarray]:
    """The pairs with a verdict in both orders, and the verdicts of each order on the model named first in the key."""
    rows: list[tuple[PairKey, int, int]] = []
    for key in possible:
        forward, backward = orders.get(key, _BothOrders(None, None))
        if forward is None or backward is None or forward.preferred is None or backward.preferred is None:
            continue
        verdicts = [verdict_on(order) for order in (forward, backward)]
        rows.append((key, verdicts[0], verdicts[1]))
    first = np.array([row[1] for row in rows], dtype=int)
    second = np.array([row[2] for row in rows], dtype=int)
    verdict = both_orders(first, second)
    outcomes = np.column_stack([verdict == 1, verdict == 0, verdict == -1]).astype(float).reshape(-1, 3)
    return _table([row[0] for row in rows], verdict, outcomes, material, models), first, second


def _pointwise_table(possible: Sequence[PairKey], material: PairMaterial, models: Sequence[str]) -> PairTable:
    """The pairs of which the judge scored both answers."""
    distributions = _distributions(material.judgments)
    keys = [key for key in possible if all(answer in distributions for answer in _answers(key))]
    first, second = [
        np.array([distributions[_answers(key)[side]] for key in keys]).reshape(-1, LEVELS) for side in (0, 1)
    ]
    outcomes = pair_probabilities(first, second)
    return _table(keys, likeliest(outcomes), outcomes, material, models)


def _distributions(judgments: Sequence[Judgment]) -> dict[AnswerKey, np.ndarray]:
    """The mean distribution over rounds; a score without probabilities counts as certain."""

    def of_one(judgment: Judgment) -> np.ndarray:
        if judgment.probabilities is not None:
            return np.array(judgment.probabilities)
        assert judgment.score is not None
        return np.eye(LEVELS)[judgment.score - 1]

    return {
        key: np.mean([of_one(judgment) for judgment in rounds], axis=0)
        for key, rounds in scored_rounds(judgments).items()
    }


def _answers(key: PairKey) -> tuple[AnswerKey, AnswerKey]:
    first, second = key.models
    return AnswerKey(key.question_id, first, key.sample), AnswerKey(key.question_id, second, key.sample)


def _table(
    keys: list[PairKey], verdict: np.ndarray, outcomes: np.ndarray, material: PairMaterial, models: Sequence[str]
) -> PairTable:
    index = {model: number for number, model in enumerate(models)}
    questions = {question.id: question for question in material.questions}
    return PairTable(
        keys,
        np.array([index[key.models[0]] for key in keys], dtype=int),
        np.array([index[key.models[1]] for key in keys], dtype=int),
        verdict,
        outcomes,
        _lengths(keys, questions, {answer.key: len(answer.text) for answer in material.answers}),
        np.array([questions[key.question_id].group for key in keys], dtype=object),
    )


def _lengths(
    keys: Sequence[PairKey], questions: Mapping[str, Question], characters: Mapping[AnswerKey, int]
) -> np.ndarray:
    """tanh of the difference in characters over its standard deviation, as AlpacaEval 2 has it, in each language."""
    apart = np.array([characters[_answers(key)[0]] - characters[_answers(key)[1]] for key in keys], dtype=float)
    languages = np.array([questions[key.question_id].language for key in keys], dtype=object)
    scaled = np.zeros(len(keys))
    for language in set(languages.tolist()):
        rows = languages == language
        spread = apart[rows].std()
        scaled[rows] = np.tanh(apart[rows] / spread) if spread > 0 else 0.0
    return scaled


def _ranking(table: PairTable, models: Sequence[str], settings: PairSettings) -> PairRanking:
    comparisons = Comparisons(table.first, table.second, table.outcomes, table.length if settings.length else None)
    ranked = ranking(comparisons, table.cluster, len(models), *_bootstrap(settings))
    places = sorted(range(len(models)), key=lambda model: -ranked.strength[model].value)
    rows = []
    for place in places:
        own = np.concatenate([table.verdict[table.first == place], -table.verdict[table.second == place]])
        rows.append(
            RankedModel(
                model=models[place],
                strength=estimate(ranked.strength[place]),
                win_share=estimate(ranked.win_share[place]),
                wins=int((own == 1).sum()),
                ties=int((own == 0).sum()),
                losses=int((own == -1).sum()),
            )
        )
    length = None if ranked.covariate is None else estimate(ranked.covariate)
    return PairRanking(models=rows, tie=estimate(ranked.tie), length=length)


def _against_pointwise(
    table: PairTable, singles: PairTable, models: Sequence[str], settings: PairSettings
) -> PointwisePairs | None:
    """The judge's pairs against what its scores of the same answers say; None where it scored none of them."""
    both = set(table.key) & set(singles.key)
    if not both:
        return None
    own, single = [part.only(np.array([key in both for key in part.key])) for part in (table, singles)]
    apart = np.abs(_win_share(own) - _win_share(single))

    def mean(sums: Sums) -> dict[str, np.ndarray]:
        return {"difference": divided(sums["apart"][0], sums["apart"][1])}

    tallies = {"apart": dense_tally(np.column_stack([apart, np.ones(len(apart))]))}
    difference = bootstrap(tallies, own.cluster, mean, *_bootstrap(settings))["difference"]
    by_pairs, by_scores = [_ranking(part, models, settings) for part in (own, single)]
    return PointwisePairs(
        ranking=by_scores,
        with_pairs=_agreement(own.verdict, single.verdict, own, settings),
        difference=estimate(difference),
        other_order=_other_order(by_pairs, by_scores),
    )


def _win_share(table: PairTable) -> np.ndarray:
    shares: np.ndarray = table.outcomes[:, 0] + table.outcomes[:, 1] / 2
    return shares


def _other_order(one: PairRanking, other: PairRanking) -> list[tuple[str, str]]:
    place = {row.model: number for number, row in enumerate(other.models)}
    names = [row.model for row in one.models]
    return [(first, second) for first, second in combinations(names, 2) if place[first] > place[second]]


def _agreement(first: np.ndarray, second: np.ndarray, table: PairTable, settings: PairSettings) -> PairAgreement:
    measured = verdict_agreement(first, second, table.cluster, *_bootstrap(settings))
    return PairAgreement(
        pairs=len(table.key), questions=len({key.question_id for key in table.key}), **measured._asdict()
    )


def _against_physicians(
    table: PairTable, singles: PairTable | None, physicians: Sequence[PhysicianPair], settings: PairSettings
) -> PhysicianPairStudy | None:
    """The judge's pairs against physicians'; None where they have no pair in common."""
    people = [pair for pair in physicians if pair.rater != CONSTRUCTED]
    constructed = not people
    verdicts: dict[PairKey, list[int]] = {}
    for pair in people or physicians:
        verdicts.setdefault(pair.pair_key, []).append(verdict_on(pair))

    def against(part: PairTable) -> PairAgreement | None:
        part = part.only(np.array([key in verdicts for key in part.key], dtype=bool))
        if not part.key:
            return None
        theirs = np.array([majority(verdicts[key]) for key in part.key])
        return _agreement(part.verdict, theirs, part, settings)

    measured = against(table)
    if measured is None:
        return None
    return PhysicianPairStudy(
        raters=sorted({pair.rater for pair in people or physicians}),
        constructed=constructed,
        judge=measured,
        pointwise=against(singles) if singles is not None else None,
        among=_among(table, verdicts, settings),
    )


def _among(table: PairTable, verdicts: Mapping[PairKey, Sequence[int]], settings: PairSettings) -> PairAgreement | None:
    """The agreement of each two raters on the pairs that both compared."""
    rows = [
        (place, one, other)
        for place, key in enumerate(table.key)
        for one, other in combinations(verdicts.get(key, ()), 2)
    ]
    if not rows:
        return None
    places, first, second = map(np.array, zip(*rows, strict=True))
    measured = verdict_agreement(first, second, table.cluster[places], *_bootstrap(settings))
    keys = {table.key[place] for place in places}
    return PairAgreement(pairs=len(keys), questions=len({key.question_id for key in keys}), **measured._asdict())
