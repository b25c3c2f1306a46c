"""`train_judge` as a function: a config with overrides in, a judge folder with its measures out."""

import json

import pytest

import medjudge
from medjudge.errors import InputError
from medjudge.judge.folder import read_card


def test_a_config_by_name_with_overrides_trains_a_judge(training_files, tiny_encoder, tmp_path) -> None:
    """`minilm-ordinal` with a tiny model, for one step."""
    small = ["--model_name_or_path", str(tiny_encoder), "--lora_r", "2", "--max_steps", "1", "--bf16", "false"]
    trained = medjudge.train_judge(
        "minilm-ordinal",
        train_file=training_files[0],
        validation_file=training_files[1],
        output_dir=tmp_path / "judge",
        seed=3,
        options=[*small, "--eval_strategy", "no", "--save_strategy", "no"],
    )
    assert trained.folder == tmp_path / "judge"
    assert trained.card == read_card(trained.folder)
    assert (trained.card.training["seed"], trained.card.training["lora_r"]) == (3, 2)
    recorded = json.loads((trained.folder / "judge.json").read_text())["training"]["validation"]
    assert trained.validation == {name.removeprefix("eval_"): value for name, value in recorded.items()}
    assert set(trained.validation) == {"loss", "quadratic_kappa", "usable_agreement"}
    shown = repr(trained)
    assert str(trained.folder) in shown
    assert f"usable agreement {trained.validation['usable_agreement']:.2f}" in shown


@pytest.mark.slow
def test_quiet_shows_the_result_only(medjudge, training_files, tiny_encoder) -> None:
    command = ["train", "--config", "minilm-ordinal", "--train-file", training_files[0]]
    command += ["--validation-file", training_files[1], "--output-dir", "judge", "--model_name_or_path", tiny_encoder]
    command += ["--max_steps", 1, "--bf16", "false", "--eval_strategy", "no", "--save_strategy", "no"]
    done = medjudge(*command, "--quiet")
    assert done.returncode == 0
    assert done.stderr == ""
    assert "Next: medjudge validate" in done.stdout


def test_wrong_names_and_options_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"--config minilm: no such file, and no config in .*minilm-ordinal"):
        medjudge.train_judge("minilm")
    with pytest.raises(InputError, match="config: style is for generative judges, and kind is ordinal"):
        medjudge.train_judge("minilm-ordinal", options=["--style", "brief"])
