"""Answers that are judged again with a changed checklist or rubric, in a run folder of their own.

The judgments stay there, so that none is paid for twice. In that folder the version of its checklist is part of a
question's id, and each question is a conversation of its own.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.records import Answer, AnswerKey, Question
from medjudge.refine.material import Material
from medjudge.refine.proposals import text_sha256
from medjudge.store import Run


class RubricText(NamedTuple):
    """A rubric by its name (such as `MK.en`), with a text that replaces the package's."""

    name: str
    text: str


class Rescoring(NamedTuple):
    """Which records a rescoring run folder must hold; `original` maps each key there to the key in the refined run."""

    run: Run
    questions: list[Question]
    answers: list[Answer]
    original: dict[AnswerKey, AnswerKey]


def plan_rescoring(
    folder: Path,
    material: Material,
    questions: Sequence[Question],
    keys: Sequence[AnswerKey],
    rubric: RubricText | None,
) -> Rescoring:
    """Lists the questions and answers of a rescoring; what the folder holds already stays in it.

    Args:
        folder: The refinement folder.
        questions: The questions as the judge shall read them.
        keys: The answers to these questions.
        rubric: The changed rubric; None where the package's is used.
    """
    name = "checklists" if rubric is None else f"{rubric.name}-{text_sha256(rubric.text)[:12]}"
    run = Run(folder / "rescored" / name)
    turns_of_group: dict[str, list[Question]] = {}
    for question in material.questions.values():
        turns_of_group.setdefault(question.group, []).append(question)
    versions: dict[str, str] = {}
    by_id = {question.id: question for question in (run.questions() if run.questions_file.exists() else ())}
    for question in questions:
        version = f"{question.id}@{text_sha256(question.checklist or '')[:12]}"
        versions[question.id] = version
        by_id[version] = question.model_copy(update={"id": version, "group": version})
        for turn in turns_of_group[question.group]:
            if turn.round < question.round:
                turn_id = f"{turn.id}@{version}"
                by_id[turn_id] = turn.model_copy(update={"id": turn_id, "group": version})
    answers = {answer.key: answer for answer in run.answers()}
    original = {}
    for key in keys:
        answer = material.answers[key].model_copy(update={"question_id": versions[key.question_id]})
        answers[answer.key] = answer
        original[answer.key] = key
    return Rescoring(run, list(by_id.values()), list(answers.values()), original)
