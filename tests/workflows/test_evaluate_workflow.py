"""`medjudge.evaluate`, `answer_questions` and `write_report` as a notebook calls them."""

import json

import pytest

import medjudge
from medjudge.store import Run
from medjudge.workflows.answer import AnswerOptions
from medjudge.workflows.evaluate import EvaluateOptions


def test_evaluate_returns_the_rates_that_it_writes_and_prints_them(tiny_similarity, tmp_path) -> None:
    result = medjudge.evaluate("sample", judge=str(tiny_similarity), limit=12, run=tmp_path / "run")
    assert result.complete
    assert result.judge == "similarity"
    written = json.loads((tmp_path / "run" / "scores.json").read_text())
    assert written["models"] == {model: rates.as_json() for model, rates in result.rates.items()}
    rate = written["models"]["model-a"]["OP"]
    assert list(rate) == ["rate", "low", "high", "usable", "questions", "unscored", "not_answered"]
    assert rate["questions"] == 12
    assert rate["low"] <= rate["rate"] <= rate["high"]
    assert set(result.rates) == {f"model-{letter}" for letter in "abcde"}
    text = repr(result)
    assert "never validated" in text
    assert "No physician" in text
    for model, rates in result.rates.items():
        assert f"{model}: {rates.overall.rate:.1f} (" in text


def test_killed_before_its_manifest_a_run_goes_on_with_the_sample(tiny_similarity, tmp_path, monkeypatch) -> None:
    def kill() -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patches:
        patches.setattr("medjudge.workflows.run_folder.describe", kill)  # after the questions, before the manifest
        with pytest.raises(KeyboardInterrupt):
            medjudge.evaluate(judge=str(tiny_similarity), limit=2, run=tmp_path / "run")
    assert (tmp_path / "run" / "questions.jsonl").exists()
    assert not (tmp_path / "run" / "answers.jsonl").exists()
    assert medjudge.evaluate(judge=str(tiny_similarity), limit=2, run=tmp_path / "run").complete


@pytest.mark.slow
def test_a_model_answers_and_the_report_has_one_leaderboard(tiny_lm, tmp_path) -> None:
    answering = AnswerOptions(samples=2, max_new_tokens=4, device="cpu")
    answered = medjudge.answer_questions(models=[str(tiny_lm)], limit=2, run=tmp_path / "run", options=answering)
    assert len(answered.answers) == 4
    assert repr(answered).startswith(f"4 answers in {tmp_path / 'run' / 'answers.jsonl'}")
    options = EvaluateOptions(answering=answering)
    medjudge.evaluate(models=[str(tiny_lm)], limit=2, run=tmp_path / "run", judge="similarity", options=options)
    assert len(Run(tmp_path / "run").answers()) == 4
    report = medjudge.write_report([tmp_path / "run"])
    assert report.page.is_file()
    assert [list(board.models) for board in report.leaderboards] == [[tiny_lm.name]]
    assert report.leaderboards[0].judge == "similarity"
    assert "1 leaderboards, 1 models" in repr(report)
