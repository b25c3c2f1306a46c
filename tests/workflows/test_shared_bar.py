"""All probes of a validation share one bar, which names the one at work."""

import re
import shutil
import sys
from pathlib import Path

import pytest
from calls import Terminal

from medjudge.judge.open import JudgeOptions, resolve_judge
from medjudge.store import Run
from medjudge.validation.study import Settings
from medjudge.workflows.judge import judge_answers
from medjudge.workflows.probe_judge import probe_judge


def bars(sample_run: Path, tiny_similarity: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    run, judge_ref = Run(sample_run), resolve_judge(str(tiny_similarity))
    options = JudgeOptions(device="cpu")
    scores = run.physician_scores()[:4]
    with run.lock():
        judgments = judge_answers(run, judge_ref, options, {score.answer_key for score in scores})
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        probe_judge(run, judge_ref, scores, judgments, options, 4, Settings(resamples=20))
    return [part for part in re.split(r"[\r\n]+", screen.getvalue()) if "%" in part]


@pytest.mark.slow
def test_probes_share_a_bar(sample_run: Path, tiny_similarity: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = bars(sample_run, tiny_similarity, monkeypatch)
    assert {part.split()[0] for part in shown} <= {"probe", "probes:"}
    assert len({part.split()[1] for part in shown if part.startswith("probe ")}) > 3
    assert "100%" in shown[-1]
    for file in (sample_run / "probes").glob("*/judgments"):  # some judgments exist already: the bar still ends full
        if file.parent.name < "m":
            shutil.rmtree(file)
    assert "100%" in bars(sample_run, tiny_similarity, monkeypatch)[-1]
