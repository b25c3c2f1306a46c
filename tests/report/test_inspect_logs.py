import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, Answer, Judgment, PhysicianScore, Question
from medjudge.store import Run, write_records
from medjudge.validation.usability import score_models

pytest.importorskip("inspect_ai", reason="inspect-ai is not installed; pip install 'medjudge[inspect]'")

from inspect_ai.analysis import evals_df, samples_df
from inspect_ai.log import EvalLog, read_eval_log

from medjudge.report.inspect_logs import write_inspect_logs

EVIL = (
    "<script>document.title='x'</script><img src=x onerror=\"alert(2)\"> [x](javascript:alert(1)) {{ 7 * 7 }} $\\frac$ "
    "\x00\x07\x1b[31m \u202e \ufffe \ud7ff 👩‍⚕️ 中文 attachment://0123 data:image/png;base64,AAAA tc://x"
)
OTHER = "其他模型" * 30
DATA_URI = "data:image/png;base64," + "A" * 200
"""Inspect keeps such a text beside the sample and a reference in its place."""


@pytest.fixture
def run(tmp_path: Path, question: Callable[..., Question]) -> Run:
    """Two turns of a conversation and a third question; `m/1` answers twice, once judged in two rounds."""
    run = Run(tmp_path / "run 1")
    first, second = ("<b>a/..", "a2")
    questions = [
        question(id=first, prompt=EVIL, reference=EVIL, checklist=EVIL, subcategory="Drugs").model_copy(
            update={"group": "a"}
        ),
        question(id=second, prompt="And in children?").model_copy(update={"group": "a", "round": 2}),
        question(id="b", category="MTG", prompt=DATA_URI, language="zh"),
    ]
    answers = [
        Answer(question_id=first, model="m/1", text=EVIL, finish_reason="stop", tokens_in=10, tokens_out=4),
        Answer(question_id=first, model="m/1", sample=1, text="Four.", finish_reason="length"),
        Answer(question_id=second, model="m/1", text="Less.", tokens_in=20, tokens_out=5),
        Answer(question_id=second, model="m/1", sample=1, text="", finish_reason="content_filter"),
        Answer(question_id="b", model="m/1", text=DATA_URI),
        Answer(question_id="b", model=OTHER, text="A letter.", tokens_in=1, tokens_out=2),
        Answer(question_id="of another benchmark", model=OTHER, text="x"),
    ]

    def judged(answer: Answer, score: int | None, **fields: Any) -> Judgment:
        error = None if score else "no score could be read"
        key = {"question_id": answer.question_id, "model": answer.model, "sample": answer.sample}
        return Judgment(**key, judge="gpt", score=score, error=error, **fields)

    judgments = [
        judged(answers[0], 4, rationale=EVIL, probabilities=[0, 0, 0.2, 0.6, 0.2], expected=4.0, answer_tokens_cut=7),
        judged(answers[0], 2, round=2),
        judged(answers[1], None, raw="It is fine.", rationale=None),
        judged(answers[2], 5),
        judged(answers[4], 1),
        judged(answers[5], 3),
    ]  # nobody judged answers[3]
    safe = {"instruction_following": 5, "correctness": 4, "effectiveness": 4, "readability": 4, "safety": 0}
    scores = [
        PhysicianScore(question_id=first, model="m/1", rater="dr-a", score=5, comment=EVIL),
        PhysicianScore(question_id=first, model="m/1", rater="dr-b", score=4),
        PhysicianScore.model_validate({"question_id": "b", "model": "m/1", "rater": "dr-a", "dimensions": safe}),
        PhysicianScore(question_id="b", model=OTHER, rater=CONSTRUCTED, score=2),
    ]
    write_records(run.questions_file, questions)
    write_records(run.answers_file, answers)
    write_records(run.judgments_file("gpt"), judgments)
    write_records(run.physicians_file, scores)
    run.update_manifest(notes=["Written for a test."], updated="2026-11-21T08:00:00+00:00")
    return run


@pytest.fixture
def log(run: Run, tmp_path: Path) -> EvalLog:
    """The log of `m/1`, as Inspect reads it."""
    paths = write_inspect_logs(run, "gpt", tmp_path / "out")
    return read_eval_log(paths[0], resolve_attachments=True)


def sample(log: EvalLog, question_id: str, epoch: int = 1) -> Any:
    return next(logged for logged in log.samples or [] if (logged.id, logged.epoch) == (question_id, epoch))


def test_every_answer_is_a_sample_with_its_conversation(log) -> None:
    assert {(logged.id, logged.epoch) for logged in log.samples} == {
        ("<b>a/..", 1),
        ("<b>a/..", 2),
        ("a2", 1),
        ("a2", 2),
        ("b", 1),
    }
    later = sample(log, "a2", 2)
    assert [(message.role, message.content) for message in later.input] == [
        ("user", EVIL),
        ("assistant", "Four."),  # what it said itself, in the same sample
        ("user", "And in children?"),
    ]
    assert [message.role for message in later.messages] == ["user", "assistant", "user", "assistant"]
    assert later.output.completion == ""
    assert later.output.stop_reason == "content_filter"
    assert later.output.error == "content_filter"
    assert sample(log, "<b>a/..", 2).output.stop_reason == "max_tokens"


def test_hostile_texts_are_read_back_unchanged(log) -> None:
    logged = sample(log, "<b>a/..")
    assert logged.input[0].content == logged.target == logged.metadata["checklist"] == logged.output.completion == EVIL
    assert logged.messages[-1].content == logged.scores["gpt"].explanation == logged.scores["gpt"].answer == EVIL
    assert logged.scores["physicians"].metadata["scores"][0]["comment"] == EVIL
    kept = sample(log, "b")
    assert kept.input[0].content == kept.messages[-1].content == kept.output.message.content == DATA_URI


def test_scores_are_the_judges_and_unscored_is_no_number(log) -> None:
    first = sample(log, "<b>a/..").scores
    assert set(first) == {"gpt", "gpt, round 2", "physicians"}
    assert (first["gpt"].value, first["gpt, round 2"].value, first["physicians"].value) == (4, 2, 4)
    details = {"probabilities": [0, 0, 0.2, 0.6, 0.2], "expected": 4.0, "answer_tokens_cut": 7, "context_tokens_cut": 0}
    assert first["gpt"].metadata == details
    assert first["physicians"].explanation.splitlines()[-1] == "dr-b: 4"
    failed = sample(log, "<b>a/..", 2).scores["gpt"]
    assert math.isnan(failed.value)
    assert (failed.reason, failed.explanation) == ("scoring_failed", "no score could be read")
    assert failed.metadata["raw"] == "It is fine."
    missing = sample(log, "a2", 2).scores["gpt"]
    assert math.isnan(missing.value)
    assert missing.reason == "not_judged"
    unsafe = sample(log, "b").scores["physicians"]
    assert unsafe.value == 1
    assert unsafe.metadata["scores"][0]["dimensions"]["safety"] == 0


def test_metrics_are_the_rates_of_the_leaderboard(run, log) -> None:
    rates = score_models(run.questions(), run.judgments("gpt"), ["m/1"])["m/1"]
    judge, rounds, physicians = log.results.scores
    assert {name: metric.value for name, metric in judge.metrics.items()} == {
        **{part: rates.parts[part].rate for part in ("OP", "MK", "MTG")},
        "mean": pytest.approx(10 / 3),
    }
    assert judge.metrics["OP"].metadata == asdict(rates.overall)
    assert (judge.scored_samples, judge.unscored_samples) == (3, 2)
    assert (rounds.name, rounds.metrics["mean"].value) == ("gpt, round 2", 2)
    assert (physicians.name, physicians.metrics["mean"].value) == ("physicians", 2.5)
    assert log.tags == ["judge gpt", "never validated"]
    assert log.metadata["notes"] == ["Written for a test."]
    assert log.stats.model_usage == {}  # some answers do not tell their tokens


def test_one_log_a_model_and_the_same_names_again(run, tmp_path) -> None:
    paths = write_inspect_logs(run, "gpt", tmp_path / "out")
    other = read_eval_log(paths[1])
    assert [logged.id for logged in other.samples] == ["b"]
    assert set(other.samples[0].scores) == {"gpt", "constructed level"}
    assert other.stats.model_usage[OTHER].total_tokens == 3
    assert write_inspect_logs(run, "gpt", tmp_path / "out") == paths
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in paths)
    assert paths[0].name.startswith("gpt_m-1_")


def test_pandas_gets_the_scores_by_inspects_own_tables(run, tmp_path) -> None:
    write_inspect_logs(run, "gpt", tmp_path / "out")
    samples = samples_df(tmp_path / "out", quiet=True)
    assert sorted(samples["score_gpt"].dropna()) == [1, 3, 4, 5]
    assert len(samples) == 6
    evals = evals_df(tmp_path / "out", quiet=True)
    assert set(evals["model"]) == {"m/1", OTHER}
    assert set(evals["score_headline_metric"]) == {"OP"}


def test_one_file_holds_one_model(run, tmp_path, question) -> None:
    with pytest.raises(InputError, match="2 models answered"):
        write_inspect_logs(run, "gpt", tmp_path / "all.eval")
    assert not (tmp_path / "all.eval").exists()
    write_records(run.answers_file, [answer for answer in run.answers() if answer.model == "m/1"])
    assert write_inspect_logs(run, "gpt", tmp_path / "new" / "one.eval") == [tmp_path / "new" / "one.eval"]
    assert read_eval_log(tmp_path / "new" / "one.eval").eval.model == "m/1"
