"""`medjudge eval` with rounds: where the variance of the scores comes from."""

import json
from pathlib import Path

import numpy as np
import pytest
from chat_server import completion

from medjudge.records import Judgment
from medjudge.store import Run
from medjudge.validation.variance import variance_study


def test_rounds_separate_the_judge_from_the_answers(medjudge, chat_server, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    server = chat_server(lambda body: completion(json.dumps({"rationale": "clear", "score": int(draw.integers(1, 6))})))
    command = ("eval", "--judge", "openai:big", "--run", "run", "--limit", 6, "--base-url", server.url)
    once = medjudge(*command, "--concurrency", 1, OPENAI_API_KEY="k")
    assert once.returncode == 0, once.stderr
    assert "variance" not in once.stdout
    assert not (tmp_path / "run" / "variance").exists()
    twice = medjudge(*command, "--concurrency", 1, "--rounds", 2, OPENAI_API_KEY="k")
    assert twice.returncode == 0, twice.stderr
    study = json.loads((tmp_path / "run" / "variance" / "big.json").read_text())
    assert (study["questions"], study["samples"], study["rounds"]) == (6, 1, 2)
    by_answer: dict = {}
    for one in Run(tmp_path / "run").judgments("big"):
        by_answer.setdefault(one.answer_key, []).append(one.score)
    within = np.mean([np.var(scores, ddof=1) for scores in by_answer.values()])
    assert study["judge"] == pytest.approx(within, rel=0.5)  # all of the variance is the judge's
    assert study["judge"] > 2 * (study["answers"] or 0)
    assert "variance of a score" in twice.stdout
    assert "more questions narrow it most" in twice.stdout
    assert medjudge("report", "run").returncode == 0
    assert "Where the variance of the scores comes from" in (tmp_path / "run" / "report.html").read_text()


def test_twice_the_rounds_help_an_unsteady_judge_and_not_a_steady_one() -> None:
    draw = np.random.default_rng(1)

    def judged(noise: float) -> list[Judgment]:
        return [
            Judgment(
                question_id=f"q{question}",
                model=f"m{model}",
                sample=sample,
                judge="j",
                round=judging,
                score=3,
                expected=float(np.clip(3 + hard + luck + draw.normal(0, noise), 1, 5)),
            )
            for question, hard in enumerate(draw.normal(0, 0.5, 25))
            for model in range(2)
            for sample, luck in enumerate(draw.normal(0, 0.4, 2))
            for judging in (1, 2)
        ]

    steady, unsteady = variance_study(judged(0.0)), variance_study(judged(0.8))
    assert steady is not None
    assert unsteady is not None
    assert steady.judge == 0
    assert steady.doubled["rounds"] == steady.half_width
    assert unsteady.judge == pytest.approx(0.64, abs=0.2)
    assert unsteady.doubled["rounds"] < unsteady.half_width
    assert unsteady.floor < unsteady.doubled["samples"] < unsteady.half_width
    assert variance_study([one for one in judged(0.5) if one.round == 1 and one.sample == 0]) is None
