"""The interface of judges of pairs: two answers to one question in, which of them is better out."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from medjudge.pair_records import PairJudgment, PairKey, PhysicianPair, Preferred
from medjudge.records import Answer, ErrorKind, Question
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.pointwise_pairs import likeliest

PREFERRED: dict[int, Preferred] = {1: "first", 0: "tie", -1: "second"}
"""Verdicts as numbers, and as the records have them."""
VERDICTS: dict[Preferred, int] = {name: number for number, name in PREFERRED.items()}


def verdict_on(pair: PairJudgment | PhysicianPair) -> int:
    """The verdict on the model that the pair's key names first, as a number.

    Args:
        pair: Has a verdict.
    """
    assert pair.preferred is not None
    verdict = VERDICTS[pair.preferred]
    return verdict if pair.first == pair.pair_key.models[0] else -verdict


class PairAssignment(NamedTuple):
    """Two answers to compare in one order: `first` is shown first, as A."""

    question: Question
    earlier: tuple[str, ...]
    first: Answer
    second: Answer
    scheme: Scheme = LLMEVAL_MED

    @property
    def key(self) -> PairKey:
        models = sorted((self.first.model, self.second.model))
        return PairKey(self.question.id, (models[0], models[1]), self.first.sample)

    def swapped(self) -> "PairAssignment":
        """The same pair in the other order."""
        return self._replace(first=self.second, second=self.first)


class PairJudge(Protocol):
    """Compares answers. `name` is also the name of the file of pairs."""

    name: str

    def judge_pairs(self, assignments: Sequence[PairAssignment]) -> Iterator[PairJudgment]:
        """Yields one judgment for each assignment, in any order, as soon as it is made."""
        ...


def judged_pair(
    assignment: PairAssignment,
    judge_name: str,
    preferred: Preferred,
    *,
    probabilities: np.ndarray | None = None,
    rationale: str | None = None,
    raw: str | None = None,
    answer_tokens_cut: int = 0,
) -> PairJudgment:
    """A pair with a verdict.

    Args:
        probabilities: Of first, tie and second, shape (3,); None where the judge gives none.
    """
    shares = None if probabilities is None else [round(float(value), 6) for value in probabilities]
    return PairJudgment(
        question_id=assignment.question.id,
        first=assignment.first.model,
        second=assignment.second.model,
        sample=assignment.first.sample,
        judge=judge_name,
        preferred=preferred,
        probabilities=shares,
        rationale=rationale,
        raw=raw,
        answer_tokens_cut=answer_tokens_cut,
    )


def pair_of_probabilities(
    assignment: PairAssignment, judge_name: str, probabilities: np.ndarray, answer_tokens_cut: int = 0
) -> PairJudgment:
    """A pair from the probabilities of first, tie and second; the verdict is the likeliest one."""
    exact = np.asarray(probabilities, dtype=np.float64)
    exact = exact / exact.sum()
    preferred = PREFERRED[int(likeliest(exact))]
    return judged_pair(assignment, judge_name, preferred, probabilities=exact, answer_tokens_cut=answer_tokens_cut)


def unjudged_pair(
    assignment: PairAssignment, judge_name: str, kind: ErrorKind, error: str, raw: str | None = None
) -> PairJudgment:
    """A pair without a verdict; `kind` and `error` say why, as those of an unscored judgment do."""
    return PairJudgment(
        question_id=assignment.question.id,
        first=assignment.first.model,
        second=assignment.second.model,
        sample=assignment.first.sample,
        judge=judge_name,
        preferred=None,
        error_kind=kind,
        error=error,
        raw=raw,
    )


class SplitPairs(NamedTuple):
    """Pairs that a judge must compare, and the judgments of those that it need not look at."""

    work: list[PairAssignment]
    judgments: list[PairJudgment]


def split_empty_pairs(work: Sequence[PairAssignment], judge_name: str) -> SplitPairs:
    """Separates pairs with an empty answer, which no model is asked to compare."""
    full: list[PairAssignment] = []
    judgments: list[PairJudgment] = []
    for pair in work:
        empty = [answer.model for answer in (pair.first, pair.second) if not answer.text.strip()]
        if empty:
            reason = f"the answer of {' and of '.join(empty)} is empty"
            judgments.append(unjudged_pair(pair, judge_name, ErrorKind.EMPTY_ANSWER, reason))
        else:
            full.append(pair)
    return SplitPairs(full, judgments)
