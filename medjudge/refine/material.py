"""A run joined for refinement: answers, scores and judgments by row, which rows serve what, and its folder."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from medjudge.benchmark.splits import held_out_groups
from medjudge.errors import InputError
from medjudge.files import parse_json, read_text, write_json, write_whole
from medjudge.judge.folder import KINDS
from medjudge.judge.open import ApiRef, FolderRef, ImportedRef, MemberRef
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.scheme import Scheme
from medjudge.validation.answers import Pairs

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


class Split(NamedTuple):
    """The answers held out, and the conversations held out from the wording of rubrics."""

    answers: frozenset[AnswerKey]
    conversations: frozenset[str]


@dataclass(frozen=True)
class Material:
    """Records and arrays that a refinement works on. Row i of `pairs` is the answer `keys[i]`; n rows."""

    questions: dict[str, Question]
    answers: dict[AnswerKey, Answer]
    scores: list[PhysicianScore]
    judgments: list[Judgment]
    pairs: Pairs
    split: Split
    scheme: Scheme

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
        """Counts of the answers that physicians scored and the judge did not, with reasons."""
        lost = {score.answer_key for score in self.scores} - set(self.keys)
        reasons = {
            judgment.answer_key: judgment.error or "no score"
            for judgment in self.judgments
            if judgment.answer_key in lost
        }
        return Unscored(len(lost), len(lost - set(reasons)), dict(Counter(reasons.values()).most_common()))


def answer_keys(pairs: Pairs) -> list[AnswerKey]:
    """The key of each row."""
    rows = zip(pairs.question_id, pairs.model, pairs.sample, strict=True)
    return [AnswerKey(str(question), str(model), int(sample)) for question, model, sample in rows]


def rubric_name(question: Question) -> str:
    """The name of the rubric that answers to a question are judged by."""
    return f"{question.category}.{question.language}"


def text_sha256(text: str) -> str:
    """The name of a version of a text."""
    return sha256(text.encode()).hexdigest()


def split_answers(questions: Sequence[Question], scored: Iterable[AnswerKey], share: float, seed: int) -> Split:
    """Draw the answers that decide about changes, and the conversations that do so for rubrics.

    A checklist belongs to one question, so other questions cannot show whether it got better: other answers to the same
    question are held out, as whole models where there are two (samples of one model resemble each other). A rubric
    serves a category, and what was written after some conversations must hold in others. No held-out answer ever
    reaches a prompt, whatever it is about.

    Args:
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


def write_split(file: Path, material: Material) -> None:
    """Write the part and the conversation's part of each answer that physicians scored."""
    parts = ("proposing", "held out")
    lines = []
    for key in sorted({score.answer_key for score in material.scores}):
        held_conversation = material.questions[key.question_id].group in material.split.conversations
        lines.append(
            {
                **key._asdict(),
                "part": parts[key in material.split.answers],
                "conversation": parts[held_conversation],
            }
        )
    write_lines(file, lines)


def write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    """Write objects as JSON lines."""
    write_whole(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))


def material_sha256(
    questions: Mapping[str, Question], answers: Mapping[AnswerKey, Answer], scores: Sequence[PhysicianScore]
) -> str:
    """Identifies the questions, the physicians' scores and the scored answers that a refinement is made from."""
    parts = [record.model_dump_json() for record in [*questions.values(), *scores]]
    parts += [answers[key].text for key in sorted({score.answer_key for score in scores})]
    return sha256("\n".join(parts).encode()).hexdigest()


def claim_folder(folder: Path, settings: Mapping[str, Any]) -> None:
    """Write what a refinement folder is made from into it, or compare it with what is written there.

    Raises:
        InputError: The folder was made from other settings, or its settings cannot be read.
    """
    file = folder / "settings.json"
    free = next(name for n in count(2) if not (name := folder.with_name(f"{folder.name}-{n}")).exists())
    if file.exists():
        try:
            existing, reason = parse_json(read_text(file)), ""
        except ValueError as error:
            existing, reason = None, f" ({error})"
        if not isinstance(existing, dict):
            raise InputError(
                f"{file}: not the settings of a refinement{reason}; restore it from a copy, remove the folder, or give "
                f"another one, such as --out {free}"
            )
        different = [name for name, value in settings.items() if existing.get(name) != value]
        if "scores_and_texts_sha256" in different:
            raise InputError(
                f"{folder}: physicians' scores, questions or answers of the run have changed since it was made; give "
                f"another folder, such as --out {free}"
            )
        if different:
            raise InputError(
                f"{folder}: was made with another {', '.join(different)}; remove it or give another folder, such as "
                f"--out {free}"
            )
    write_json(file, settings)


def kinds_read(judge_ref: MemberRef) -> frozenset[TargetKind]:
    """The kinds of text that a judge takes a new version of.

    An API judge reads rubric and checklist. A generative judge was trained with the rubrics as they are, so it takes
    only new checklists. An ordinal judge reads no rubric, and the checklist only if its training set had some. A
    similarity judge reads only the reference.
    """
    if isinstance(judge_ref, ApiRef):
        return frozenset({"checklist", "rubric"})
    if isinstance(judge_ref, FolderRef) and KINDS[judge_ref.card.kind].reads_checklist(judge_ref.folder):
        return frozenset({"checklist"})
    return frozenset()


def why_not_refinable(judge_ref: MemberRef) -> str | None:
    """The reason why no change can affect the judge, and which judges to take instead; None where one can."""
    if isinstance(judge_ref, ImportedRef):
        return "only its judgments are known, so it cannot score again; give its folder or openai:MODEL"
    if not kinds_read(judge_ref):
        return (
            "reads neither checklist nor rubric, so no change of them affects it; take an openai:MODEL or generative "
            "judge, or an ordinal judge trained on checklists"
        )
    return None
