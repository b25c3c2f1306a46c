"""Training that goes on from another judge."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from recipe_runs import changed, refused, write_lines
from safetensors.torch import load_file, save_file
from tiny_models import build_generative_judge
from train_judge import main as train_judge

from medjudge.distill.training_set import people_last
from medjudge.files import file_sha256
from medjudge.judge.folder import read_card
from medjudge.train.arguments import parse_arguments
from medjudge.train.features import question_ids, read_training_lines


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_judge_goes_on_from_another_one(kind, recipe, tiny_lm, tiny_encoder, training_files, tmp_path) -> None:
    """Trained no further (learning rate 0), it has the other's adapter and head, whatever LoRA shape is asked for."""
    base = tiny_encoder if kind == "ordinal" else tiny_lm
    first = train_judge(*parse_arguments(recipe(kind, base)))
    other = tmp_path / "other.jsonl"
    other.write_text(training_files[0].read_text())
    changed(other, lambda _, line: line["question"].update(id=f"other-{line['question']['id']}"))
    options = {"start_from": first, "learning_rate": 0.0, "lora_r": 7, "upper_layers": 1}
    arguments = recipe(kind, base, **options, output_dir=tmp_path / "second", train_file=other)
    place = arguments.index("--model_name_or_path")
    second = train_judge(*parse_arguments([*arguments[:place], *arguments[place + 2 :]]))
    for path in first.glob("*.safetensors"):
        tensors, two = load_file(path), load_file(second / path.name)
        assert tensors.keys() == two.keys()
        assert all(torch.equal(tensors[name], two[name]) for name in tensors)
    before, after = read_card(first), read_card(second)
    ids = before.trained_on.question_ids
    assert after.trained_on.question_ids == sorted([*ids, *(f"other-{name}" for name in ids)])
    assert after.trained_on.files == {**before.trained_on.files, "other.jsonl": file_sha256(other)}
    assert (after.base_model, after.training["lora_r"]) == (str(base), 4)
    assert f"continued from `{first}`" in (second / "README.md").read_text()


@pytest.mark.slow
def test_people_last_goes_on_from_the_judge_that_learned_from_the_teacher(
    recipe, tiny_encoder, training_files, tmp_path
) -> None:
    changed(training_files[0], lambda number, line: line.update(source="teacher" if number % 2 else "physician"))
    lines = read_training_lines(training_files[0])
    stages, folders = people_last(lines, seed=0), []
    for name, part in zip(("teacher-first", "people-last"), stages[:2], strict=True):
        write_lines(tmp_path / f"{name}.jsonl", part)
        options = {"train_file": tmp_path / f"{name}.jsonl", "output_dir": tmp_path / name}
        if folders:
            options |= {"start_from": folders[0], "learning_rate": 1e-3}
        folders.append(train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, **options))))
    first, last = [read_card(folder) for folder in folders]
    assert (first.training["sources"], last.training["sources"]) == (["teacher"], ["physician", "teacher"])
    assert last.training["started_from"] == str(folders[0])
    assert set(last.trained_on.question_ids) == question_ids(lines)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _without_rank(path: Path) -> None:
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "r"}))


def _few_tensors(path: Path) -> None:
    save_file(dict(list(load_file(path).items())[:1]), path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_damaged_judge_is_no_start(kind, recipe, tiny_encoder, tiny_lm, tmp_path, capsys) -> None:
    base = tiny_encoder if kind == "ordinal" else tiny_lm
    first = train_judge(*parse_arguments(recipe(kind, base, max_steps=1, eval_strategy="no", save_strategy="no")))
    options = {"start_from": first, "output_dir": tmp_path / "second"}
    damages: list[tuple[str, Callable[[Path], None], str]] = [
        ("adapter_config.json", _cut, "adapter_config.json: not valid JSON"),
        ("adapter_config.json", lambda path: path.write_text("[]"), "adapter_config.json: Input should be an object"),
        ("adapter_config.json", _without_rank, "adapter_config.json: r: Field required"),
        ("adapter_model.safetensors", _cut, "adapter_model.safetensors: Error while deserializing"),
        ("adapter_model.safetensors", _few_tensors, "does not hold the tensors"),
    ]
    if kind == "ordinal":
        damages += [("head.safetensors", _cut, "are corrupt"), ("head.safetensors", _few_tensors, "are corrupt")]
        damages += [("head.safetensors", Path.unlink, "head.safetensors is missing")]
    for name, damage, message in damages:
        whole = (first / name).read_bytes()
        damage(first / name)
        assert refused(recipe(kind, base, **options), capsys, message)
        (first / name).write_bytes(whole)
    assert not (tmp_path / "second").exists()


@pytest.mark.slow
def test_files_of_one_name_are_both_recorded(recipe, tiny_encoder, training_files, tmp_path) -> None:
    first = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    hashes = [file_sha256(path) for path in training_files]
    changed(training_files[0], lambda _, line: line.update(weight=0.5))
    arguments = recipe("ordinal", tiny_encoder, start_from=first, output_dir=tmp_path / "second")
    assert read_card(train_judge(*parse_arguments(arguments))).trained_on.files == {
        "ordinal/train.jsonl": hashes[0],
        "train.jsonl": file_sha256(training_files[0]),
        "validation.jsonl": hashes[1],
    }


@pytest.mark.slow
def test_the_judge_of_the_package_is_a_start_by_its_name(recipe, tiny_encoder, tmp_path, monkeypatch) -> None:
    first = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    monkeypatch.setattr("medjudge.train.arguments.built_in_folder", lambda: first)
    options = {"start_from": "built-in", "learning_rate": 0.0, "output_dir": tmp_path / "second"}
    second = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, **options)))
    assert read_card(second).training["started_from"] == "built-in"
    before, after = load_file(first / "head.safetensors"), load_file(second / "head.safetensors")
    assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.slow
def test_a_judge_of_another_kind_or_base_is_no_start(recipe, tiny_encoder, tiny_lm, tmp_path, capsys) -> None:
    first = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    options = {"start_from": first, "output_dir": tmp_path / "second"}
    assert refused(recipe("generative", tiny_lm, **options), capsys, "a judge of kind ordinal, and kind is generative")
    assert refused(recipe("ordinal", tiny_lm, **options), capsys, f"its base model is {tiny_encoder}, and")
    judge = build_generative_judge(tmp_path / "score-first", tiny_lm)
    arguments = recipe("generative", tiny_lm, start_from=judge, style="brief", output_dir=tmp_path / "second")
    assert refused(arguments, capsys, "trained in style score-first; set style score-first")
    assert not (tmp_path / "second").exists()
