"""`medjudge validate --since`: new scores beside those of an earlier run."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from medjudge.records import Judgment, PhysicianScore
from medjudge.store import Run, read_records, write_records


def judged(run: Run, wrong: float, seed: int) -> list[Judgment]:
    """Judgments of `mine`, a share of them on the other side of usable."""
    draw = np.random.default_rng(seed)
    return [
        Judgment(
            question_id=score.question_id,
            model=score.model,
            judge="mine",
            score=(2 if score.level >= 4 else 5) if draw.random() < wrong else score.level,
        )
        for score in run.physician_scores()
    ]


@pytest.fixture
def two_runs(sample_run: Path, tmp_path: Path) -> tuple[Run, Run]:
    """The sample scored by a physician, judged well then and badly now."""
    then = Run(sample_run)
    scores = [score.model_copy(update={"rater": "dr"}) for score in read_records(then.physicians_file, PhysicianScore)]
    write_records(then.physicians_file, scores)
    now = Run(tmp_path / "now")
    shutil.copytree(then.path, now.path)
    write_records(then.judgments_file("mine"), judged(then, 0.1, 0))
    write_records(now.judgments_file("mine"), judged(now, 0.4, 1))
    return then, now


def test_a_fall_of_agreement_raises_an_alarm_and_an_equal_study_none(medjudge, two_runs) -> None:
    then, now = two_runs
    command = ("validate", now.path, "--judge", "mine", "--resamples", 100, "--since", then.path)
    done = medjudge(*command, "--json")
    assert done.returncode == 1
    since = json.loads(done.stdout)["since"]
    assert since["alarm"] is True
    assert since["paired"] > 20
    assert since["categories"] == ["MK", "MLU", "MR", "MSE", "MTG"]
    level = {score.answer_key: score.level for score in then.physician_scores()}
    for run, key in ((then, "then"), (now, "now")):
        right = [(one.score >= 4) == (level[one.answer_key] >= 4) for one in run.judgments("mine")]
        assert since["measures"]["usable_agreement"][key] == pytest.approx(np.mean(right), abs=1e-6)
    assert "ALARM: agreement has changed" in medjudge(*command).stdout
    assert medjudge("report", now.path, "--lang", "zh").returncode == 0
    assert "警报：一致性已经改变" in (now.path / "report.html").read_text()

    write_records(now.judgments_file("mine"), then.judgments("mine"))
    same = json.loads(medjudge(*command, "--json").stdout)["since"]
    assert same["alarm"] is False
    assert same["measures"]["usable_agreement"]["difference"] == 0


def test_an_earlier_run_that_cannot_be_compared_is_refused(medjudge, two_runs, tmp_path: Path) -> None:
    then, now = two_runs

    def refused(since: Path, part: str, *more: object) -> None:
        done = medjudge("validate", now.path, "--judge", "mine", "--since", since, *more)
        assert done.returncode == 2, done.stderr
        assert part in done.stderr
        assert not (now.path / "agreement").exists()

    refused(now.path, "is the run itself")
    refused(tmp_path / "nowhere", "nowhere")
    then.physicians_file.rename(then.path / "elsewhere.jsonl")
    refused(then.path, "has no physician_scores.jsonl; copy the file")
    then.judgments_file("mine").rename(then.judgments_file("other"))
    refused(then.path, "no judgments of mine in it; it has: other")
