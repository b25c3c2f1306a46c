import json
import shutil
from pathlib import Path

import pytest

from medjudge.benchmark.sample import sample_folder
from medjudge.files import write_json
from medjudge.records import Judgment
from medjudge.report.boards import judged_runs, leaderboards
from medjudge.report.contents import read_runs
from medjudge.store import Run, write_records
from medjudge.validation.usability import Coverage


@pytest.fixture
def judged(tmp_path: Path):
    """A run of the sample's questions, its models renamed, judged by `j`."""

    def build(name: str, models: str, level: int = 5, questions: slice = slice(None), sha256: str = "a") -> Run:
        run = Run(tmp_path / name)
        shutil.copytree(sample_folder(), run.path)
        asked = run.questions()[questions]
        kept = {question.id for question in asked}
        answers = [
            answer.model_copy(update={"model": answer.model.replace("model", models)})
            for answer in run.answers()
            if answer.question_id in kept and answer.model in ("model-a", "model-b")
        ]
        write_records(run.questions_file, asked)
        write_records(run.answers_file, answers)
        judgments = [Judgment(question_id=a.question_id, model=a.model, judge="j", score=level) for a in answers]
        write_records(run.judgments_file("j"), judgments)
        run.update_manifest(judges={"j": {"sha256": sha256}})
        return run

    return build


def boards_of(*runs: Run):
    return leaderboards(judged_runs(read_runs(runs)))


def test_runs_of_one_benchmark_and_judge_share_a_leaderboard(judged) -> None:
    (board,) = boards_of(judged("one", "first", 3), judged("two", "second", 5))
    assert list(board.models) == ["second-a", "second-b", "first-a", "first-b"]
    assert board.coverage == Coverage(answers=224, unscored=0)
    assert [board.ties[name].tie for name in board.models] == [True, True, False, False]
    assert [run.place for run in board.judged] == [0, 1]
    # A model of both runs stands twice, under its run's name.
    (board,) = boards_of(judged("three", "same", 3), judged("four", "same", 5))
    assert list(board.models) == ["four/same-a", "four/same-b", "three/same-a", "three/same-b"]


def test_different_questions_or_judges_never_share_a_leaderboard(judged) -> None:
    whole, part = judged("whole", "m"), judged("part", "n", questions=slice(0, 40))
    assert [len(board.questions) for board in boards_of(whole, part)] == [56, 40]
    other = judged("other", "o", sha256="b")
    assert [list(board.models) for board in boards_of(whole, other)] == [["m-a", "m-b"], ["o-a", "o-b"]]


def test_the_worst_validation_of_a_judge_counts(judged, validated) -> None:
    study = json.loads(Run(validated).agreement_file("mine").read_text(encoding="utf-8")) | {"judge": "j"}
    study |= {"judge_sha256": "a", "models": {}}  # as in run.json
    runs = [judged(name, name) for name in ("one", "two", "three")]
    for run, passed in zip(runs[:2], (False, True), strict=True):
        write_json(run.agreement_file("j"), study | {"gate": {**study["gate"], "passed": passed}})
    states = [boards_of(*some)[0].validation_status["OP"].state for some in (runs, runs[1:], runs[2:])]
    assert states == ["failed", "validated", "never validated"]
