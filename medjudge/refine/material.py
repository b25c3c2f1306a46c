"""A run joined for refinement: answers, scores and judgments by row, and which rows may be used for what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Literal, NamedTuple

import numpy as np

from medjudge.languages.texts import Languages, languages_of
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.refine.split import Split
from medjudge.scheme import Scheme
from medjudge.validation.pairs import Pairs

TargetKind = Literal["checklist", "rubric"]
Rounds = Mapping[AnswerKey, Sequence[Judgment]]
"""The scored judgments of each answer, one per round."""


class Target(NamedTuple):
    """A text that can be changed: the checklist of a question (by id), or a rubric (such as `MK.en`)."""

    kind: TargetKind
    name: str


class TargetRows(NamedTuple):
    """The rows that concern a target: two masks of shape (n,).

    `held_out` rows decide about a change; `proposing` rows may be shown to whoever proposes it.
    """

    held_out: np.ndarray
    proposing: np.ndarray


class Unscored(NamedTuple):
    """Answers that physicians scored and the judge did not.

    Attributes:
        answers: How many.
        not_judged: How many of them have no judgment at all.
        reasons: Why the others have no score -> how many.
    """

    answers: int
    not_judged: int
    reasons: dict[str, int]


@dataclass(frozen=True)
class Material:
    """What a refinement works on. Row i of `pairs` is the answer `keys[i]`; n rows."""

    questions: dict[str, Question]
    answers: dict[AnswerKey, Answer]
    scores: list[PhysicianScore]
    judgments: list[Judgment]
    pairs: Pairs
    split: Split
    scheme: Scheme

    @cached_property
    def languages(self) -> Languages:
        """The texts of the run's languages."""
        return languages_of(self.scheme)

    @cached_property
    def keys(self) -> list[AnswerKey]:
        """The key of each row."""
        return answer_keys(self.pairs)

    @cached_property
    def held_out(self) -> np.ndarray:
        """The rows of held-out answers, shape (n,)."""
        return np.array([key in self.split.answers for key in self.keys], dtype=bool)

    @cached_property
    def in_held_out_conversation(self) -> np.ndarray:
        """The rows of conversations that are held out from the wording of rubrics, shape (n,)."""
        return np.array([group in self.split.conversations for group in self.pairs.conversation], dtype=bool)

    @cached_property
    def rubric_names(self) -> np.ndarray:
        """The rubric that each row is judged by, shape (n,)."""
        return np.array([rubric_name(self.questions[key.question_id]) for key in self.keys], dtype=object)

    def rows_of(self, target: Target) -> TargetRows:
        """The rows that decide about a change of the target, and those that it may be made from."""
        if target.kind == "checklist":
            concerned = self.pairs.question_id == target.name
            return TargetRows(concerned & self.held_out, concerned & ~self.held_out)
        concerned = self.rubric_names == target.name
        return TargetRows(
            concerned & self.held_out & self.in_held_out_conversation,
            concerned & ~self.held_out & ~self.in_held_out_conversation,
        )

    def unscored(self) -> Unscored:
        """How many of the answers that physicians scored have no score of the judge, and why."""
        lost = {score.answer_key for score in self.scores} - set(self.keys)
        reasons = {
            judgment.answer_key: judgment.error or "no score"
            for judgment in self.judgments
            if judgment.answer_key in lost
        }
        return Unscored(len(lost), len(lost - set(reasons)), dict(Counter(reasons.values()).most_common()))


def material_sha256(
    questions: Mapping[str, Question], answers: Mapping[AnswerKey, Answer], scores: Sequence[PhysicianScore]
) -> str:
    """Identifies the questions, the physicians' scores and the scored answers that a refinement is made from."""
    parts = [record.model_dump_json() for record in [*questions.values(), *scores]]
    parts += [answers[key].text for key in sorted({score.answer_key for score in scores})]
    return sha256("\n".join(parts).encode()).hexdigest()


def answer_keys(pairs: Pairs) -> list[AnswerKey]:
    """The key of each row."""
    rows = zip(pairs.question_id, pairs.model, pairs.sample, strict=True)
    return [AnswerKey(str(question), str(model), int(sample)) for question, model, sample in rows]


def rubric_name(question: Question) -> str:
    """The name of the rubric that answers to a question are judged by."""
    return f"{question.category}.{question.language}"
