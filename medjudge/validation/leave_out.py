"""The cost of the unseen: a judge that never saw a model or category, beside one that did, on the same answers."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.judge.study import LeaveOutRow
from medjudge.records import AnswerKey, Judgment, PhysicianScore, Question
from medjudge.rounds import binding_by_answer
from medjudge.scale import consensus
from medjudge.statistics.bootstrap import RESAMPLES
from medjudge.statistics.two_judges import compare


class _Rows(NamedTuple):
    """Answers of one left-out value that both judges and physicians scored, one row each."""

    unseen: np.ndarray
    seen: np.ndarray
    physician: np.ndarray
    conversation: np.ndarray
    scored: int  # by physicians, whether or not both judges scored them, too


def leave_out_rows(
    by: Literal["model", "category"],
    questions: Sequence[Question],
    unseen: Mapping[str, Sequence[Judgment]],
    seen: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> list[LeaveOutRow]:
    """One row for each value that was left out; with several, a last one of all their answers (`left_out` is None).

    `n` counts the answers that both judges scored, and `coverage` is their share of the answers of this value that
    physicians scored. `unseen`, `seen` and `difference` are None where they scored none. The intervals cover the choice
    of answers, not chance in training: other seeds would move both judges.

    Args:
        by: Whether values are answering models or categories.
        questions: They give the category and the conversation of each answer.
        unseen: Value -> judgments by the judge that was trained without it. Those of other values are ignored.
        seen: Judgments by the judge trained on everything.
        scores: The physicians' scores.
        resamples: Number of resamples.
        seed: Fixes the draws.

    Raises:
        InputError: Physicians scored no answer of a value.
    """
    by_id = {question.id: question for question in questions}
    binding = binding_by_answer(score for score in scores if score.question_id in by_id)
    physician = {key: consensus(score.level for score in of_answer) for key, of_answer in binding.items()}
    scored_by_value: dict[str, list[AnswerKey]] = {value: [] for value in unseen}
    for key in physician:
        scored_by_value.get(key.model if by == "model" else by_id[key.question_id].category, []).append(key)
    everything = _judged(seen)
    parts = {}
    for value, keys in scored_by_value.items():
        if not keys:
            raise InputError(f"leaving out {by} {value}: physicians scored no answer of it; take one that they scored")
        blind = _judged(unseen[value])
        both = [key for key in keys if key in blind and key in everything]
        levels = [np.array([by_key[key] for key in both], dtype=int) for by_key in (blind, everything, physician)]
        conversation = np.array([by_id[key.question_id].group for key in both], dtype=str)
        parts[value] = _Rows(levels[0], levels[1], levels[2], conversation, len(keys))
    rows = [_row(value, part, resamples, seed) for value, part in parts.items()]
    if len(parts) > 1:
        arrays = [np.concatenate(columns) for columns in zip(*(part[:4] for part in parts.values()), strict=True)]
        together = _Rows(arrays[0], arrays[1], arrays[2], arrays[3], sum(part.scored for part in parts.values()))
        rows.append(_row(None, together, resamples, seed))
    return rows


def _judged(judgments: Iterable[Judgment]) -> dict[AnswerKey, int]:
    return _levels((judgment.answer_key, judgment.score) for judgment in judgments if judgment.score is not None)


def _levels(scored: Iterable[tuple[AnswerKey, int]]) -> dict[AnswerKey, int]:
    """One level per answer, the consensus of its rounds or raters."""
    levels: dict[AnswerKey, list[int]] = {}
    for key, level in scored:
        levels.setdefault(key, []).append(level)
    return {key: consensus(answer_levels) for key, answer_levels in levels.items()}


def _row(value: str | None, rows: _Rows, resamples: int, seed: int) -> LeaveOutRow:
    n, compared = len(rows.physician), None
    if n:
        compared = compare(rows.unseen, rows.seen, rows.physician, rows.conversation, resamples, seed)
    return LeaveOutRow(
        left_out=value,
        n=n,
        coverage=round(n / rows.scored, 6),
        conversations=len(np.unique(rows.conversation)),
        unseen=compared and compared.first,
        seen=compared and compared.second,
        difference=compared and compared.difference,
    )
