"""Folds without a model or a category, trained for real on a tiny model."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from recipe_runs import config_file

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.judge.folder import read_card
from medjudge.records import TrainingLine
from medjudge.train.features import read_training_lines
from medjudge.train.leave_out import TrainedFolds, folds, train_folds


@pytest.fixture
def line(question, answer) -> Callable[..., TrainingLine]:
    """Builds a training line of a model, a category and a level."""

    fixed = {"earlier": [], "probabilities": [0, 0, 0, 0, 1], "source": "physician", "scored_by": ["dr"]}
    return lambda model, category="MK", level=5: TrainingLine(
        question=question(category=category), answer=answer(model=model), level=level, **fixed
    )


@pytest.fixture
def train(training_files: tuple[Path, Path], recipe, tmp_path: Path) -> Callable[..., TrainedFolds]:
    """Trains folds by a config that takes seconds; everything can be given."""
    elsewhere = {"train_file": "not-read.jsonl", "validation_file": "not-read.jsonl", "output_dir": "not-written"}
    steps = {"max_steps": -1, "num_train_epochs": 1, "per_device_train_batch_size": 8, "use_cpu": True}
    # Where a CPU has bfloat16, timing decides whether it is used: two trainings may differ.
    steps |= {"eval_strategy": "epoch", "save_strategy": "epoch", "bf16": False}
    # `resume` belongs to a run of its own, not to a fold.
    config = config_file(tmp_path, recipe("ordinal", **elsewhere, **steps, resume=True))

    def run(values: list[str], by: str = "model", overrides: tuple[str, ...] = ()) -> TrainedFolds:
        return train_folds(config, *training_files, by, values, tmp_path / "folds", overrides)

    return run


def test_a_fold_keeps_the_lines_of_all_others_on_both_sides(line) -> None:
    train = [line("a", level=1), line("b"), line("a", "MR"), line("b", "MR", level=2), line("c")]
    validation = [line("a"), line("b", "MR")]
    assert folds(train, validation, "model", ["a", "c", "d", "a"]) == {
        "a": ([train[1], *train[3:]], validation[1:], 3),
        "c": (train[:4], validation, 1),
        "d": (train, validation, 0),
    }
    assert folds(train, validation, "category", ["MR"])["MR"][:2] == ([*train[:2], train[4]], validation[:1])


def test_folds_that_could_teach_nothing_are_refused(line) -> None:
    both, other = [line("a", level=1), line("b", level=5)], [line("a"), line("b")]
    for train, validation, by, value, message in (
        ([line("a", level=1), line("a")], other, "model", "a", "no training line is left"),
        (both, other, "category", "MK", "no training line is left"),
        ([*both, line("a")], other[1:], "model", "b", "no validation line is left"),
        (both, other, "model", "a", "every line has level 5, which teaches nothing"),
    ):
        with pytest.raises(InputError, match=f"without {by} {value}: {message}"):
            folds(train, validation, by, [value])


@pytest.mark.parametrize(("visible", "first"), [(None, "0"), ("GPU-7,GPU-9", "GPU-7")])
def test_a_fold_sees_one_gpu_of_several_and_a_crash_names_its_log(train, tmp_path, monkeypatch, visible, first) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    program = tmp_path / "python"  # in the place of Python: it says something and fails
    program.write_text('#!/bin/sh\necho "sees $CUDA_VISIBLE_DEVICES"\nexit 3\n')
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    with pytest.raises(RuntimeError, match=r"fold all: training ended with exit status 3; see .*log\.txt"):
        train(["model-a"])
    assert (tmp_path / "folds" / "small-all" / "training" / "log.txt").read_text() == f"sees {first}\n"


def test_models_that_would_share_a_folder_are_refused(training_files, train) -> None:
    for file in training_files:
        file.write_text(file.read_text().replace('"model-a"', '"org/x"').replace('"model-b"', '"org--x"'))
    with pytest.raises(InputError, match="rename one"):
        train(["org/x", "org--x"])


@pytest.mark.slow
def test_what_the_recipe_refuses_is_one_line_with_the_fold(train) -> None:
    with pytest.raises(InputError) as caught:
        train(["model-a"], overrides=("--lora_r", "0"))
    assert str(caught.value) == "fold all: config: lora_r is 0; take 1 or more"


@pytest.mark.slow
def test_folds_never_saw_what_they_leave_out(train, training_files, tmp_path, capfd, monkeypatch) -> None:
    trained = train(["model-a", "nobody"])
    without = trained.without["model-a"]
    assert [folder.name for folder in (trained.everything, without)] == ["small-all", "small-without-model-a"]
    assert trained.without["nobody"] == trained.everything
    output = capfd.readouterr()
    assert "model nobody: no training line has it" in output.err
    assert output.out == ""

    # Its card, and the files that the card names by their sha256, know nothing of the model.
    card = read_card(without)
    lines = [read_training_lines(file) for file in training_files]
    for file, before in zip(training_files, lines, strict=True):
        kept = without / "training" / file.name
        assert card.trained_on.files[file.name] == file_sha256(kept)
        assert read_training_lines(kept) == [line for line in before if line.answer.model != "model-a"]
    assert read_card(trained.everything).training["answers"] == len(lines[0])
    assert trained.removed == {"model-a": sum(len(line) for line in lines) // 5, "nobody": 0}
    assert not list((tmp_path / "folds").glob("*/checkpoints"))

    # A fold that was cut off starts over and ends where it ended; the finished one stays as it is.
    weights, written = (without / "adapter_model.safetensors").read_bytes(), (trained.everything / "judge.json").stat()
    (without / "judge.json").unlink()
    (without / "adapter_model.safetensors").unlink()
    (without / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    assert train(["model-a", "nobody"]) == trained
    assert (without / "adapter_model.safetensors").read_bytes() == weights
    assert (trained.everything / "judge.json").stat() == written
    assert not (without / "checkpoints").exists()

    # From here on nothing may be trained: all is there, or is there for something else.
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    capfd.readouterr()
    assert train(["model-a"]).without == {"model-a": without}
    assert capfd.readouterr().err.count("trained already") == 2
    with pytest.raises(InputError, match="small-all: holds a judge that was made from another config"):
        train(["model-a"], overrides=("--num_train_epochs", "2"))
