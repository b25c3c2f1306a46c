"""The configs and options of training runs: those that ship, wrong ones, and those for machines with GPUs."""

import json
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils import DeepSpeedPlugin
from accelerate.utils.launch import prepare_simple_launcher_cmd_env
from recipe_runs import REPOSITORY, run_recipe, train
from transformers import TrainerControl, TrainerState
from trl import ModelConfig, SFTConfig

from medjudge.errors import InputError
from medjudge.judge.open import BUILT_IN
from medjudge.train.arguments import JudgeArguments, parse_arguments
from medjudge.train.checks import Watch, require_possible

CONFIGS = REPOSITORY / "configs"
FILES = {"train_file": "train.jsonl", "validation_file": "validation.jsonl", "output_dir": "judge"}


def config(path: Path, **options: object) -> str:
    path.write_text(yaml.safe_dump(FILES | {"use_cpu": True} | options))
    return str(path)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("ordinal", "style", "score-first"),  # the default, and yet of no effect
        ("ordinal", "load_in_4bit", True),
        ("generative", "windows", 2),
    ],
)
def test_an_option_of_another_kind_is_refused_in_one_line(kind, name, value, tmp_path) -> None:
    (other,) = {"ordinal", "generative"} - {kind}
    plain, own = config(tmp_path / "a.yaml", kind=kind), config(tmp_path / "b.yaml", kind=kind, **{name: value})
    on_the_command_line = [f"--{name}", str(value)], [f"--{name.replace('_', '-')}={value}"]
    for words in (["--config", own], *(["--config", plain, *option] for option in on_the_command_line)):
        with pytest.raises(InputError) as caught:
            parse_arguments(words)
        assert str(caught.value) == f"config: {name} is for {other} judges, and kind is {kind}; leave it out"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--loss_type", "dft"], "config: loss_type has no effect on a judge"),
        (["--pack", "true"], "--pack"),  # not guessed
        (["--learing_rate", "1e-4"], "there is no option --learing_rate; did you mean --learning_rate"),
        (["--zzzzqqq", "1"], "there is no option --zzzzqqq; leave it out"),
        (["--config"], "--config: no file named"),
    ],
)
def test_options_that_are_not_there_are_refused(words, message, tmp_path) -> None:
    with pytest.raises(InputError, match=message):
        parse_arguments(["--config", config(tmp_path / "a.yaml", kind="ordinal"), *words])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: oracle\ntrain_file: a\nvalidation_file: b\noutput_dir: c\n", "kind is 'oracle'"),
        ("kind: [ordinal\n", "bad.yaml"),
        ("- kind: ordinal\n", "bad.yaml must contain a YAML mapping"),
        (None, "bad.yaml"),
    ],
)
def test_a_config_that_is_wrong_ends_in_one_line(text, message, tmp_path, capsys) -> None:
    if text is not None:
        (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(SystemExit) as caught:
        run_recipe(["--config", str(tmp_path / "bad.yaml")])
    assert caught.value.code == 2
    printed = capsys.readouterr().err.strip()
    assert message in printed
    assert "\n" not in printed


def test_a_config_for_a_gpu_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="use_cpu"):
        train(["--config", str(CONFIGS / "judges" / "qwen3-1.7b-lora.yaml")])


def test_all_shipped_configs_parse_and_warm_up_for_a_share_of_the_steps() -> None:
    parsed = {}
    for file in sorted((CONFIGS / "judges").glob("*.yaml")):
        judge, model, options = parsed[file.stem] = parse_arguments(["--config", str(file), "--use_cpu", "true"])
        assert judge.kind in ("ordinal", "generative")
        assert model.lora_r > 0
        # LLMEval-Med's longest prompt, with the reference as answer, has 9,179 tokens.
        assert options.max_length == 10_240 if file.stem.startswith("qwen") else options.max_length
        assert options.get_warmup_steps(20) <= 4
    assert parsed.keys() >= {"minilm-ordinal", "qwen3-1.7b-lora", "quickstart"}
    judge, model, _ = parsed["quickstart"]
    assert (judge.start_from, judge.start_folder) == ("built-in", BUILT_IN)
    assert model.model_name_or_path is None
    quantised = parsed["qwen3-8b-qlora"].model
    assert (quantised.load_in_4bit, quantised.bnb_4bit_quant_type) == (True, "nf4")


def test_the_accelerate_and_deepspeed_configs_load() -> None:
    for file in sorted((CONFIGS / "accelerate").glob("*.yaml")):
        loaded = load_config_from_file(str(file))
        assert loaded.num_processes >= 1
        if loaded.deepspeed_config:
            path = REPOSITORY / loaded.deepspeed_config["deepspeed_config_file"]
            stage = json.loads(path.read_text())["zero_optimization"]["stage"]
            assert str(stage) in file.stem
            assert find_spec("deepspeed") is None or DeepSpeedPlugin(hf_ds_config=str(path)).zero_stage == stage
    words = ["--config_file", str(CONFIGS / "accelerate" / "one-gpu.yaml"), "train.py"]
    arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    assert prepare_simple_launcher_cmd_env(arguments)[1]["CUDA_VISIBLE_DEVICES"] == "0"


@pytest.mark.parametrize(
    ("kind", "zero3", "gpus", "option", "message"),
    [
        ("ordinal", False, 1, "", None),
        ("generative", True, 1, "", None),
        ("ordinal", False, 2, "", r"this one sees 2; .*`accelerate launch .*multi-gpu.*CUDA_VISIBLE"),
        ("ordinal", True, 1, "", "too small to be worth ZeRO-3"),
        ("generative", True, 1, "packing", "packing cannot be tried out under ZeRO-3"),
        ("generative", True, 1, "load_in_4bit", r"ZeRO-3 cannot share out a quantised model; .* zero2\.yaml"),
    ],
)
def test_what_the_processes_cannot_train_is_refused(kind, zero3, gpus, option, message, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("medjudge.train.checks.is_deepspeed_zero3_enabled", lambda: zero3)
    judge = JudgeArguments(kind, "train.jsonl", "validation.jsonl")
    model = ModelConfig(model_name_or_path="some/model", load_in_4bit=option == "load_in_4bit")
    training = SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, packing=option == "packing")
    training._n_gpu = gpus  # as transformers counts them, before it wraps the model in nn.DataParallel
    with nullcontext() if message is None else pytest.raises(InputError, match=message):
        require_possible(judge, model, training, tmp_path, None)


@pytest.mark.parametrize(("steps", "chosen", "warned"), [(20, -1, True), (120, -1, False), (20, 20, False)])
def test_few_optimizer_steps_are_warned_of_unless_chosen(steps, chosen, warned, tmp_path, capsys) -> None:
    training = SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, max_steps=chosen)
    Watch().on_train_begin(training, TrainerState(max_steps=steps), TrainerControl())
    assert ("training takes 20 optimizer steps" in capsys.readouterr().err) == warned
