"""The configs of training runs: those that ship, and wrong ones."""

import json
from pathlib import Path

import pytest
import torch
from recipe_runs import run_recipe
from train_judge import main as train_judge

from medjudge.errors import InputError
from medjudge.judge.open import built_in_folder
from medjudge.train.arguments import parse_arguments

REPOSITORY = Path(__file__).parent.parent.parent


def test_a_misspelt_option_in_a_config_ends_in_one_line(tmp_path, capsys) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("kind: ordinal\ntrain_file: a\nvalidation_file: b\noutput_dir: c\nlora_rank: 8\n")
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: [ordinal\n")
    for arguments, message in (
        (["--config", str(config)], "lora_rank"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--config", str(broken)], "broken.yaml"),
        (["--kind", "ordinal"], "required"),
    ):
        with pytest.raises(SystemExit) as caught:
            run_recipe(arguments)
        assert caught.value.code == 2
        printed = capsys.readouterr().err.strip()
        assert message in printed
        assert "\n" not in printed


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
        # LLMEval-Med's longest prompt, with the reference as answer, has 9,179 tokens.
        assert options.max_length == 10_240 if file.stem.startswith("qwen") else options.max_length
    judge, model, _ = parse_arguments(["--config", str(REPOSITORY / "configs" / "judges" / "quickstart.yaml")])
    assert (judge.start_from, judge.start_folder) == ("built-in", built_in_folder())
    assert model.model_name_or_path is None
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
