import json

import pytest
from folder_of_runs import add_run

from medjudge.files import write_json
from medjudge.report.boards import judged_runs, leaderboards
from medjudge.report.contents import read_runs
from medjudge.report.page import report_page
from medjudge.store import Run, write_records
from medjudge.validation.usability import Coverage


@pytest.fixture
def judged(tmp_path):
    """Builds a run of models `MODELS-a` and `MODELS-b`, of which so many answers are usable."""
    return lambda name, models, usable=36, **how: add_run(
        tmp_path / name, 7, {f"{models}-a": usable, f"{models}-b": usable}, **how
    )


def boards_of(*runs: Run):
    return leaderboards(judged_runs(read_runs(runs)))


def test_runs_of_one_benchmark_and_judge_share_a_leaderboard(judged) -> None:
    (board,) = boards_of(judged("one", "first", 9), judged("two", "second"))
    assert list(board.models) == ["second-a", "second-b", "first-a", "first-b"]
    assert board.coverage == Coverage(answers=144, unscored=0)
    assert [board.ties[name].tie for name in board.models] == [True, True, False, False]
    assert [run.place for run in board.judged] == [0, 1]
    # A model of both runs stands twice, under its run's name.
    (board,) = boards_of(judged("three", "same", 9), judged("four", "same"))
    assert list(board.models) == ["four/same-a", "four/same-b", "three/same-a", "three/same-b"]


def test_different_questions_or_judges_never_share_a_leaderboard(judged) -> None:
    whole, part = judged("whole", "m"), judged("part", "n", questions=30)
    assert [len(board.judged[0].questions) for board in boards_of(whole, part)] == [36, 30]
    other = judged("other", "o", sha256="b")
    assert [list(board.models) for board in boards_of(whole, other)] == [["m-a", "m-b"], ["o-a", "o-b"]]
    write_records(other.answers_file, [])
    assert len(boards_of(whole, other)) == 1
    assert "No judge scored these answers yet" in report_page([other])


def test_the_worst_validation_of_a_judge_counts(judged, validated) -> None:
    study = json.loads(Run(validated).agreement_file("mine").read_text(encoding="utf-8"))
    study |= {"judge_sha256": "a", "models": {}}  # as in run.json
    runs = [judged(name, name) for name in ("one", "two", "three")]
    for run, passed in zip(runs[:2], (False, True), strict=True):
        write_json(run.agreement_file("mine"), study | {"gate": {**study["gate"], "passed": passed}})
    states = [boards_of(*some)[0].validation_status["OP"].state for some in (runs, runs[1:], runs[2:])]
    assert states == ["failed", "validated", "never validated"]
