"""Makes `train.jsonl` and `validation.jsonl` from a teacher's judgments and physicians' scores."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from medjudge.benchmark.splits import held_out_groups
from medjudge.errors import InputError
from medjudge.records import (
    CONSTRUCTED,
    USABLE_FROM,
    Answer,
    AnswerKey,
    Judgment,
    PhysicianScore,
    Question,
    consensus,
    earlier_turns,
)


class TrainingLine(BaseModel):
    """One answer with its target. The text fields make the line complete: training reads nothing else."""

    model_config = ConfigDict(extra="forbid")
    question: Question
    earlier: list[str] = Field(description="the user's earlier turns of the conversation, oldest first")
    answer: Answer
    level: int = Field(ge=1, le=5)
    probabilities: list[float] = Field(min_length=5, max_length=5, description="soft label, level 1 first")
    source: Literal["physician", "teacher", "constructed"]
    scored_by: list[str] = Field(description="raters, or the teacher with its rounds")
    weight: float = Field(default=1.0, gt=0)
    rationale: str | None = None


class TrainingSet(NamedTuple):
    """The two sides of the split, and what came from where."""

    train: list[TrainingLine]
    validation: list[TrainingLine]
    summary: dict[str, Any]


def build_training_set(
    questions: Sequence[Question],
    answers: Sequence[Answer],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    validation_share: float,
    seed: int,
) -> TrainingSet:
    """Joins the sources to one target an answer, and splits by conversation.

    A physician's score outranks the teacher's. Several raters or rounds become a soft label: the mean of their
    probabilities where a judgment has them, of their one-hot scores elsewhere. Unscored judgments teach nothing and
    are counted.

    Args:
        judgments: Of one or several teachers, any number of rounds.
        validation_share: The part of the conversations that goes to validation.
        seed: Fixes the split.

    Raises:
        InputError: A score or judgment belongs to no answer, or nothing is scored at all.
    """
    known = {answer.key for answer in answers}
    _require_known("physicians' score", (score.answer_key for score in scores), known)
    _require_known("judgment", (judgment.answer_key for judgment in judgments), known)
    by_physicians = _grouped(scores)
    by_teachers = _grouped([judgment for judgment in judgments if judgment.score is not None])
    earlier = earlier_turns(questions)
    by_id = {question.id: question for question in questions}
    lines = [
        _line(by_id[answer.question_id], earlier[answer.question_id], answer, by_physicians, by_teachers)
        for answer in answers
        if answer.text.strip()
        and answer.question_id in by_id
        and (answer.key in by_physicians or answer.key in by_teachers)
    ]
    if not lines:
        raise InputError("nothing to distil: no answer here has a physician's score or a judgment with a score")
    held = held_out_groups([line.question for line in lines], validation_share, seed)
    train = [line for line in lines if line.question.group not in held]
    validation = [line for line in lines if line.question.group in held]
    if not train or not validation:
        raise InputError(
            f"{len({line.question.group for line in lines})} scored conversations are too few to hold some out for "
            "validation; score more of them"
        )
    return TrainingSet(train, validation, _summary(train, validation, by_physicians, by_teachers, judgments))


def _require_known(what: str, keys: Iterable[AnswerKey], known: set[AnswerKey]) -> None:
    for key in keys:
        if key not in known:
            raise InputError(
                f"a {what} belongs to no answer: question {key.question_id}, model {key.model}, sample {key.sample}; "
                "were the answers of another run given?"
            )


def _grouped(items: Iterable[Any]) -> dict[AnswerKey, list[Any]]:
    groups: dict[AnswerKey, list[Any]] = {}
    for item in items:
        groups.setdefault(item.answer_key, []).append(item)
    return groups


def _line(
    question: Question,
    earlier: Sequence[str],
    answer: Answer,
    by_physicians: dict[AnswerKey, list[PhysicianScore]],
    by_teachers: dict[AnswerKey, list[Judgment]],
) -> TrainingLine:
    physicians = by_physicians.get(answer.key)
    teachers = by_teachers.get(answer.key, [])
    if physicians:
        level = consensus(score.level for score in physicians)
        soft = np.mean([_one_hot(score.level) for score in physicians], axis=0)
        scored_by = [score.rater for score in physicians]
    else:
        level = consensus(judgment.score for judgment in teachers if judgment.score is not None)
        soft = np.mean([_soft(judgment) for judgment in teachers], axis=0)
        scored_by = [f"{judgment.judge}, round {judgment.round}" for judgment in teachers]
    # A rationale argues for one score: it may only teach where that score is the target.
    rationale = next((one.rationale for one in teachers if one.rationale and one.score == level), None)
    return TrainingLine(
        question=question,
        earlier=list(earlier),
        answer=answer,
        level=level,
        probabilities=[round(float(value), 6) for value in soft],
        source=_source(physicians),
        scored_by=scored_by,
        rationale=rationale,
    )


def _source(physicians: list[PhysicianScore] | None) -> Literal["physician", "teacher", "constructed"]:
    if not physicians:
        return "teacher"
    return "constructed" if all(score.rater == CONSTRUCTED for score in physicians) else "physician"


def _one_hot(level: int) -> np.ndarray:
    return np.eye(5)[level - 1]


def _soft(judgment: Judgment) -> np.ndarray:
    assert judgment.score is not None
    return np.array(judgment.probabilities) if judgment.probabilities else _one_hot(judgment.score)


def _summary(
    train: list[TrainingLine],
    validation: list[TrainingLine],
    by_physicians: dict[AnswerKey, list[PhysicianScore]],
    by_teachers: dict[AnswerKey, list[Judgment]],
    judgments: Sequence[Judgment],
) -> dict[str, Any]:
    return {
        "train": _side(train),
        "validation": _side(validation),
        "unscored_judgments": sum(judgment.score is None for judgment in judgments),
        "teacher_against_physicians": _teacher_disagreement(by_physicians, by_teachers),
        "raters_disagree_on_usable": sum(
            len({score.level >= USABLE_FROM for score in scores}) > 1 for scores in by_physicians.values()
        ),
        "answers_with_several_raters": sum(len(scores) > 1 for scores in by_physicians.values()),
    }


def _side(lines: list[TrainingLine]) -> dict[str, Any]:
    return {
        "answers": len(lines),
        "questions": len({line.question.id for line in lines}),
        "conversations": len({line.question.group for line in lines}),
        "sources": dict(Counter(line.source for line in lines)),
        "categories": dict(Counter(line.question.category for line in lines)),
        "languages": dict(Counter(line.question.language for line in lines)),
        "levels": {str(level): sum(line.level == level for line in lines) for level in range(1, 6)},
        "rationales": sum(line.rationale is not None for line in lines),
    }


def _teacher_disagreement(
    by_physicians: dict[AnswerKey, list[PhysicianScore]], by_teachers: dict[AnswerKey, list[Judgment]]
) -> dict[str, Any]:
    pairs = [
        (
            consensus(one.score for one in by_teachers[key] if one.score is not None),
            consensus(score.level for score in by_physicians[key]),
        )
        for key in sorted(by_physicians.keys() & by_teachers.keys())
    ]
    return {
        "answers": len(pairs),
        "other_level": sum(teacher != physician for teacher, physician in pairs),
        "usable_by_teacher_only": sum(teacher >= USABLE_FROM > physician for teacher, physician in pairs),
        "usable_by_physicians_only": sum(physician >= USABLE_FROM > teacher for teacher, physician in pairs),
    }
