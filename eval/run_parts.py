"""Run folders with some of another's questions and answers, which several studies learn from and measure on."""

from collections.abc import Collection

import numpy as np

from medjudge.records import Answer, Question
from medjudge.store import Run, write_records

SEED = 0
MEASURED = 300
"""Answers, whole questions, of each set without a split of its own on which judges are measured."""


def write_part(source: Run, target: Run, questions: list[Question], answers: list[Answer], people: int | None) -> None:
    """Writes questions with some answers, their judgments, and so many of people's scores (all of them if None)."""
    keys = {answer.key for answer in answers}
    scores = [score for score in source.physician_scores() if score.answer_key in keys]
    if people is not None:
        scores = [scores[at] for at in sorted(np.random.default_rng(SEED).permutation(len(scores))[:people])]
    target.path.mkdir(parents=True)
    write_records(target.answers_file, answers)
    write_records(target.physicians_file, scores)
    for judge in source.judges():
        judged = [judgment for judgment in source.judgments(judge) if judgment.answer_key in keys]
        write_records(target.judgments_file(judge), judged)
    target.write_questions(questions, source.scheme())


def drawn_part(source: Run, target: Run, answers: int | None, without: Collection[str] = ()) -> Run:
    """Writes, once, a run with whole questions in a random order until it has so many answers (all of them if None).

    Args:
        source: The run to draw from.
        target: The run to write; it is left as it is where it exists.
        answers: The number of answers from which on no further question is added.
        without: Ids of questions that are not drawn.
    """
    if target.path.exists():
        return target
    questions = source.questions()
    by_question: dict[str, list[Answer]] = {}
    for answer in source.answers():
        by_question.setdefault(answer.question_id, []).append(answer)
    chosen: list[Answer] = []
    for at in np.random.default_rng(SEED).permutation(len(questions)):
        if questions[at].id not in without and (answers is None or len(chosen) < answers):
            chosen += by_question.get(questions[at].id, [])
    asked = {answer.question_id for answer in chosen}
    write_part(source, target, [question for question in questions if question.id in asked], chosen, None)
    return target
