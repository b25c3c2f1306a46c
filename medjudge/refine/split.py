"""Which scored answers a change may be made from, and which decide whether it is kept.

A checklist belongs to one question, so other questions cannot show whether it got better: other answers to the same
question are held out, as whole models where there are two (samples of one model resemble each other). A rubric serves a
category, and what was written after some conversations must hold in others: the held-out answers of other conversations
decide. No held-out answer ever reaches a prompt, whatever it is about.
"""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from medjudge.benchmark.splits import held_out_groups
from medjudge.records import AnswerKey, Question


class Split(NamedTuple):
    """The answers held out, and the conversations held out from the wording of rubrics."""

    answers: frozenset[AnswerKey]
    conversations: frozenset[str]


def split_answers(questions: Sequence[Question], scored: Iterable[AnswerKey], share: float, seed: int) -> Split:
    """Draws the held-out answers and conversations.

    Args:
        questions: The run's questions.
        scored: The answers that physicians scored.
        share: Share of each question's models and of each category's conversations, above 0 and below 1. At least one
            is held out and one is not. A question with one scored answer goes with its conversation.
        seed: Fixes the draw. A question's draw does not depend on the other questions.
    """
    by_question: dict[str, list[AnswerKey]] = {}
    for key in sorted(set(scored)):
        by_question.setdefault(key.question_id, []).append(key)
    scored_questions = [question for question in questions if question.id in by_question]
    conversations = held_out_groups(scored_questions, share, seed)
    held: set[AnswerKey] = set()
    for question in scored_questions:
        keys = by_question[question.id]
        if len(keys) == 1:
            held.update(keys if question.group in conversations else ())
            continue
        models = sorted({key.model for key in keys})
        units = [[key for key in keys if key.model == model] for model in models]
        if len(models) == 1:
            units = [[key] for key in keys]
        draw = np.random.default_rng(int.from_bytes(sha256(f"{seed}/{question.id}".encode()).digest()[:8], "big"))
        count = min(max(round(share * len(units)), 1), len(units) - 1)
        held.update(key for index in draw.permutation(len(units))[:count] for key in units[index])
    return Split(frozenset(held), frozenset(conversations))


def split_lines(split: Split, scored: Iterable[AnswerKey], group_of: dict[str, str]) -> str:
    """The split as JSON lines, one per answer."""
    return "".join(
        json.dumps(
            {
                **key._asdict(),
                "part": "held out" if key in split.answers else "proposing",
                "conversation": "held out" if group_of[key.question_id] in split.conversations else "proposing",
            },
            ensure_ascii=False,
        )
        + "\n"
        for key in sorted(set(scored))
    )
