"""The recipe, run for real on tiny models."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from medjudge.base_models import load_encoder
from medjudge.errors import InputError
from medjudge.judge.folder import load_judge, read_card
from medjudge.judge.ordinal import OrdinalJudge, OrdinalModel
from medjudge.judge.protocol import Assignment, assignments
from medjudge.store import Run
from medjudge.train import run as run_module
from medjudge.train.features import read_training_lines
from medjudge.train.ordinal import save_ordinal
from medjudge.train.run import main, parse_arguments, train_judge

REPOSITORY = Path(__file__).parent.parent.parent
CPU = torch.device("cpu")


def launched(arguments: list[str], *launcher: str) -> None:
    """Starts the recipe as the README does."""
    command = [
        sys.executable,
        "-m",
        "accelerate.commands.launch",
        *launcher,
        str(REPOSITORY / "recipes" / "train_judge.py"),
    ]
    done = subprocess.run([*command, *arguments], env=os.environ, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_trained_judge_is_a_folder_that_judges(kind, recipe, tiny_lm, tiny_encoder, sample_run, tmp_path) -> None:
    folder = train_judge(*parse_arguments(recipe(kind, tiny_encoder if kind == "ordinal" else tiny_lm)))
    card = read_card(folder)
    train = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert card.trained_on.question_ids == sorted({line["question"]["id"] for line in train})
    assert set(card.trained_on.files) == {"train.jsonl", "validation.jsonl"}
    assert (card.kind, card.training["seed"], card.training["answers"]) == (kind, 42, len(train))
    assert "Never validated" in (folder / "README.md").read_text()
    run = Run(sample_run)
    judge = load_judge(folder, "tiny", CPU)
    found = list(judge.judge(assignments(run.questions(), run.answers())[:10]))
    assert len(found) == 10
    assert all(one.score in range(1, 6) and one.probabilities for one in found)


def test_the_saved_judge_scores_as_the_trained_model(recipe, tiny_encoder, training_files, monkeypatch) -> None:
    """Adapter and head on disk carry what was trained: the loaded judge gives the trained model's probabilities."""
    kept = []
    monkeypatch.setattr(run_module, "save_ordinal", lambda *given: (kept.append(given[0]), save_ordinal(*given)))
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, max_steps=10)))
    lines = read_training_lines(training_files[1])
    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in lines]
    loaded = load_judge(folder, "tiny", CPU)
    trained = OrdinalJudge("tiny", kept[0].eval(), loaded.tokenizer, loaded.max_length)
    fresh = OrdinalJudge("tiny", OrdinalModel(load_encoder(str(tiny_encoder)), 32).eval(), loaded.tokenizer, 64)
    one, other, untrained = [
        np.array([judgment.probabilities for judgment in judge.judge(work)]) for judge in (loaded, trained, fresh)
    ]
    assert one == pytest.approx(
        other, abs=0.02
    )  # bfloat16: the adapter is merged in one and beside the body in the other
    assert np.abs(one - untrained).max() > 0.1


def test_training_learns_what_the_labels_say(recipe, tiny_encoder, training_files, tmp_path) -> None:
    for path in training_files:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for number, line in enumerate(lines):
            good = number % 2 == 0
            line["answer"]["text"] = ("complete correct safe " if good else "wrong dangerous careless ") * 5
            line["probabilities"] = [0, 0, 0, 0, 1] if good else [1, 0, 0, 0, 0]
            line["level"] = 5 if good else 1
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, max_steps=60, eval_steps=60, save_steps=60)))
    training = read_card(folder).training
    losses = [loss for _, loss in training["loss"]]
    assert sum(losses[-10:]) < 0.2 * sum(losses[:10])
    assert training["validation"]["eval_usable_agreement"] == 1.0


def test_resume_goes_on_from_the_checkpoint_and_ends_where_one_run_ends(recipe, tiny_encoder, tmp_path) -> None:
    def halves(shift: float) -> Path:
        """Trains, takes away what came after the first checkpoint, as a kill would, and resumes from that one."""
        arguments = recipe("ordinal", tiny_encoder, output_dir=tmp_path / f"halves{shift}")
        folder = train_judge(*parse_arguments(arguments))
        (folder / "judge.json").unlink()
        shutil.rmtree(folder / "checkpoints" / "checkpoint-4")
        with pytest.raises(InputError, match="add --resume"):
            train_judge(*parse_arguments(arguments))
        first = folder / "checkpoints" / "checkpoint-2" / "model.safetensors"
        tensors = load_file(first)
        save_file({**tensors, "first_cut": tensors["first_cut"] + shift}, first)
        return train_judge(*parse_arguments([*arguments, "--resume"]))

    whole = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, output_dir=tmp_path / "whole")))
    resumed, shifted = halves(0.0), halves(3.0)
    for name in ("adapter_model.safetensors", "head.safetensors"):
        one, other = load_file(whole / name), load_file(resumed / name)
        assert all(torch.allclose(one[key], other[key], atol=1e-6) for key in one)
    # And the checkpoint is what it went on from: a change in it is still there at the end.
    cut = [float(load_file(folder / "head.safetensors")["first_cut"]) for folder in (whole, shifted)]
    assert cut[1] - cut[0] == pytest.approx(3.0, abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_accelerate_launch_on_two_cpu_processes(kind, recipe, tiny_lm, tiny_encoder) -> None:
    arguments = recipe(kind, tiny_encoder if kind == "ordinal" else tiny_lm, per_device_train_batch_size=2)
    launched(arguments, "--config_file", str(REPOSITORY / "configs" / "accelerate" / "two-cpu.yaml"))
    card = read_card(Path(arguments[arguments.index("--output_dir") + 1]))
    assert card.training["batch"] == 4  # two processes with two each
    load_judge(Path(arguments[arguments.index("--output_dir") + 1]), "tiny", CPU)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_file": "none.jsonl"}, "none.jsonl: no such file"),
        ({"model_name_or_path": "nobody/nothing"}, "nobody/nothing: cannot be loaded"),
        ({"lora_target_modules": "no_such_layer"}, "lora_target_modules"),
        ({"resume": True}, "--resume: no checkpoint"),
        ({"lora_r": 0}, "lora_r is 0"),
        ({"learning_rate": "fast"}, "learning_rate"),
    ],
)
def test_wrong_input_ends_before_a_judge_is_begun(options, message, recipe, tiny_encoder, tmp_path) -> None:
    with pytest.raises(InputError, match=message):
        train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, **options)))
    assert not (tmp_path / "judges" / "ordinal" / "judge.json").exists()


def test_corrupt_weights_are_named_when_a_judge_is_loaded(recipe, tiny_encoder) -> None:
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    for name in ("head.safetensors", "adapter_model.safetensors"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="files are corrupt") as caught:
            load_judge(folder, "tiny", CPU)
        assert str(folder) in str(caught.value)
        (folder / name).write_bytes(whole)
    for broken in ({}, dict(list(load_file(folder / "adapter_model.safetensors").items())[:3])):
        whole = (folder / "adapter_model.safetensors").read_bytes()
        save_file(broken, folder / "adapter_model.safetensors")
        with pytest.raises(InputError, match="does not hold the tensors"):
            load_judge(folder, "tiny", CPU)
        (folder / "adapter_model.safetensors").write_bytes(whole)
    head = load_file(folder / "head.safetensors")
    save_file({**head, "slope": head["slope"] * float("nan")}, folder / "head.safetensors")
    with pytest.raises(InputError, match="not finite"):
        load_judge(folder, "tiny", CPU)
    (folder / "head.safetensors").unlink()
    with pytest.raises(InputError, match=r"head.safetensors is missing"):
        load_judge(folder, "tiny", CPU)


def test_a_judge_is_never_overwritten(recipe, tiny_encoder) -> None:
    arguments = recipe("ordinal", tiny_encoder)
    train_judge(*parse_arguments(arguments))
    with pytest.raises(InputError, match="holds a judge already"):
        train_judge(*parse_arguments(arguments))


def test_a_generative_judge_needs_a_chat_template(recipe, tiny_encoder) -> None:
    with pytest.raises(InputError, match="no chat template"):
        train_judge(*parse_arguments(recipe("generative", tiny_encoder)))


def test_a_misspelt_option_in_a_config_ends_in_one_line(tmp_path, capsys) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("kind: ordinal\ntrain_file: a\nvalidation_file: b\noutput_dir: c\nlora_rank: 8\n")
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: [ordinal\n")
    for arguments, message in (
        (["--config", str(config)], "lora_rank"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--config", str(broken)], "config:"),
        (["--kind", "ordinal"], "required"),
    ):
        with pytest.raises(SystemExit) as caught:
            main(arguments)
        assert caught.value.code == 2
        said = capsys.readouterr().err.strip()
        assert message in said
        assert "\n" not in said


def test_an_unknown_kind_in_a_config_is_refused(recipe, tiny_encoder, tmp_path) -> None:
    arguments = recipe("ordinal", tiny_encoder)
    (tmp_path / "odd.yaml").write_text("kind: oracle\n")
    with pytest.raises(InputError, match="kind is 'oracle'"):
        train_judge(*parse_arguments(["--config", str(tmp_path / "odd.yaml"), *arguments[2:]]))


def test_a_config_for_a_gpu_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="use_cpu"):
        train_judge(*parse_arguments(["--config", str(REPOSITORY / "configs" / "judges" / "qwen3-1.7b-lora.yaml")]))


def test_all_shipped_configs_parse() -> None:
    files = sorted((REPOSITORY / "configs" / "judges").glob("*.yaml"))
    assert {file.stem for file in files} >= {"minilm-ordinal", "qwen3-1.7b-lora", "qwen3-8b-qlora"}
    for file in files:
        judge, model, options = parse_arguments(["--config", str(file), "--use_cpu", "true"])
        assert judge.kind in ("ordinal", "generative")
        assert model.lora_r > 0
        assert options.max_length
    qlora = str(REPOSITORY / "configs" / "judges" / "qwen3-8b-qlora.yaml")
    _, quantised, _ = parse_arguments(["--config", qlora, "--use_cpu", "true"])
    assert quantised.load_in_4bit
    assert quantised.bnb_4bit_quant_type == "nf4"


def test_the_accelerate_and_deepspeed_configs_load() -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import DeepSpeedPlugin

    for file in sorted((REPOSITORY / "configs" / "accelerate").glob("*.yaml")):
        loaded = load_config_from_file(str(file))
        assert loaded.num_processes >= 1
        if loaded.deepspeed_config:
            path = REPOSITORY / loaded.deepspeed_config["deepspeed_config_file"]
            stage = json.loads(path.read_text())["zero_optimization"]["stage"]
            assert str(stage) in file.stem
            try:
                import deepspeed  # noqa: F401
            except ImportError:
                continue
            assert DeepSpeedPlugin(hf_ds_config=str(path)).zero_stage == stage
