"""`medjudge validate` as a user calls it: formats, teacher, probes, folds, gate, and where its result is seen."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import yaml
from calls import change_json, refused, refused_with, worked
from openpyxl import Workbook

from medjudge.errors import InputError
from medjudge.records import Judgment, PhysicianScore
from medjudge.scale import median_level
from medjudge.store import Run, read_records, write_records
from medjudge.workflows.physician_scores import defer

EASY_GATE = """
usable_agreement: {MK: 0.01, MLU: 0.01, MR: 0.01, MSE: 0.01, MTG: 0.01}
cohen_kappa: -0.99
teacher_margin: 0.99
probe_flips: 0.99
minimum_scores: 1
minimum_conversations: 1
"""


@pytest.fixture
def physicians(sample_run: Path) -> Callable[..., Path]:
    """Writes scores of three physicians, each a little off the constructed level, over the sample's own."""

    def write(questions: int = 56) -> Path:
        file = sample_run / "physician_scores.jsonl"
        levels = read_records(file, PhysicianScore)
        scores = []
        for place, score in enumerate(levels[: 5 * questions]):
            for number, name in enumerate("abc"):
                off = (place + number) % 3 - 1 if place % 4 == number else 0
                level = max(1, min(5, score.level + off))
                scores.append(PhysicianScore(**score.answer_key._asdict(), rater=f"dr-{name}", score=level))
        write_records(file, scores)
        return file

    return write


@pytest.fixture
def validate(medjudge) -> Callable[..., object]:
    """`medjudge validate` with resamples enough for a test."""
    return lambda *arguments: medjudge("validate", *arguments, "--resamples", 300)


def with_teacher(run: Path) -> None:
    """The same judgments once more, as those of a teacher."""
    text = Run(run).judgments_file("mine").read_text().replace('"judge":"mine"', '"judge":"gpt"')
    Run(run).judgments_file("gpt").write_text(text)


def test_refuses_what_the_judge_was_trained_on(validate, sample_run) -> None:
    refused(validate(sample_run, "--judge", "similarity"), "trained or tuned on 56 of these 56 questions")


@pytest.mark.slow
def test_constructed_levels_fail_a_weak_judge_and_are_called_that(medjudge, validate, sample_run, judge_folder) -> None:
    done = validate(sample_run, "--judge", judge_folder, "--json")
    assert done.returncode == 1, done.stderr
    study = json.loads(done.stdout)
    assert set(study) >= {"judge", "against", "n", "coverage", "overall", "by_category", "gate"}
    assert (study["n"], study["coverage"], study["against"]) == (280, 1.0, "constructed levels")
    for part in (study["overall"], *study["by_category"].values()):
        for measure in ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman", "mae", "bias", "gwet_ac1"):
            assert part[measure]["low"] <= part[measure]["value"] <= part[measure]["high"]
    assert study["gate"]["passed"] is False
    assert json.loads((sample_run / "agreement" / "mine.json").read_text()) == study
    assert json.loads((judge_folder / "judge.json").read_text())["validated_on"][0]["n"] == 280
    assert "| constructed levels | physician_scores.jsonl | 280 |" in (judge_folder / "README.md").read_text()
    # The card says so wherever the judge is used; constructed levels validate nothing.
    printed = medjudge("eval", "--judge", judge_folder).stdout
    assert "judge mine: never validated against physicians; compared with constructed levels only" in printed


def test_another_judge_can_stand_in_the_physicians_place(validate, sample_run, judge_folder) -> None:
    assert validate(sample_run, "--judge", judge_folder).returncode == 1
    own = (sample_run / "agreement" / "mine.json").read_text()
    with_teacher(sample_run)
    against = validate(sample_run, "--judge", "mine", "--against", "gpt", "--json")
    assert json.loads(against.stdout)["overall"]["usable_agreement"]["value"] == 1.0
    assert (sample_run / "agreement" / "mine.json").read_text() == own
    refused(validate(sample_run, "--judge", "mine", "--against", "nobody"), "no such judge", "gpt, mine")


def test_the_gate_decides_what_eval_and_report_say(
    medjudge, validate, sample_run, judge_folder, physicians, tmp_path
) -> None:
    physicians()
    usual = validate(sample_run, "--judge", judge_folder)
    assert (usual.returncode, "GATE FAILED" in usual.stdout) == (1, True)
    seen = medjudge("eval", "--judge", judge_folder, "--run", "other")
    assert "judge mine: gate failed" in seen.stdout
    # Physicians who see it as the judge does, but for every ninth answer, and one of them every seventh.
    agreeing = []
    for place, judgment in enumerate(Run(sample_run).judgments("mine")):
        for name in "abc":
            apart = place % 9 == 0 or (name == "c" and place % 7 == 0)
            level = 6 - judgment.score if apart else judgment.score
            agreeing.append(PhysicianScore(**judgment.answer_key._asdict(), rater=f"dr-{name}", score=level))
    write_records(sample_run / "physician_scores.jsonl", agreeing)
    with_teacher(sample_run)
    (tmp_path / "easy.yaml").write_text(EASY_GATE)
    options = ("--judge", judge_folder, "--teacher", "gpt", "--probes", "--probe-answers", 30)
    done = validate(sample_run, *options, "--gate", "easy.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "GATE PASSED" in done.stdout
    assert "alternative annotator test" in done.stdout
    assert "minus teacher gpt: +0.0 points" in done.stdout
    study = json.loads((sample_run / "agreement" / "mine.json").read_text())
    assert study["raters"] == ["dr-a", "dr-b", "dr-c"]
    assert study["physicians"]["answers"] == 280
    assert study["teacher"]["non_inferiority"] == {"margin": 0.99, "shown": True}
    card = json.loads((judge_folder / "judge.json").read_text())
    assert [entry["gate"]["passed"] for entry in card["validated_on"]] == [False, True]
    assert card["validated_on"][1]["models"] == study["models"] == {f"model-{letter}": 56 for letter in "abcde"}
    readme = (judge_folder / "README.md").read_text()
    assert "Validation status: gate passed" in readme
    assert "| Cohen's kappa | -0.99 |" in readme
    assert "- Weak: calls" in readme
    seen = medjudge("eval", "--judge", judge_folder, "--run", "third")
    assert "judge mine: gate passed" in seen.stdout
    assert "gate passed" in medjudge("report", "third").stdout
    assert "gate passed" in (tmp_path / "third" / "report.html").read_text()
    # It counts only for the answering models and the judge that it was made with.
    answer = Run(sample_run).answers()[0].model_copy(update={"model": "newcomer"})
    write_records(tmp_path / "new.jsonl", [answer])
    new = ("eval", "--judge", judge_folder, "--answers", "new.jsonl", "--answered-only", "--run", "fourth")
    stale = "stale: not validated on answers of newcomer; run `medjudge validate fourth --judge mine "
    assert stale in worked(medjudge(*new)).stdout
    status = json.loads((tmp_path / "fourth" / "scores.json").read_text())["validation_status"]["OP"]
    assert status["state"] == "stale"
    change_json(judge_folder / "judge.json", temperature=2.0)
    changed = medjudge("eval", "--judge", judge_folder, "--run", "fifth").stderr
    assert "stale: validated with other files of this judge; run `medjudge validate fifth" in changed


@pytest.mark.slow
def test_probes_are_kept_and_not_judged_again(validate, sample_run, judge_folder, physicians) -> None:
    physicians()
    options = ("--judge", judge_folder, "--probes", "--probe-answers", 8, "--json")
    first = json.loads(validate(sample_run, *options).stdout)["probes"]
    assert first["answers"] == 8
    assert set(first["effects"]) >= {"filler", "instruction", "authority", "doubled", "only-yes", "only-praise"}
    changed = Run(sample_run / "probes" / "doubled")
    original = {answer.key: answer.text for answer in Run(sample_run).answers()}
    assert all(answer.text.count(original[answer.key].strip()) == 2 for answer in changed.answers())
    lines = changed.judgments_file("mine").read_text()
    assert "flips by probes outside the gate: prepended-verdict" in validate(sample_run, *options[:-1]).stdout
    assert json.loads((sample_run / "agreement" / "mine.json").read_text())["probes"] == first
    assert changed.judgments_file("mine").read_text() == lines


def test_scores_from_a_workbook_with_a_column_a_rater_and_labels(validate, sample_run, judge_folder, tmp_path) -> None:
    scores = read_records(sample_run / "physician_scores.jsonl", PhysicianScore)
    sheet = (book := Workbook()).active
    sheet.append(["question_id", "model", "dr_a", "dr_b"])
    for place, score in enumerate(scores[:40]):
        sheet.append([score.question_id, score.model, score.level, "good" if place % 2 else None])
    book.save(tmp_path / "scores.xlsx")
    command = (sample_run, "--judge", judge_folder, "--physicians", "scores.xlsx")
    done = validate(*command, "--rater-columns", "dr_a, dr_b", "--label-map", "good=5", "--json")
    study = json.loads(done.stdout)
    assert (study["n"], study["against"], study["file"]) == (40, "physicians", "scores.xlsx")
    assert study["physicians"]["answers"] == 20
    refused_with(validate(*command, "--rater-columns", "dr_a,dr_b"), "row 3", "good")
    refused(validate(*command, "--rater-columns", "dr_a,dr_c"), "dr_c")


def test_eval_hands_the_most_uncertain_answers_to_physicians(medjudge, judge_folder, tmp_path) -> None:
    done = worked(medjudge("eval", "--judge", judge_folder, "--run", "run", "--defer-to-physicians", "0.1"))
    lines = [json.loads(line) for line in (tmp_path / "run" / "for_physicians.jsonl").read_text().splitlines()]
    assert len(lines) == 28
    assert "28 answers for physicians to look at, by nearness of P(usable)" in done.stdout
    refused(
        medjudge("eval", "--judge", "openai:gpt-4o", "--defer-to-physicians", "0.1", OPENAI_API_KEY="k"),
        "gives no probabilities",
    )
    run = Run(tmp_path / "run")
    # The list becomes the forms of a physician, and nothing else does.
    export = ("annotate", "export", "run", "--rater", "dr-a", "--which", "deferred")
    assert "28 answers, each to 1 of 1 raters" in medjudge(*export).stdout
    items = json.loads((run.path / "annotation" / "plan.json").read_text())["items"]
    places = [{(one["question_id"], one["model"], one["sample"]) for one in listed} for listed in (items, lines)]
    assert places[0] == places[1]
    run.deferred_file.write_text("".join(json.dumps(line) + "\n" for line in lines[::-1]))
    refused(medjudge(*export), "changed since the plan was made", "--new-plan")
    key = {name: lines[0][name] for name in ("question_id", "model", "sample")}
    write_records(run.physicians_file, [PhysicianScore(**key, rater="dr", score=4)])
    assert "no random sample" in medjudge(*export, "--new-plan", "--out", "more").stdout
    assert len(json.loads((run.path / "annotation" / "plan.json").read_text())["items"]) == 27
    noted = medjudge("validate", "run", "--judge", judge_folder, "--resamples", 100).stderr
    assert "not a random sample" in noted


def test_unscored_answers_are_listed_first_and_those_that_physicians_scored_are_not(sample_run) -> None:
    run = Run(sample_run)
    keys = [answer.key for answer in run.answers()][:5]
    write_records(run.answers_file, run.answers()[:5])
    write_records(run.physicians_file, [PhysicianScore(**keys[0]._asdict(), rater="dr", score=4)])
    shares = {0: [0, 0, 0.5, 0.5, 0], 1: [0, 0, 0, 0.1, 0.9], 2: [0.3, 0, 0, 0.7, 0], 3: [0.7, 0, 0, 0.3, 0]}
    judged = [
        Judgment(**keys[place]._asdict(), judge="j", score=median_level(np.array(row)), probabilities=row)
        for place, row in shares.items()
    ]
    write_records(run.judgments_file("j"), judged)
    deferred = defer(run, "j", 1)
    listed = [json.loads(line) for line in run.deferred_file.read_text().splitlines()]
    assert [line["model"] for line in listed] == [keys[place].model for place in (4, 2, 3, 1)]
    assert [line["usable_probability"] for line in listed] == [None, 0.7, 0.3, 1.0]
    assert (deferred.answers, deferred.by.endswith("1 that physicians scored already are not among them")) == (4, True)
    assert [defer(run, "j", share).answers for share in (0, 0.25, 0.26)] == [0, 1, 2]
    write_records(run.judgments_file("j"), [judged[0].model_copy(update={"probabilities": None})])
    with pytest.raises(InputError, match="judge j gives no probabilities"):
        defer(run, "j", 1)


@pytest.mark.slow
def test_folds_that_never_saw_a_category_are_trained_and_compared(
    medjudge, validate, sample_run, judge_folder, tiny_encoder, tmp_path
) -> None:
    """The price of an unseen category, with a judge of two layers."""
    questions = Run(sample_run).questions()
    groups = sorted({question.group for question in questions if question.category in ("MK", "MR")})
    scores = read_records(sample_run / "physician_scores.jsonl", PhysicianScore)
    # Half of the conversations of two categories are scored by physicians; the rest teaches.
    asked = {question.id for question in questions if question.group in groups[::2]}
    shutil.copytree(sample_run, tmp_path / "all")
    folder = tmp_path / "teaching"
    shutil.copytree(sample_run, folder)
    write_records(folder / "physician_scores.jsonl", [score for score in scores if score.question_id not in asked])
    write_records(sample_run / "physician_scores.jsonl", [score for score in scores if score.question_id in asked])
    assert medjudge("distill", folder, "--out", "data").returncode == 0
    options = {
        **{"kind": "ordinal", "model_name_or_path": str(tiny_encoder), "lora_r": 4, "gradient_checkpointing": False},
        **dict.fromkeys(("output_dir", "train_file", "validation_file"), "unused"),
        **{"max_length": 64, "max_steps": 2, "per_device_train_batch_size": 4},
        **dict.fromkeys(("eval_strategy", "save_strategy"), "no"),
    }
    (tmp_path / "tiny.yaml").write_text(yaml.safe_dump(options))
    command = (sample_run, "--judge", judge_folder, "--leave-out", "category", "--device", "cpu", "--json")
    refused(validate(*command), "--config", "--training-set")
    assert medjudge("distill", tmp_path / "all", "--out", "leaky").returncode == 0
    leaky = validate(*command, "--config", "tiny.yaml", "--training-set", "leaky")
    assert leaky.returncode == 2
    assert "leaky: was trained or tuned on" in leaky.stderr
    assert "fold" not in leaky.stderr  # before anything is trained
    done = validate(*command, "--config", "tiny.yaml", "--training-set", "data")
    assert done.returncode == 1, done.stderr
    result = json.loads(done.stdout)["leave_out"]
    assert (result["by"], result["config"]) == ("category", "tiny.yaml")
    assert [row["left_out"] for row in result["rows"]] == ["MK", "MR", None]
    assert result["rows"][0]["removed"] > 0
    assert result["rows"][2]["n"] == sum(row["n"] for row in result["rows"][:2])
    assert not [name for name in Run(sample_run).judges() if "without" in name]


@pytest.mark.slow
def test_ids_that_match_nothing_are_named(validate, sample_run, judge_folder, physicians) -> None:
    file = physicians(questions=20)
    scores = read_records(file, PhysicianScore)
    write_records(file, [*scores, scores[0].model_copy(update={"model": "model-A"})])
    done = validate(sample_run, "--judge", judge_folder)
    assert "1 scores belong to no answer" in done.stderr
    assert "model-A" in done.stderr
    assert "coverage 100.0 %" in done.stdout
    write_records(file, [score.model_copy(update={"model": f"nobody-{score.model}"}) for score in scores])
    (sample_run / "run.json").unlink()
    shutil.rmtree(sample_run / "judgments")
    refused(validate(sample_run, "--judge", judge_folder), "no score belongs to an answer", "nobody")
