"""`medjudge distill`: what it writes, what it keeps out, what it refuses."""

import json
import re

import pytest
from calls import SAMPLE_QUESTION, refused, worked

from medjudge.records import Judgment, PhysicianScore
from medjudge.store import Run, read_records, write_records
from medjudge.workflows.train import DEFAULT_CONFIG


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture
def taught_run(sample_run):
    """The sample: a physician scored two thirds of its conversations, a lenient teacher all answers."""
    run = Run(sample_run)
    questions = {question.id: question for question in run.questions()}
    truth = {score.answer_key: score.level for score in run.physician_scores()}
    groups = sorted({question.group for question in questions.values()})
    scored = [key for key in truth if groups.index(questions[key.question_id].group) % 3]
    scores = [PhysicianScore(**key._asdict(), rater="dr-a", score=truth[key]) for key in scored]
    write_records(run.physicians_file, scores)
    lenient = [Judgment(**key._asdict(), judge="gpt", score=min(5, level + 1)) for key, level in truth.items()]
    write_records(run.judgments_file("gpt"), lenient)
    return sample_run


def test_distill_calibrates_the_teacher_and_says_so(medjudge, taught_run, tmp_path) -> None:
    done = worked(medjudge("distill", taught_run, "--out", "data"))
    printed = " ".join(done.stdout.split())
    assert len(done.stdout.splitlines()) <= 14
    report = json.loads((tmp_path / "data" / "summary.json").read_text())["calibration"]["teachers"]["gpt"]
    loss = {side: report["held_out"]["log_loss"][side] for side in ("before", "after", "difference")}
    change = "{value:+.2f}, {low:+.2f} to {high:+.2f}".format(**loss["difference"])
    assert f"log loss {loss['before']['value']:.2f} to {loss['after']['value']:.2f} (difference {change})" in printed
    assert report["map"]["probabilities"]["overall"]["5"][3] > 0.4  # the teacher's 5 is mostly a 4
    assert re.search(
        r"checks: near-duplicates across the split: \d+ questions, .*of length and level: .*teacher", printed
    )
    train = f"medjudge train --config {DEFAULT_CONFIG} --validation-file data/validation.jsonl --train-file"
    assert f"Next: {train} data/train.jsonl" in printed
    copied = medjudge("distill", taught_run, "--out", "copied", "--no-calibration", "--weight", "teacher=0.3")
    assert "teacher gpt: copied as it is (calibration is switched off)" in copied.stdout
    weights = {(line["source"], line["weight"]) for line in lines_of(tmp_path / "copied" / "train.jsonl")}
    assert weights == {("physician", 3.0), ("teacher", 0.3)}


def test_distill_makes_nothing_of_what_is_kept_out(medjudge, taught_run, tmp_path, jsonl) -> None:
    kept = Run(taught_run).questions()[3:21:17]
    named = jsonl("s.jsonl", *[{"question_id": record.id} for record in kept])
    done = worked(medjudge("distill", taught_run, "--out", "a", "--keep-out", named))
    assert "kept out: " in done.stdout
    written = "".join((tmp_path / "a" / f"{side}.jsonl").read_text() for side in ("train", "validation"))
    assert not any(f'"question_id":"{record.id}"' in written for record in kept)
    report = json.loads((tmp_path / "a" / "summary.json").read_text())["checks"]["kept_out"]
    assert {record.id for record in kept} <= set(report["ids"])
    assert (report["by_id"], report["questions"]) == (2, len(report["ids"]))
    # A training set is kept out by the questions in its lines; the same text under another id goes, too.
    same_text = jsonl("q.jsonl", {"id": "elsewhere", "prompt": kept[0].prompt})
    sets = ("--keep-out", "a/validation.jsonl", "--keep-out", same_text)
    again = medjudge("distill", taught_run, "--out", "b", *sets, "--json")
    held = {line["question"]["id"] for line in lines_of(tmp_path / "a" / "validation.jsonl")}
    assert held | {kept[0].id} <= set(json.loads(again.stdout)["checks"]["kept_out"]["ids"])
    refused(medjudge("distill", taught_run, "--out", "c", "--keep-out", taught_run), "names all questions here")
    refused(medjudge("distill", taught_run, "--out", "c", "--keep-out", jsonl("x.jsonl", {"a": 1})), "x.jsonl, line 1")
    assert not (tmp_path / "c").exists()


def test_distill_writes_the_files_of_two_stages(medjudge, taught_run, tmp_path) -> None:
    done = worked(medjudge("distill", taught_run, "--out", "data", "--people-last"))
    first, last = (lines_of(tmp_path / "data" / f"{name}.jsonl") for name in ("teacher-first", "people-last"))
    people = sum(line["source"] == "physician" for line in last)
    counted = f"people last: {len(first)} answers first, then {people} of people's with {len(last) - people} of the"
    assert counted in done.stdout
    assert "people-last.jsonl --start-from judges/teacher-first" in " ".join(done.stdout.split())
    (taught_run / "judgments" / "gpt.jsonl").unlink()
    refused(medjudge("distill", taught_run, "--out", "b", "--people-last"), "no answer to train on has a teacher's")
    assert not (tmp_path / "b").exists()


def test_distill_makes_synthetic_answers_with_no_score_at_all(medjudge, sample_run, tmp_path, jsonl) -> None:
    (sample_run / "physician_scores.jsonl").unlink()
    command = ("distill", sample_run, "--out", "data")
    refused(medjudge(*command), "nothing to distil")
    refused(medjudge(*command, "--teacher", "gpt"), "no judgments of it")
    strange = jsonl("other.jsonl", {"question_id": "nobody", "model": "model-a", "rater": "dr-a", "score": 3})
    refused(medjudge(*command, "--physicians", strange), "belongs to no answer: question nobody")
    summary = json.loads(worked(medjudge(*command, "--synthetic", "60", "--json")).stdout)
    assert summary == json.loads((tmp_path / "data" / "summary.json").read_text())
    assert len(lines_of(tmp_path / "data" / "train.jsonl")) == summary["train"]["answers"]
    assert set(summary["train"]["sources"]) == set(summary["validation"]["sources"]) == {"synthetic"}


def test_distill_refuses_one_level_too_few_lines_and_wrong_weights(medjudge, sample_run, tmp_path) -> None:
    for weight in ("teacher", "teacher=0", "gpt=1", "teacher=nan"):
        refused(medjudge("distill", sample_run, "--out", "data", "--weight", weight), f"--weight {weight}", "above 0")
    scores = read_records(sample_run / "physician_scores.jsonl", PhysicianScore)
    write_records(sample_run / "physician_scores.jsonl", [score.model_copy(update={"score": 4}) for score in scores])
    refused(medjudge("distill", sample_run, "--out", "data"), "have level 4", "--synthetic")
    write_records(sample_run / "physician_scores.jsonl", [score for score in scores if score.model == "model-a"][:6])
    refused(medjudge("distill", sample_run, "--out", "data"), "fewer than a batch")
    assert not (tmp_path / "data").exists()


def test_distill_refuses_two_answers_of_one_name_and_too_few_conversations(medjudge, jsonl, tmp_path) -> None:
    for name, text in (("a", "four"), ("b", "ten")):
        (tmp_path / name).mkdir()
        jsonl(f"{name}/questions.jsonl", SAMPLE_QUESTION)
        jsonl(f"{name}/physician_scores.jsonl", {"question_id": "q1", "model": "m", "rater": name, "score": 4})
        jsonl(f"{name}/answers.jsonl", {"question_id": "q1", "model": "m", "text": text})
    refused(medjudge("distill", "a", "b", "--out", "data"), "the answer of m to q1 differs from that of another run")
    refused(medjudge("distill", "a", "--out", "data"), "1 scored conversations are too few")
    assert not (tmp_path / "data").exists()


@pytest.mark.slow
def test_a_local_judge_teaches_only_where_it_is_named(medjudge, sample_run) -> None:
    assert medjudge("eval", "--judge", "similarity", "--limit", "12").returncode == 0
    refused(medjudge("distill", "runs/sample", "--out", "data"), "nothing to distil")
    done = medjudge("distill", "runs/sample", "--out", "data", "--teacher", "similarity", "--json")
    assert json.loads(done.stdout)["train"]["sources"] == {"teacher": json.loads(done.stdout)["train"]["answers"]}
