"""Hashes that tie a judgment or a score to the texts that it was made from."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from medjudge.records import Answer, AnswerKey, Judgment, OfTexts, PhysicianScore, Question, earlier_turns
from medjudge.scale import LEVELS

_DIGITS = 16
_ROUNDED = 1e-4
"""Probabilities are kept with six digits; other tools may keep fewer."""

Made = TypeVar("Made", bound=OfTexts)

Texts = Mapping[AnswerKey, str]
"""The hash of the texts of each answer: its question with the turns before it, and the answer itself."""


def texts_of(questions: Sequence[Question], answers: Iterable[Answer]) -> dict[AnswerKey, str]:
    """The hash of what a judge or a physician reads of each answer, 16 hexadecimal digits."""
    earlier = earlier_turns(questions)
    asked = {
        question.id: json.dumps(
            [question.category, *earlier[question.id], question.prompt, question.reference, question.checklist]
        )
        for question in questions
    }
    return {
        answer.key: sha256(f"{asked[answer.question_id]}\x1f{answer.text}".encode()).hexdigest()[:_DIGITS]
        for answer in answers
        if answer.question_id in asked
    }


def hash_of(record: OfTexts, texts: Texts) -> str | None:
    """The hash of the texts that a record is about; None where one of its answers is not there."""
    hashes = [texts.get(key, "") for key in record.answer_keys]
    return "+".join(hashes) if all(hashes) else None


def of_other_texts(record: OfTexts, texts: Texts) -> bool:
    """True if a record was made from other texts than those now under its ids; False for one without a hash."""
    return record.texts is not None and hash_of(record, texts) not in (record.texts, None)


def stamped(records: Iterable[Made], texts: Texts) -> Iterator[Made]:
    """The records, one by one, with the hash of the texts of their answers."""
    for record in records:
        yield record.model_copy(update={"texts": hash_of(record, texts)})


def left_out(file: Path | str, count: int) -> str:
    """One line about judgments or scores of a file that were made from other texts."""
    were = "1 line is" if count == 1 else f"{count} lines are"
    return f"{file}: {were} left out: question or answer was changed after it was judged or scored"


def problem_with(judgment: Judgment, judges: Collection[str]) -> str | None:
    """The reason why a judgment of a file contradicts the file or itself; None where it does not.

    Args:
        judges: Whose judgments the file may hold: the judge's, or those that an earlier version joined in one file.
    """
    if judgment.judge not in judges:
        return f"judge: '{judgment.judge}' in the file of {', '.join(judges)}"
    if judgment.score is None or judgment.probabilities is None:
        return None
    below = np.cumsum([0.0, *judgment.probabilities])
    if below[judgment.score] < 0.5 - _ROUNDED or below[judgment.score - 1] > 0.5 + _ROUNDED:
        return f"score: {judgment.score} is not the median of its probabilities"
    mean = float(np.dot(judgment.probabilities, np.arange(1, LEVELS + 1)))
    if judgment.expected is not None and abs(judgment.expected - mean) > LEVELS * _ROUNDED:
        return f"expected: {judgment.expected} is not the mean of its probabilities, {mean:.4f}"
    return None


def digest(records: Iterable[Judgment | PhysicianScore], texts: Texts, first: int | None = None) -> str:
    """The hash of scores and of the texts that they belong to, in order.

    Args:
        first: How many of the records count; None for all.
    """
    made = sha256()
    for record in islice(records, first):
        line = record.model_dump(mode="json", exclude={"texts", "raw", "rationale", "points", "comment"})
        made.update(json.dumps([line, texts.get(record.answer_key)], sort_keys=True).encode())
    return made.hexdigest()[:_DIGITS]
