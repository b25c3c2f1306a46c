"""`train_judge` as a function: a config with overrides in, a judge folder with its measures out."""

import pytest
from recipe_runs import config_file

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
    assert set(trained.validation) == {"loss", "quadratic_kappa", "usable_agreement"}
    shown = repr(trained)
    assert str(trained.folder) in shown
    assert f"usable agreement {trained.validation['usable_agreement']:.2f}" in shown


@pytest.mark.slow
def test_quiet_shows_the_result_only(medjudge, recipe, tmp_path) -> None:
    options = {"max_steps": 1, "eval_strategy": "no", "save_strategy": "no"}
    done = medjudge("train", "--config", config_file(tmp_path, recipe("ordinal", **options)), "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Next: medjudge validate" in done.stdout


def test_wrong_names_and_options_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match=r"--config minilm: no such file, and no config in .*minilm-ordinal"):
        medjudge.train_judge("minilm")
    with pytest.raises(InputError, match="config: style is for generative judges, and kind is ordinal"):
        medjudge.train_judge("minilm-ordinal", options=["--style", "brief"])
