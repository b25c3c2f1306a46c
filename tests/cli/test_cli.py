"""The commands as a user or a script calls them: exit codes, one line for errors, one JSON object for scripts."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from calls import SAMPLE_QUESTION, python, refused, worked
from example_study import example_study

from medjudge.judge.folder import folder_identity
from medjudge.judge.open import BUILT_IN, SIMILARITY
from medjudge.records import Judgment
from medjudge.store import Run, read_records, write_records


def test_eval_runs_on_the_sample_offline_and_without_a_key(medjudge, tmp_path) -> None:
    """The built-in judge scores the sample's English and its Chinese, and says of each point whether it is met."""
    (tmp_path / "ids.txt").write_text("MK-en-01\nMK-zh-01\nMSE-en-01\n")
    done = worked(medjudge("eval", "--judge", "local", "--json", "--offline", "--ids", "ids.txt"))
    scores = json.loads(done.stdout)
    assert set(scores["models"]) == {f"model-{letter}" for letter in "abcde"}
    rate = scores["models"]["model-a"]["OP"]
    assert set(rate) == {"rate", "low", "high", "usable", "questions", "unscored", "not_answered"}
    assert (rate["questions"], rate["unscored"]) == (3, 0)
    assert json.loads((tmp_path / "runs" / "sample" / "scores.json").read_text()) == scores
    manifest = json.loads((tmp_path / "runs" / "sample" / "run.json").read_text())
    assert manifest["benchmark"]["questions"] == 3
    assert len(manifest["benchmark"]["sha256"]) == 64
    assert manifest["judges"]["built-in"]["judgments"] == 15
    judgments = read_records(tmp_path / "runs" / "sample" / "judgments" / "built-in.jsonl", Judgment)
    assert all(judgment.score is not None and judgment.points for judgment in judgments)
    assert sum("-zh-" in judgment.question_id for judgment in judgments) == 5
    assert "No physician" in done.stderr
    before = (tmp_path / "runs" / "sample" / "judgments" / "built-in.jsonl").read_bytes()
    again = worked(medjudge("eval", "runs/sample", "--judge", "local"))
    assert (tmp_path / "runs" / "sample" / "judgments" / "built-in.jsonl").read_bytes() == before
    assert "never validated" in again.stdout
    assert "next: medjudge report runs/sample" in again.stdout
    assert set(re.findall(r"\b(?:OP|M[A-Z]+)\b", again.stdout)) == {"OP", "MK", "MLU", "MR", "MSE", "MTG"}
    refused(medjudge("eval", "runs/sample", "--run", "other"), "name one run folder")
    refused(medjudge("eval", "runs/sample", "--limit", "1"), "holds other questions")
    refused(medjudge("report", "runs/sample", "--judge", "nobody"), "built-in")
    refused(medjudge("report", "none"), "not a run folder")
    launched = medjudge("eval", "--judge", "similarity", "--run", "other", WORLD_SIZE="2", LOCAL_RANK="1")
    refused(launched, "accelerate launch", "--engine ray")
    assert not (tmp_path / "other").exists()


def test_unscored_answers_and_missing_ones_end_in_exit_1_and_are_counted(medjudge, jsonl) -> None:
    questions = jsonl(
        "questions.jsonl",
        SAMPLE_QUESTION,
        {**SAMPLE_QUESTION, "id": "q2", "group": "q2", "reference": None},
        {**SAMPLE_QUESTION, "id": "q3", "group": "q3"},
    )
    answers = jsonl("answers.jsonl", *[{"question_id": name, "model": "m", "text": "4 g"} for name in ("q1", "q2")])
    done = medjudge("eval", "--benchmark", questions, "--answers", answers, "--judge", "similarity", "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["models"]["m"]["OP"]["unscored"] == 1
    assert "2 answers judged, 1 unscored (1 no reference to compare with)" in done.stderr
    assert "3 questions: 1 not answered by any model, 1 answered and without any score" in done.stderr


def test_an_interrupted_run_goes_on_and_judges_nothing_twice(medjudge, jsonl, tmp_path) -> None:
    questions = jsonl("questions.jsonl", SAMPLE_QUESTION)
    files = [jsonl(f"{model}.jsonl", {"question_id": "q1", "model": model, "text": "4 g"}) for model in "abc"]
    answers = [word for file in files for word in ("--answers", file)]
    command = ("eval", "--benchmark", questions, *answers, "--judge", "similarity", "--run", "run")
    worked(medjudge(*command))
    refused(medjudge(*command, "--answers", files[0]), "a.jsonl", "the answer to q1 by a is in another")
    file = tmp_path / "run" / "judgments" / "similarity.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    assert "2 judgments of similarity exist; 1 to go" in worked(medjudge(*command)).stderr
    assert [judgment.model for judgment in read_records(file, Judgment)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("eval --benchmark none.json", ["none.json", "no such file"]),
        ("eval --benchmark none.txt", ["none.txt", "dataset.json"]),
        ("eval --answers none.jsonl", ["none.jsonl", "no such file"]),
        ("eval --judge no/such/judge", ["no/such/judge", "no such folder"]),
        ("eval --judge openai:gpt-4o", ["OPENAI_API_KEY", "--judge local"]),
        ("eval --judge openai:gpt-4o --offline", ["--offline forbids it"]),
        ("eval --judge openai:", ["no model is named"]),
        ("eval --judge gpt-4o", ["no such folder", "openai:gpt-4o"]),
        ("eval --limit 1 --limit 2", ["--limit", "is given 2 times, and takes one value"]),
        ("eval none", ["none: is no run folder", "--run FOLDER"]),
        ("eval --device cuda", ["no GPU", "--device cpu"]),
        ("eval --device tpu", ["tpu", "auto, cpu or cuda"]),
        ("eval --model a --answers occupied", ["--model and --answers"]),
        ("eval --model nobody/nothing --limit 1", ["nobody/nothing", "hf download"]),
        ("eval --run occupied", ["occupied", "check the path"]),
        ("eval --samples 0", ["--samples", "--help"]),
        ("eval --nope", ["--nope", "--help"]),
        ("distill x", ["--out", "--help"]),
        ("nope", ["nope", "--help"]),
        ("train --learning_rate 1e-4 --learning_rate 1e-5", ["--learning_rate: is given 2 times"]),
    ],
)
def test_a_wrong_command_line_is_one_line_and_exit_2(medjudge, line, parts, tmp_path) -> None:
    (tmp_path / "occupied").write_text("a file where a folder is wanted")
    refused(medjudge(*line.split(), CUDA_VISIBLE_DEVICES=""), *parts)
    assert [path.name for path in tmp_path.iterdir()] == ["occupied"]


def test_a_missing_file_is_named_before_the_libraries_of_models_are_loaded() -> None:
    code = (
        "import sys; sys.argv = ['medjudge', *sys.argv[1:]]\n"
        "from medjudge.cli.main import main\n"
        "try: main()\n"
        "finally: assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    for words in (["eval", "--benchmark"], ["eval", "--answers"], ["answer", "--model", "m", "--ids"], ["validate"]):
        refused(python("-c", code, *words, "none.jsonl"), "none.jsonl")


@pytest.mark.slow
def test_what_is_answered_and_judged_loads_no_model(medjudge, tiny_lm, monkeypatch) -> None:
    asked = ("eval", "--model", tiny_lm, "--limit", "1", "--samples", "1", "--max-new-tokens", "3")
    first = medjudge(*asked, "--judge", "similarity", "--json")
    assert first.returncode in (0, 1), first.stderr
    monkeypatch.setattr("medjudge.workflows.answer.TransformersEngine", None)
    monkeypatch.setattr("medjudge.judge.open.load_judge", None)
    assert medjudge(*asked, "--judge", "similarity", "--json").stdout == first.stdout


@pytest.mark.parametrize(
    ("card", "part"),
    [
        (None, "no judge.json"),
        ("{", "train the judge again"),
        ('{"kind": "ordinal", "base_model": "x", "max_length": 64}', "adapter_config.json is missing"),
        ('{"kind": "oracle", "base_model": "x", "max_length": 64}', "kind"),
    ],
)
def test_a_broken_judge_folder_is_named(medjudge, judge_folder, card, part) -> None:
    (judge_folder / "judge.json").unlink()
    if card is not None:
        (judge_folder / "judge.json").write_text(card)
    refused(medjudge("eval", "--judge", judge_folder), str(judge_folder), part)


def test_local_is_the_variable_then_the_newest_validated_judge_then_the_built_in(medjudge, tmp_path) -> None:
    from medjudge.judge.open import QUICKSTART_MARK, resolve_judge
    from medjudge.judge.study_summary import AgainstKind, GateResult

    def judge_of(**environment: str) -> str:
        done = worked(medjudge("doctor", "--json", **environment))
        return json.loads(done.stdout)["local_judge"]["name"]

    def add(
        name: str, age: int, passed: bool | None, against: AgainstKind = AgainstKind.PHYSICIANS, changed: bool = False
    ) -> None:
        folder = tmp_path / "judges" / name
        shutil.copytree(SIMILARITY, folder)
        card = resolve_judge(str(folder)).card
        assert card is not None
        study = example_study(
            against_kind=against,
            judge_sha256="0" * 64 if changed else folder_identity(folder, card),
            gate=GateResult(passed=passed, usual=True, checks=[]),
        )
        card.model_copy(update={"validated_on": [study.summary()]}).write(folder)
        os.utime(folder / "judge.json", (1_000_000 + age, 1_000_000 + age))

    shutil.copytree(SIMILARITY, tmp_path / "judges" / "never-validated")
    assert judge_of() == "built-in"
    add("failed", 9, False)
    add("against-another-judge", 8, True, AgainstKind.JUDGE)
    add("changed-since", 7, True, changed=True)
    add("quickstart", 6, True)
    (tmp_path / "judges" / "quickstart" / QUICKSTART_MARK).touch()
    (tmp_path / "judges" / "half-trained").mkdir()
    (tmp_path / "judges" / "broken").mkdir()
    (tmp_path / "judges" / "broken" / "judge.json").write_text("{")
    assert judge_of() == "built-in"
    add("older", 1, True)
    add("newer", 2, None)
    assert judge_of() == "newer"
    assert judge_of(MEDJUDGE_JUDGE=str(tmp_path / "judges" / "older")) == "older"
    (tmp_path / "judges" / "quickstart" / QUICKSTART_MARK).unlink()
    assert judge_of() == "quickstart"  # only the mark kept it back


@pytest.mark.slow
def test_the_first_line_of_an_eval_names_the_judge_its_training_and_its_status(medjudge, tmp_path) -> None:
    done = medjudge("eval", "--judge", "local", "--limit", 1)
    card = json.loads((BUILT_IN / "judge.json").read_text())
    training = card["training"]
    # Scores of teachers are no physicians', so that a reader must see both.
    assert set(training["sources"]) >= {"physician", "teacher"}
    assert done.stderr.splitlines()[0] == (
        f"judge built-in ({BUILT_IN}): ordinal, on google/gemma-3-270m, "
        f"trained on {training['answers']} answers to {len(card['trained_on']['question_ids'])} questions; "
        f"sources of its training data: {', '.join(training['sources'])}; never validated against physicians"
    )


def test_data_check_counts_and_lists(medjudge, sample_run, jsonl) -> None:
    done = medjudge("data", "check", sample_run / "questions.jsonl", "--json")
    counts = json.loads(done.stdout)
    assert (counts["questions"], counts["conversations"], counts["oddities"]) == (56, 48, [])
    assert "levels: {'1': 56" in medjudge("data", "check", sample_run / "physician_scores.jsonl").stdout
    refused(
        medjudge("data", "check", jsonl("q.jsonl", SAMPLE_QUESTION, {**SAMPLE_QUESTION, "category": "X"})), "line 2"
    )
    refused(medjudge("data", "check", jsonl("q.jsonl", {"a": 1})), "no field tells what this is")


def test_data_check_groups_oddities_lists_all_and_says_what_they_mean_for_judging(medjudge, jsonl) -> None:
    line = {"category": "MK", "prompt": "How much?", "language": "en"}
    lines = [{**line, "id": f"q{number}"} for number in range(30)]
    file = jsonl("q.jsonl", *lines, {**line, "id": "q30", "round": 2, "reference": "4 g"})
    shown = medjudge("data", "check", file).stdout
    assert (shown.count("neither reference"), shown.count(str(file))) == (1, 1)
    assert shown.splitlines()[-3:] == [
        "31 oddities; the file can be used",
        "  30: these are judged by the question alone; a similarity judge leaves them unscored",
        "  1: these conversations are judged without the missing turns",
    ]
    assert medjudge("data", "check", file, "--all").stdout.count("neither reference") == 30


def test_a_model_answers_what_is_missing(medjudge, tiny_lm, tmp_path) -> None:
    command = ("answer", "--model", tiny_lm, "--limit", "3", "--samples", "2", "--max-new-tokens", "5", "--json")
    done = worked(medjudge(*command, "--offline"))
    assert json.loads(done.stdout)["answers"] == 6
    run = Run(tmp_path / "runs" / "sample")
    before = run.answers_file.read_bytes()
    assert medjudge(*command).returncode == 0
    assert run.answers_file.read_bytes() == before
    write_records(run.answers_file, run.answers()[:4])
    assert medjudge(*command).returncode == 0
    assert sorted(run.answers_file.read_bytes().splitlines()) == sorted(before.splitlines())


def test_answers_with_other_settings_or_of_another_model_of_the_name_are_not_mixed_up(
    medjudge, tiny_lm, tmp_path
) -> None:
    shutil.copytree(tiny_lm, other := tmp_path / "elsewhere" / tiny_lm.name)
    small = ("--limit", "1", "--samples", "1", "--max-new-tokens", "3")
    assert medjudge("answer", "--model", tiny_lm, *small).returncode == 0
    for changed, parts in (
        ((tiny_lm, "--temperature", "0"), ("with temperature 0.7, and now it is 0.0", "--run")),
        ((tiny_lm, "--seed", "7"), ("with seed 0, and now it is 7",)),
        ((other,), ("holds answers of tiny-lm with source",)),
    ):
        refused(medjudge("answer", *small, "--model", *changed), *parts)


def test_doctor_names_a_broken_judge_and_goes_on(medjudge, tmp_path) -> None:
    done = worked(medjudge("doctor", "--json", MEDJUDGE_JUDGE=str(tmp_path / "gone")))
    diagnosis = json.loads(done.stdout)
    assert "gone" in diagnosis["local_judge"]["problem"]
    assert (Path(diagnosis["shipped_files"]["recipes"]) / "train_judge.py").is_file()
    assert (Path(diagnosis["shipped_files"]["configs"]) / "judges" / "minilm-ordinal.yaml").is_file()
