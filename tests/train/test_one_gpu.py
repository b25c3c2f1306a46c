"""What a first start on a machine with GPUs meets: one process uses one GPU, and schedules fit short runs."""

from pathlib import Path

import pytest
import yaml
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_simple_launcher_cmd_env
from recipe_runs import REPOSITORY
from transformers import TrainerControl, TrainerState
from trl import ModelConfig, SFTConfig

from medjudge.errors import InputError
from medjudge.train.arguments import JudgeArguments
from medjudge.train.checks import WarnOfFewSteps, require_possible


def test_one_process_with_several_gpus_is_refused(tmp_path: Path) -> None:
    judge = JudgeArguments("ordinal", "train.jsonl", "validation.jsonl")
    training = SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    options = ModelConfig(model_name_or_path="some/model")
    require_possible(judge, options, training, tmp_path, None)
    training._n_gpu = 2  # as transformers counts them, before it wraps the model in nn.DataParallel
    with pytest.raises(InputError, match=r"this one sees 2; .*`accelerate launch .*multi-gpu.*CUDA_VISIBLE"):
        require_possible(judge, options, training, tmp_path, None)


def test_the_config_for_one_gpu_shows_the_process_one_gpu() -> None:
    config = str(REPOSITORY / "configs" / "accelerate" / "one-gpu.yaml")
    words = ["--config_file", config, "train.py"]
    arguments, _, _ = _validate_launch_command(launch_command_parser().parse_args(words))
    _, environment = prepare_simple_launcher_cmd_env(arguments)
    assert environment["CUDA_VISIBLE_DEVICES"] == "0"


def test_warm_up_is_a_share_of_the_steps() -> None:
    folder = REPOSITORY / "configs" / "judges"
    for config in (*folder.glob("qwen*.yaml"), folder / "minilm-ordinal.yaml"):
        share = yaml.safe_load(config.read_text(encoding="utf-8"))["warmup_steps"]
        assert 0 < share < 0.2, config
        assert SFTConfig(warmup_steps=share, use_cpu=True, bf16=False).get_warmup_steps(20) <= 4


@pytest.mark.parametrize(("steps", "chosen", "warned"), [(20, -1, True), (120, -1, False), (20, 20, False)])
def test_few_optimizer_steps_are_warned_of_unless_chosen(steps, chosen, warned, tmp_path, capsys) -> None:
    training = SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False, max_steps=chosen)
    WarnOfFewSteps().on_train_begin(training, TrainerState(max_steps=steps), TrainerControl())
    assert ("training takes 20 optimizer steps" in capsys.readouterr().err) == warned


def test_zero3_with_a_quantised_model_is_refused(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("medjudge.train.checks.is_deepspeed_zero3_enabled", lambda: True)
    judge = JudgeArguments("generative", "train.jsonl", "validation.jsonl")
    training = SFTConfig(output_dir=str(tmp_path), use_cpu=True, bf16=False)
    require_possible(judge, ModelConfig(model_name_or_path="some/model"), training, tmp_path, None)
    options = ModelConfig(model_name_or_path="some/model", load_in_4bit=True)
    with pytest.raises(InputError, match=r"ZeRO-3 cannot share out a quantised model; launch with zero2\.yaml"):
        require_possible(judge, options, training, tmp_path, None)
