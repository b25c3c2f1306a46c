"""Makes a training set and a validation set from teachers' judgments, physicians' scores and synthetic answers."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from medjudge.benchmark.splits import held_out_groups
from medjudge.distill.graded import MODEL, GradedAnswer, graded_answers
from medjudge.distill.labels import Label, Physicians, Teachers, label_answers, physicians_by_answer, teachers_by_answer
from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, Answer, Judgment, PhysicianScore, Question, TrainingLine, earlier_turns
from medjudge.rounds import level_of
from medjudge.scale import LEVELS, USABLE_FROM, consensus
from medjudge.scheme import LLMEVAL_MED, Scheme

WEIGHTS: Mapping[str, float] = MappingProxyType({"physician": 3, "constructed": 1, "teacher": 1, "synthetic": 0.5})
"""The weight of a line by its source. A physician's counts three times a teacher's: with 800 of people's scores among
GPT-4's, this gains 0.7 points of agreement on usable (0.3 to 1.2; heads over frozen states, LLMEval-2, November 2026).
Synthetic faults are made by rule and cruder than those of models: they should teach where nothing else does, and not
outvote scores of real answers."""


class ScoredAnswers(NamedTuple):
    """The sources of a training set: judgments of any number of teachers and rounds, scores by people or constructed.

    Questions may lack answers, and answers scores.
    """

    questions: Sequence[Question]
    answers: Sequence[Answer]
    judgments: Sequence[Judgment]
    scores: Sequence[PhysicianScore]
    scheme: Scheme = LLMEVAL_MED

    def of_questions(self, ids: Collection[str]) -> "ScoredAnswers":
        """Everything of these questions, and any score of a question that is not here, which is refused later."""
        return self.without({question.id for question in self.questions}.difference(ids))

    def without(self, ids: Collection[str]) -> "ScoredAnswers":
        """Everything but what belongs to these questions."""
        return self._replace(
            questions=[question for question in self.questions if question.id not in ids],
            answers=[answer for answer in self.answers if answer.question_id not in ids],
            judgments=[judgment for judgment in self.judgments if judgment.question_id not in ids],
            scores=[score for score in self.scores if score.question_id not in ids],
        )


@dataclass(frozen=True)
class TrainingSetOptions:
    """Options of a training set.

    Attributes:
        validation_share: The share of the conversations that goes to validation, above 0 and below 1.
        seed: Fixes the split, the folds of calibration and the synthetic answers.
        calibrate: Whether teachers are calibrated to the physicians.
        weights: Source -> weight of its lines.
        synthetic: How many graded synthetic answers to add.
    """

    validation_share: float = 0.1
    seed: int = 0
    calibrate: bool = True
    weights: Mapping[str, float] = field(default_factory=lambda: WEIGHTS)
    synthetic: int = 0


class TrainingSet(NamedTuple):
    """The two sides of the split, and what came from where."""

    train: list[TrainingLine]
    validation: list[TrainingLine]
    summary: dict[str, Any]


def build_training_set(sources: ScoredAnswers, options: TrainingSetOptions = TrainingSetOptions()) -> TrainingSet:
    """Joins the sources to one target per answer (`label_answers`), and splits by conversation.

    Unscored judgments teach nothing and are counted. Maps that calibrate a teacher see physicians' scores of the
    training side only. Synthetic answers are made from questions of the training side; only where nothing is scored at
    all, held-out questions give some to validation, so that there is one.

    Raises:
        InputError: A score or judgment belongs to no answer, or nothing is scored at all.
    """
    _require_consistent(sources, options)
    physicians, teachers = physicians_by_answer(sources.scores), teachers_by_answer(sources.judgments)
    by_id = {question.id: question for question in sources.questions}
    judged = physicians.keys() | {key for rounds in teachers.values() for key in rounds}
    scored = [
        answer
        for answer in sources.answers
        if answer.text.strip() and answer.question_id in by_id and answer.key in judged
    ]
    if not scored and not options.synthetic:
        raise InputError("nothing to distil: no answer here has a physician's score or a judgment with a score")
    asked = [by_id[answer.question_id] for answer in scored] or sources.questions
    held = held_out_groups(asked, options.validation_share, options.seed)
    conversations = {question.group for question in asked}
    if not held or held == conversations:
        raise InputError(
            f"{len(conversations)} scored conversations are too few to hold some out for validation; score more of them"
        )
    in_validation = {answer.key: by_id[answer.question_id].group in held for answer in scored}
    calibrate_on = [key for key, is_held in in_validation.items() if not is_held] if options.calibrate else None
    labels, reports = label_answers(in_validation, physicians, teachers, by_id, calibrate_on, options.seed)
    earlier = earlier_turns(sources.questions)

    def line_of(question: Question, answer: Answer, label: Label, made_from: list[str]) -> TrainingLine:
        return TrainingLine(
            **label._asdict() | {"probabilities": [round(float(value), 6) for value in label.probabilities]},
            question=question,
            earlier=list(earlier[question.id]),
            answer=answer,
            weight=options.weights[label.source],
            made_from=made_from,
        )

    lines = [line_of(by_id[answer.question_id], answer, labels[answer.key], []) for answer in scored]
    for graded in _synthetic_answers(sources, options, held, not scored):
        label = Label(graded.level, np.eye(LEVELS)[graded.level - 1], "synthetic", [f"synthetic: {graded.how}"], None)
        lines.append(line_of(graded.question, graded.answer, label, graded.made_from))
    train = [line for line in lines if line.question.group not in held]
    validation = [line for line in lines if line.question.group in held]
    summary: dict[str, Any] = {
        "train": side_summary(train),
        "validation": side_summary(validation),
        "weights": {source: options.weights[source] for source in sorted({line.source for line in lines})},
        "unscored_judgments": sum(judgment.score is None for judgment in sources.judgments),
        "teacher_against_physicians": _disagreement(physicians, teachers),
        "raters": dict(Counter(rater for levels in physicians.values() for rater in levels if rater != CONSTRUCTED)),
        "calibration": {"teachers": reports},
    }
    return TrainingSet(train, validation, summary)


def side_summary(lines: Sequence[TrainingLine]) -> dict[str, Any]:
    """Counts of one side of the split."""
    return {
        "answers": len(lines),
        "questions": len({line.question.id for line in lines}),
        "conversations": len({line.question.group for line in lines}),
        "sources": dict(Counter(line.source for line in lines)),
        "categories": dict(Counter(line.question.category for line in lines)),
        "languages": dict(Counter(line.question.language for line in lines)),
        "levels": {str(level): sum(line.level == level for line in lines) for level in range(1, LEVELS + 1)},
        "rationales": sum(line.rationale is not None for line in lines),
    }


def _require_consistent(sources: ScoredAnswers, options: TrainingSetOptions) -> None:
    known = {answer.key for answer in sources.answers}
    for what, records in (("physicians' score", sources.scores), ("judgment", sources.judgments)):
        for key in (record.answer_key for record in records):
            if key not in known:
                raise InputError(
                    f"a {what} belongs to no answer: question {key.question_id}, model {key.model}, sample "
                    f"{key.sample}; check whether the answers are those of another run"
                )
    if options.synthetic and any(answer.model == MODEL for answer in sources.answers):
        raise InputError(f"a model here is named {MODEL}, like the model of --synthetic; rename it")


def _synthetic_answers(
    sources: ScoredAnswers, options: TrainingSetOptions, held: set[str], nothing_scored: bool
) -> list[GradedAnswer]:
    if not options.synthetic:
        return []
    sides = [(options.synthetic, held)]  # how many, and the conversations that give none
    if nothing_scored:
        train = {question.group for question in sources.questions} - held
        sides.append((max(1, round(options.synthetic * options.validation_share)), train))
    made = []
    for count, others in sides:
        questions = [question for question in sources.questions if question.group not in others]
        answers = graded_answers(questions, count, options.seed, sources.scheme)
        if not answers:
            raise InputError("--synthetic: no question to train on has a reference that answers it; add references")
        made += answers
    return made


def _disagreement(physicians: Physicians, teachers: Teachers) -> dict[str, Any]:
    pairs = []
    for key, levels in physicians.items():
        if rounds := [judgment for by_answer in teachers.values() for judgment in by_answer.get(key, ())]:
            pairs.append((level_of(rounds), consensus(levels.values())))
    return {
        "answers": len(pairs),
        "other_level": sum(teacher != physician for teacher, physician in pairs),
        "usable_by_teacher_only": sum(teacher >= USABLE_FROM > physician for teacher, physician in pairs),
        "usable_by_physicians_only": sum(physician >= USABLE_FROM > teacher for teacher, physician in pairs),
    }


REPLAYED = 0.3
"""The teacher's share of the second stage's lines, as measured."""
_PEOPLE = ("physician", "constructed")


class Stages(NamedTuple):
    """The lines of both stages, and how many of the teacher's come again in the second one."""

    first: list[TrainingLine]
    last: list[TrainingLine]
    replayed: int


def people_last(train: Sequence[TrainingLine], seed: int) -> Stages:
    """Divides a training set into the lines of both stages: the last one in random order, where all weigh the same.

    Synthetic lines belong to the first stage. `seed` fixes which of the teacher's lines are replayed.

    Raises:
        InputError: People or teachers have no line.
    """
    people = [line for line in train if line.source in _PEOPLE]
    taught = [line for line in train if line.source == "teacher"]
    for who, lines in (("physicians' score", people), ("teacher's judgment", taught)):
        if not lines:
            raise InputError(
                f"--people-last: no answer to train on has a {who} as its label, and the two stages need both; leave "
                "it out, or add some"
            )
    draw = Random(seed)
    replayed = draw.sample(taught, min(len(taught), round(len(people) * REPLAYED / (1 - REPLAYED))))
    last = [line.model_copy(update={"weight": 1.0}) for line in (*people, *replayed)]
    draw.shuffle(last)
    return Stages([line for line in train if line.source not in _PEOPLE], last, len(replayed))
