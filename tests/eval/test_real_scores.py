"""The answers that a cell of the study learns from and those that it is validated on have nothing in common."""

import shutil
from pathlib import Path

import pytest

from eval.lib.study import drawn_part
from eval.quality.real_scores import RUN, split_run
from medjudge.benchmark.sample import sample_folder
from medjudge.store import Run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(sample_folder(), tmp_path / RUN)
    return tmp_path


@pytest.mark.parametrize("split", ["questions", "models", "subjects"])
def test_nothing_unseen_is_learned_from(split: str, folder: Path) -> None:
    learned, unseen = (Run(folder / name) for name in split_run(folder, split, 10))
    assert learned.answers()
    assert unseen.answers()
    assert len(learned.answers()) + len(unseen.answers()) == len(Run(folder / RUN).answers())
    assert len(learned.physician_scores()) == 10
    assert len(unseen.physician_scores()) == len(unseen.answers())
    of = {
        "questions": lambda run: {question.group for question in run.questions()},
        "models": lambda run: {answer.model for answer in run.answers()},
        "subjects": lambda run: {question.category for question in run.questions()},
    }[split]
    assert not of(learned) & of(unseen)


def test_a_part_has_whole_questions_and_none_of_those_left_out(folder: Path) -> None:
    source = Run(folder / RUN)
    measured = drawn_part(source, Run(folder / "measured"), 20)
    asked = {question.id for question in measured.questions()}
    assert len(measured.answers()) == len([answer for answer in source.answers() if answer.question_id in asked]) >= 20
    rest = drawn_part(source, Run(folder / "rest"), None, without=asked)
    assert asked | {question.id for question in rest.questions()} == {question.id for question in source.questions()}
    assert not asked & {question.id for question in rest.questions()}
