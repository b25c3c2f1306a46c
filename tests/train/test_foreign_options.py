"""Options that a kind of judge does not read are refused before anything is loaded."""

from pathlib import Path

import pytest
import yaml

from medjudge.errors import InputError
from medjudge.train.arguments import parse_arguments
from medjudge.train.kinds import KINDS

FILES = {"train_file": "train.jsonl", "validation_file": "validation.jsonl", "output_dir": "judge"}
FOREIGN = {
    "ordinal": {
        "style": "score-first",  # the default, and yet of no effect
        "packing": True,
        "share_prefixes": True,
        "load_in_4bit": True,
        "load_in_8bit": True,
        "bnb_4bit_quant_type": "nf4",
        "score_loss_weight": 0.5,
        "regression_weight": 0.0,
        "use_liger_kernel": True,
        "dtype": "bfloat16",
    },
    "generative": {"windows": 2, "points_weight": 0.5, "only_languages": ["en"]},
}


def config(path: Path, **options: object) -> str:
    path.write_text(yaml.safe_dump(FILES | {"use_cpu": True} | options))
    return str(path)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, options in FOREIGN.items() for name in options])
def test_an_option_of_another_kind_is_refused_in_one_line(kind, name, tmp_path) -> None:
    value = FOREIGN[kind][name]
    (other,) = set(KINDS) - {kind}
    message = f"config: {name} is for {other} judges, and kind is {kind}; leave it out"
    with pytest.raises(InputError) as caught:
        parse_arguments(["--config", config(tmp_path / "a.yaml", kind=kind, **{name: value})])
    assert str(caught.value) == message
    plain = config(tmp_path / "b.yaml", kind=kind)
    for words in ([f"--{name}", str(value)], [f"--{name.replace('_', '-')}={value}"]):
        with pytest.raises(InputError) as caught:
            parse_arguments(["--config", plain, *words])
        assert str(caught.value) == message


def test_options_of_the_kind_are_read(tmp_path) -> None:
    ordinal = parse_arguments(["--config", config(tmp_path / "a.yaml", kind="ordinal", points_weight=0.5, windows=2)])
    assert (ordinal.judge.points_weight, ordinal.judge.windows) == (0.5, 2)
    options = {"style": "brief", "packing": True, "score_loss_weight": 0.5, "dtype": "bfloat16"}
    generative = parse_arguments(["--config", config(tmp_path / "b.yaml", kind="generative", **options)])
    assert (generative.judge.style, generative.judge.score_loss_weight) == ("brief", 0.5)
    assert (generative.training.packing, generative.model.dtype) == (True, "bfloat16")


def test_an_option_of_trl_that_judges_do_not_read_is_refused(tmp_path) -> None:
    file = config(tmp_path / "a.yaml", kind="generative", loss_type="dft", completion_only_loss=True)
    with pytest.raises(InputError, match="config: completion_only_loss, loss_type has no effect on a judge"):
        parse_arguments(["--config", file])


def test_an_abbreviated_option_is_not_guessed(tmp_path) -> None:
    with pytest.raises(InputError, match="--pack"):
        parse_arguments(["--config", config(tmp_path / "a.yaml", kind="ordinal"), "--pack", "true"])
    with pytest.raises(InputError, match="--config: no file named"):
        parse_arguments(["--config"])
    with pytest.raises(InputError, match="--lora_rank"):
        parse_arguments(["--config", config(tmp_path / "a.yaml", kind="ordinal"), "--lora_rank", "8"])


@pytest.mark.parametrize("text", ["- kind: ordinal\n", "ordinal\n", ""])
def test_a_config_that_is_no_mapping_is_refused(text, tmp_path) -> None:
    (tmp_path / "list.yaml").write_text(text)
    with pytest.raises(InputError, match=r"list\.yaml must contain a YAML mapping"):
        parse_arguments(["--config", str(tmp_path / "list.yaml")])
