"""Models compared by pairs (`pairs/JUDGE.json`): ranking, swaps, what single scores say, and physicians' pairs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from shlex import quote
from typing import Literal, NamedTuple

import numpy as np

from medjudge.distill.calibrate import soft_label
from medjudge.errors import InputError
from medjudge.judge.pairs import comparison_file, pair_judgments, verdict_on
from medjudge.judge.study_summary import read_result
from medjudge.pair_records import PairJudgment, PairKey, PhysicianPair
from medjudge.records import CONSTRUCTED, Answer, AnswerKey, Question, grouped
from medjudge.rounds import scored_rounds
from medjudge.scale import LEVELS
from medjudge.statistics.bootstrap import Resampling, interval_text
from medjudge.statistics.davidson import ranking
from medjudge.statistics.estimates import Estimate, Record, estimate, mean_estimate
from medjudge.statistics.labels import both_orders, likeliest, majority, pair_probabilities, swaps, verdict_agreement
from medjudge.store import Run
from medjudge.validation.usability import REASONS

_RESAMPLES = 2000
"""Fewer than elsewhere, since each fits the ranking anew."""
_Orders = dict[PairKey, dict[bool, PairJudgment]]
"""A pair's judgments by whether the model that its key names first was shown first."""


class RankedModel(Record):
    """A model's place: `strength` of Davidson's model (mean 0) and the share of pairs it is expected to win, ties half.

    `wins`, `ties` and `losses` count its pairs; where pairs come from distributions, the likeliest verdicts.
    """

    model: str
    strength: Estimate
    win_share: Estimate
    wins: int
    ties: int
    losses: int


class PairRanking(Record):
    """The models, the strongest first. `tie` is the probability of a tie of two equally strong models.

    `length` is what a longer answer adds to a strength, where length is controlled for: strengths then hold for answers
    of equal length.
    """

    models: list[RankedModel]
    tie: Estimate
    length: Estimate | None


class SwapStudy(Record):
    """The effect of the order: see `statistics.labels.swaps`; `disagreeing` pairs are ties."""

    pairs: int
    disagreeing: int
    consistency: Estimate
    shown_first: Estimate


class PairAgreement(Record):
    """Agreement on pairs: see `statistics.labels.verdict_agreement`."""

    pairs: int
    questions: int
    agreement: Estimate
    kappa: Estimate
    decided: Estimate


class PointwisePairs(Record):
    """The same pairs by the judge's scores of single answers, P(A > B) from the two distributions.

    `with_pairs` is the agreement of both ways; `difference` is the mean distance of A's share of the win, ties half,
    0 to 1.
    """

    ranking: PairRanking
    with_pairs: PairAgreement
    difference: Estimate


class PhysicianPairStudy(Record):
    """The judge's pairs against physicians'. The verdict of several raters is that of more than half, else a tie.

    `among` is the agreement of two raters on the same pair; None where no pair has two. `constructed` says that no
    physician compared these answers.
    """

    raters: list[str]
    constructed: bool
    judge: PairAgreement
    pointwise: PairAgreement | None
    among: PairAgreement | None


class PairStudy(Record):
    """A comparison. `how`: the judge compared the answers itself, or its scores of single answers stand for pairs.

    `pairs` counts the pairs that were looked at, `possible` all of these models; `unjudged` has the reasons.
    `answer_tokens_cut` counts judgments that did not see a whole answer.
    """

    schema_version: Literal[1] = 1
    judge: str
    how: Literal["pairs", "pointwise"]
    compared: list[str]
    possible: int
    pairs: int
    judged: int
    unjudged: dict[str, int]
    shortened: int
    questions: int
    conversations: int
    interval: str
    length_controlled: bool
    ranking: PairRanking
    swaps: SwapStudy | None
    pointwise: PointwisePairs | None
    physicians: PhysicianPairStudy | None


def read_pair_study(run: Run, judge: str) -> PairStudy | None:
    """The comparison that `medjudge compare` wrote into a run; None where there is none.

    Raises:
        InputError: The file is not a comparison of this version.
    """
    command = f"medjudge compare {quote(str(run.path))} --judge {quote(judge)}"
    return read_result(PairStudy, comparison_file(run, judge), command)


class _Table(NamedTuple):
    """One row a pair, shape (n,); verdicts are those on the model `first`: 1 better, 0 tie, -1 worse.

    `outcomes` are the shares of first, tie and second, shape (n, 3). `length`, positive where the first answer is
    longer, is tanh of the difference in characters over its standard deviation in the language, as in AlpacaEval 2.
    """

    key: list[PairKey]
    first: np.ndarray
    second: np.ndarray
    verdict: np.ndarray
    outcomes: np.ndarray
    length: np.ndarray
    cluster: np.ndarray

    def only(self, keys: Iterable[PairKey]) -> "_Table":
        """The rows of these pairs."""
        wanted = set(keys)
        rows = np.array([key in wanted for key in self.key], dtype=bool)
        return _Table([key for key in self.key if key in wanted], *(column[rows] for column in self[1:]))


def possible_pairs(questions: Iterable[Question], answers: Iterable[Answer], models: Sequence[str]) -> list[PairKey]:
    """All pairs of models on each question and sample that both answered, in the order of the questions."""
    answered = {answer.key for answer in answers}
    samples: dict[str, set[int]] = {}
    for key in answered:
        samples.setdefault(key.question_id, set()).add(key.sample)
    return [
        PairKey(question.id, (min(pair), max(pair)), sample)
        for question in questions
        for sample in sorted(samples.get(question.id, ()))
        for pair in combinations(models, 2)
        if {AnswerKey(question.id, model, sample) for model in pair} <= answered
    ]


def pair_study(
    run: Run,
    judge: str,
    how: Literal["pairs", "pointwise"],
    models: Sequence[str],
    physicians: Sequence[PhysicianPair],
    length_control: bool = False,
    seed: int = 0,
) -> PairStudy:
    """Computes a comparison of models from the records of a run.

    Args:
        how: Whether the judge compared answers, or its scores of single answers stand for pairs.
        models: The models to compare, at least two.
        physicians: Physicians' pairs, but for conversations that the judge was trained on.
        length_control: Whether the ranking is controlled for the length of the answers.
        seed: Of the bootstrap.

    Raises:
        InputError: No pair has a verdict.
    """
    drawn: Resampling = {"resamples": _RESAMPLES, "seed": seed}
    possible = possible_pairs(run.questions(), run.answers(), models)
    singles = _pointwise_table(possible, run, judge, models)
    orders: _Orders = {}
    if how == "pairs":
        for pair in pair_judgments(run, judge):
            orders.setdefault(pair.pair_key, {})[pair.first == pair.pair_key.models[0]] = pair
        orders = {key: orders[key] for key in possible if key in orders}
        table, forward, backward = _paired_table(orders, run, models)
        pairs, unjudged = len(orders), _unjudged(orders)
    else:
        table, pairs = singles, len(possible)
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
        shortened=sum(pair.answer_tokens_cut > 0 for own in orders.values() for pair in own.values()),
        questions=len({key.question_id for key in table.key}),
        conversations=len(np.unique(table.cluster)),
        interval=interval_text(_RESAMPLES),
        length_controlled=length_control,
        ranking=_ranking(table, models, length_control, drawn),
        swaps=_swaps(forward, backward, table.cluster, drawn) if orders else None,
        pointwise=_against_pointwise(table, singles, models, length_control, drawn) if orders else None,
        physicians=_against_physicians(table, singles if orders else None, physicians, drawn),
    )


def _swaps(forward: np.ndarray, backward: np.ndarray, cluster: np.ndarray, how: Resampling) -> SwapStudy:
    measured = swaps(forward, backward, cluster, **how)
    return SwapStudy(pairs=len(forward), disagreeing=int((forward != backward).sum()), **measured)


def _unjudged(orders: _Orders) -> dict[str, int]:
    """The number of pairs that lack a verdict in an order, by the reason of the first that does."""
    reasons: Counter[str] = Counter()
    for pair in orders.values():
        missing = [pair.get(forward) for forward in (True, False) if _verdict(pair, forward) is None]
        if missing:
            reasons["one order is missing" if missing[0] is None else REASONS[missing[0].error_kind]] += 1
    return dict(reasons)


def _verdict(orders: Mapping[bool, PairJudgment], forward: bool) -> int | None:
    """The verdict of one order on the model that the key names first; None where there is none."""
    pair = orders.get(forward)
    return None if pair is None or pair.preferred is None else verdict_on(pair)


def _paired_table(orders: _Orders, run: Run, models: Sequence[str]) -> tuple[_Table, np.ndarray, np.ndarray]:
    """The pairs with a verdict in both orders, and the verdicts of each order."""
    verdicts = {key: [_verdict(pair, forward) for forward in (True, False)] for key, pair in orders.items()}
    keys = [key for key in orders if None not in verdicts[key]]
    first, second = np.array([verdicts[key] for key in keys], dtype=int).reshape(-1, 2).T
    verdict = both_orders(first, second)
    outcomes = np.column_stack([verdict == 1, verdict == 0, verdict == -1]).astype(float)
    return _table(keys, verdict, outcomes, run, models), first, second


def _pointwise_table(possible: Sequence[PairKey], run: Run, judge: str, models: Sequence[str]) -> _Table:
    """The pairs of which the judge scored both answers, by the mean distribution over rounds."""
    distributions = {key: soft_label(rounds) for key, rounds in scored_rounds(run.judgments(judge)).items()}
    keys = [key for key in possible if all(answer in distributions for answer in key.answers)]
    first, second = (
        np.array([distributions[key.answers[side]] for key in keys]).reshape(-1, LEVELS) for side in (0, 1)
    )
    outcomes = pair_probabilities(first, second)
    return _table(keys, likeliest(outcomes), outcomes, run, models)


def _table(keys: list[PairKey], verdict: np.ndarray, outcomes: np.ndarray, run: Run, models: Sequence[str]) -> _Table:
    index = {model: number for number, model in enumerate(models)}
    questions = {question.id: question for question in run.questions()}
    characters = {answer.key: len(answer.text) for answer in run.answers()}
    first, second = (np.array([index[key.models[side]] for key in keys], dtype=int) for side in (0, 1))
    apart = np.array([characters[key.answers[0]] - characters[key.answers[1]] for key in keys], dtype=float)
    languages = np.array([questions[key.question_id].language for key in keys], dtype=object)
    length = np.zeros(len(keys))
    for language in set(languages.tolist()):
        rows = languages == language
        spread = apart[rows].std()
        length[rows] = np.tanh(apart[rows] / spread) if spread > 0 else 0.0
    cluster = np.array([questions[key.question_id].group for key in keys], dtype=object)
    return _Table(keys, first, second, verdict, outcomes, length, cluster)


def _ranking(table: _Table, models: Sequence[str], length_control: bool, how: Resampling) -> PairRanking:
    covariate = table.length if length_control else None
    ranked = ranking(table.first, table.second, table.outcomes, len(models), table.cluster, covariate, **how)
    rows = []
    n = len(np.unique(table.cluster))
    for place in sorted(range(len(models)), key=lambda model: -ranked[f"strength {model}"].value):
        own = np.concatenate([table.verdict[table.first == place], -table.verdict[table.second == place]])
        rows.append(
            RankedModel(
                model=models[place],
                strength=estimate(ranked[f"strength {place}"], n),
                win_share=estimate(ranked[f"share {place}"], n),
                wins=int((own == 1).sum()),
                ties=int((own == 0).sum()),
                losses=int((own == -1).sum()),
            )
        )
    length = estimate(ranked["covariate"], n) if length_control else None
    return PairRanking(models=rows, tie=estimate(ranked["tie"], n), length=length)


def _against_pointwise(
    table: _Table, singles: _Table, models: Sequence[str], length_control: bool, how: Resampling
) -> PointwisePairs | None:
    """The judge's pairs against what its scores of the same answers say; None where it scored none of them."""
    own, single = table.only(singles.key), singles.only(table.key)
    if not own.key:
        return None
    shares = [part.outcomes[:, 0] + part.outcomes[:, 1] / 2 for part in (own, single)]
    return PointwisePairs(
        ranking=_ranking(single, models, length_control, how),
        with_pairs=_agreement(own.verdict, single.verdict, own.key, own.cluster, how),
        difference=mean_estimate(np.abs(shares[0] - shares[1]), own.cluster, **how),
    )


def _agreement(
    first: np.ndarray, second: np.ndarray, keys: Iterable[PairKey], cluster: np.ndarray, how: Resampling
) -> PairAgreement:
    pairs = set(keys)
    measured = verdict_agreement(first, second, cluster, **how)
    return PairAgreement(pairs=len(pairs), questions=len({key.question_id for key in pairs}), **measured)


def _against_physicians(
    table: _Table, singles: _Table | None, physicians: Sequence[PhysicianPair], how: Resampling
) -> PhysicianPairStudy | None:
    """The judge's pairs against physicians'; None where they have no pair in common."""
    people = [pair for pair in physicians if pair.rater != CONSTRUCTED]
    by_pair = grouped(people or physicians, lambda pair: pair.pair_key)
    verdicts = {key: [verdict_on(pair) for pair in pairs] for key, pairs in by_pair.items()}

    def against(part: _Table | None) -> PairAgreement | None:
        part = part and part.only(verdicts)
        if part is None or not part.key:
            return None
        theirs = np.array([majority(verdicts[key]) for key in part.key])
        return _agreement(part.verdict, theirs, part.key, part.cluster, how)

    measured = against(table)
    if measured is None:
        return None
    return PhysicianPairStudy(
        raters=sorted({pair.rater for pair in people or physicians}),
        constructed=not people,
        judge=measured,
        pointwise=against(singles),
        among=_among(table, verdicts, how),
    )


def _among(table: _Table, verdicts: Mapping[PairKey, Sequence[int]], how: Resampling) -> PairAgreement | None:
    """The agreement of each two raters on the pairs that both compared."""
    rows = [
        (place, one, other)
        for place, key in enumerate(table.key)
        for one, other in combinations(verdicts.get(key, ()), 2)
    ]
    if not rows:
        return None
    places, first, second = map(np.array, zip(*rows, strict=True))
    return _agreement(first, second, [table.key[place] for place in places], table.cluster[places], how)
