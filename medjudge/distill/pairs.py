"""Makes training pairs from comparisons: the answer that physicians, or a teacher in both orders, found better."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

from medjudge.errors import InputError
from medjudge.judge.pairs import verdict_on
from medjudge.pair_records import PairJudgment, PairKey, PhysicianPair
from medjudge.records import CONSTRUCTED, Answer, AnswerKey, Question, TrainingPair, earlier_turns
from medjudge.statistics.verdicts import majority

_PairSource = Literal["physician", "constructed", "teacher"]


class ComparedAnswers(NamedTuple):
    """Comparisons to learn from: physicians' (or constructed ones), and judges' in both orders."""

    physicians: Sequence[PhysicianPair]
    judged: Sequence[PairJudgment]


class PairsSummary(TypedDict):
    """Counts of pairs: those of each side of the split, their sources, and what was left out, by reason."""

    train: int
    validation: int
    sources: dict[str, int]
    ties: int
    one_order: int
    empty_answer: int


class TrainingPairs(NamedTuple):
    """The pairs of both sides of the split, and what became of the others."""

    train: list[TrainingPair]
    validation: list[TrainingPair]
    summary: PairsSummary


class _Verdict(NamedTuple):
    """Who compared two answers, and what they found: 1 where the key's first model is better, 0 for a tie."""

    verdict: int
    source: _PairSource
    compared_by: list[str]


def training_pairs(
    compared: ComparedAnswers, questions: Sequence[Question], answers: Sequence[Answer], held: set[str]
) -> TrainingPairs:
    """Joins all comparisons of two answers to one verdict, and keeps those with a winner.

    Physicians outrank a constructed pair, which outranks a teacher. Several raters, or teachers, count with the verdict
    of more than half, else with a tie. A teacher whose two orders disagree calls a tie.

    Args:
        held: Names of the conversations held out for validation.

    Raises:
        InputError: A comparison belongs to no answer, or no pair has a winner.
    """
    by_key = {answer.key: answer for answer in answers}
    by_id = {question.id: question for question in questions}
    earlier = earlier_turns(questions)
    verdicts, one_order = _verdicts(compared)
    left_out: Counter[str] = Counter()
    train: list[TrainingPair] = []
    validation: list[TrainingPair] = []
    for key, found in sorted(verdicts.items()):
        pair = [_answer_of(AnswerKey(key.question_id, model, key.sample), by_key) for model in key.models]
        if not found.verdict:
            left_out["ties"] += 1
            continue
        if not all(answer.text.strip() for answer in pair):
            left_out["empty_answer"] += 1
            continue
        chosen, rejected = pair if found.verdict == 1 else pair[::-1]
        question = by_id[key.question_id]
        side = validation if question.group in held else train
        side.append(
            TrainingPair(
                question=question,
                earlier=list(earlier[question.id]),
                chosen=chosen,
                rejected=rejected,
                source=found.source,
                compared_by=found.compared_by,
            )
        )
    if not train:
        what = f"{len(validation)} are held out for validation, " if validation else ""
        raise InputError(
            f"--pairs: no pair to train on: {what}{left_out['ties']} are ties, {one_order} were judged in one order "
            "only; compare more with `medjudge compare` or `medjudge annotate pairs`, or omit --pairs"
        )
    summary: PairsSummary = {
        "train": len(train),
        "validation": len(validation),
        "sources": dict(Counter(pair.source for pair in [*train, *validation])),
        "ties": left_out["ties"],
        "one_order": one_order,
        "empty_answer": left_out["empty_answer"],
    }
    return TrainingPairs(train, validation, summary)


def _verdicts(compared: ComparedAnswers) -> tuple[dict[PairKey, _Verdict], int]:
    """The verdict on each pair, and how many pairs nobody compared but a teacher in one order."""
    people: dict[PairKey, list[PhysicianPair]] = {}
    for pair in compared.physicians:
        people.setdefault(pair.pair_key, []).append(pair)
    taught, incomplete = _of_teachers(compared.judged)
    verdicts: dict[PairKey, _Verdict] = dict(taught)
    for key, pairs in people.items():
        physicians = [pair for pair in pairs if pair.rater != CONSTRUCTED]
        binding = physicians or pairs
        verdicts[key] = _Verdict(
            majority([verdict_on(pair) for pair in binding]),
            "physician" if physicians else "constructed",
            sorted({pair.rater for pair in binding}),
        )
    return verdicts, len(incomplete - verdicts.keys())


def _of_teachers(judged: Sequence[PairJudgment]) -> tuple[Mapping[PairKey, _Verdict], set[PairKey]]:
    """The teachers' verdicts, and the pairs that a teacher judged in one order only."""
    orders: dict[tuple[PairKey, str], dict[str, int]] = {}
    for pair in judged:
        both = orders.setdefault((pair.pair_key, pair.judge), {})
        if pair.preferred is not None:
            both[pair.first] = verdict_on(pair)
    by_pair: dict[PairKey, dict[str, int]] = {}
    incomplete: set[PairKey] = set()
    for (key, judge), both in orders.items():
        if len(both) < 2:
            incomplete.add(key)
            continue
        forward, backward = both.values()
        by_pair.setdefault(key, {})[judge] = forward if forward == backward else 0
    verdicts = {
        key: _Verdict(majority(list(found.values())), "teacher", sorted(found)) for key, found in by_pair.items()
    }
    return verdicts, incomplete


def _answer_of(key: AnswerKey, answers: Mapping[AnswerKey, Answer]) -> Answer:
    if key not in answers:
        raise InputError(
            f"--pairs: a pair belongs to no answer: question {key.question_id}, model {key.model}, sample {key.sample};"
            " check whether the pairs are those of another run"
        )
    return answers[key]
