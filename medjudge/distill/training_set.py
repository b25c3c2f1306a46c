"""Makes `train.jsonl` and `validation.jsonl` from teachers' judgments, physicians' scores and synthetic answers."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from medjudge.benchmark.splits import held_out_groups
from medjudge.distill.graded import MODEL, GradedAnswer, graded_answers
from medjudge.distill.labels import (
    Label,
    Physicians,
    Teachers,
    changes,
    label_answers,
    physicians_by_answer,
    teachers_by_answer,
)
from medjudge.errors import InputError
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question, TrainingLine, earlier_turns
from medjudge.rounds import level_of
from medjudge.scale import USABLE_FROM, consensus

WEIGHTS: dict[str, float] = {"physician": 1, "constructed": 1, "teacher": 1, "synthetic": 0.5}
"""What a line of each source counts unless told otherwise. Synthetic faults are made by rule, cruder than those that
models make: they shall teach where nothing else does, and not outvote scores of real answers."""


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
    *,
    calibrate: bool = True,
    weights: Mapping[str, float] = WEIGHTS,
    synthetic: int = 0,
) -> TrainingSet:
    """Joins the sources to one target an answer (`label_answers`), and splits by conversation.

    Unscored judgments teach nothing and are counted. Maps that calibrate a teacher see physicians' scores of the
    training side only. Synthetic answers are made from questions of the training side; only where nothing is scored at
    all, held-out questions give some to validation, so that there is one.

    Args:
        judgments: Of one or several teachers, any number of rounds.
        validation_share: The part of the conversations that goes to validation.
        seed: Fixes the split, the folds of calibration and the synthetic answers.
        calibrate: Whether teachers are calibrated to the physicians.
        weights: Source -> weight of its lines.
        synthetic: How many graded synthetic answers to add.

    Raises:
        InputError: A score or judgment belongs to no answer, or nothing is scored at all.
    """
    known = {answer.key for answer in answers}
    _require_known("physicians' score", (score.answer_key for score in scores), known)
    _require_known("judgment", (judgment.answer_key for judgment in judgments), known)
    if synthetic and any(answer.model == MODEL for answer in answers):
        raise InputError(f"a model here is called {MODEL}, as --synthetic names its own; rename the model")
    physicians, teachers = physicians_by_answer(scores), teachers_by_answer(judgments)
    by_id = {question.id: question for question in questions}
    judged = physicians.keys() | {key for given in teachers.values() for key in given}
    scored = [one for one in answers if one.text.strip() and one.question_id in by_id and one.key in judged]
    if not scored and not synthetic:
        raise InputError("nothing to distil: no answer here has a physician's score or a judgment with a score")
    held = _held_out([by_id[one.question_id] for one in scored] or questions, validation_share, seed)
    sides = {one.key: by_id[one.question_id].group in held for one in scored}
    labels = label_answers(
        sides, physicians, teachers, by_id, [key for key, out in sides.items() if not out] if calibrate else None, seed
    )
    earlier = earlier_turns(questions)
    lines = [
        _line(by_id[one.question_id], earlier[one.question_id], one, labels.by_answer[one.key], weights)
        for one in scored
    ]
    made = _synthetic(questions, held, synthetic, seed) if synthetic else []
    if synthetic and not scored:
        trained = {one.group for one in questions} - held
        made += _synthetic(questions, trained, max(1, round(synthetic * validation_share)), seed)
    lines += [_synthetic_line(one, earlier[one.question.id], weights) for one in made]
    train = [line for line in lines if line.question.group not in held]
    validation = [line for line in lines if line.question.group in held]
    summary = {
        "train": side(train),
        "validation": side(validation),
        "weights": {source: weights[source] for source in sorted({line.source for line in lines})},
        "unscored_judgments": sum(judgment.score is None for judgment in judgments),
        "teacher_against_physicians": _teacher_disagreement(physicians, teachers),
        "raters_disagree_on_usable": sum(
            len({level >= USABLE_FROM for level in given.values()}) > 1 for given in physicians.values()
        ),
        "answers_with_several_raters": sum(len(given) > 1 for given in physicians.values()),
        "raters": labels.raters,
        "calibration": {"teachers": labels.teachers, "changed": changes(labels.by_answer, by_id)},
    }
    return TrainingSet(train, validation, summary)


def side(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    """What one side of the split holds, for the summary."""
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


def _require_known(what: str, keys: Iterable[AnswerKey], known: set[AnswerKey]) -> None:
    for key in keys:
        if key not in known:
            raise InputError(
                f"a {what} belongs to no answer: question {key.question_id}, model {key.model}, sample {key.sample}; "
                "were the answers of another run given?"
            )


def _held_out(questions: Sequence[Question], share: float, seed: int) -> set[str]:
    held = held_out_groups(questions, share, seed)
    conversations = {question.group for question in questions}
    if not held or held == conversations:
        raise InputError(
            f"{len(conversations)} scored conversations are too few to hold some out for validation; score more of them"
        )
    return held


def _line(
    question: Question, earlier: Sequence[str], answer: Answer, label: Label, weights: Mapping[str, float]
) -> TrainingLine:
    return TrainingLine(
        question=question,
        earlier=list(earlier),
        answer=answer,
        level=label.level,
        probabilities=[round(float(value), 6) for value in label.probabilities],
        source=label.source,
        scored_by=label.scored_by,
        weight=weights[label.source],
        rationale=label.rationale,
    )


def _synthetic(questions: Sequence[Question], without: set[str], count: int, seed: int) -> list[GradedAnswer]:
    """Graded answers to questions outside these conversations."""
    made = graded_answers([one for one in questions if one.group not in without], count, seed)
    if not made:
        raise InputError("--synthetic: no question to train on has a reference that answers it; add references")
    return made


def _synthetic_line(made: GradedAnswer, earlier: Sequence[str], weights: Mapping[str, float]) -> TrainingLine:
    return TrainingLine(
        question=made.question,
        earlier=list(earlier),
        answer=made.answer,
        level=made.level,
        probabilities=[float(level == made.level) for level in range(1, 6)],
        source="synthetic",
        scored_by=[f"synthetic: {made.how}"],
        made_from=made.made_from,
        weight=weights["synthetic"],
    )


def _teacher_disagreement(physicians: Physicians, teachers: Teachers) -> dict[str, Any]:
    rounds: dict[AnswerKey, list[Judgment]] = {}
    for given in teachers.values():
        for key, some in given.items():
            rounds.setdefault(key, []).extend(some)
    pairs = [
        (level_of(rounds[key]), consensus(physicians[key].values()))
        for key in sorted(physicians.keys() & rounds.keys())
    ]
    return {
        "answers": len(pairs),
        "other_level": sum(teacher != physician for teacher, physician in pairs),
        "usable_by_teacher_only": sum(teacher >= USABLE_FROM > physician for teacher, physician in pairs),
        "usable_by_physicians_only": sum(physician >= USABLE_FROM > teacher for teacher, physician in pairs),
    }
