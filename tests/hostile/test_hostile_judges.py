"""Judge folders and base models whose configs ask for code, memory or time: one line each, and at once."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from calls import change_json, refused_with
from safetensors.torch import load_file, save_file
from tiny_judges import build_ordinal_judge

from medjudge.errors import InputError
from medjudge.judge.folder import read_card
from medjudge.judge.open import SIMILARITY
from medjudge.models.loading import load_causal_lm, load_encoder


@pytest.fixture
def base(tiny_encoder: Path, tmp_path: Path) -> Path:
    """A base model that a test may damage."""
    return Path(shutil.copytree(tiny_encoder, tmp_path / "base-model"))


@pytest.fixture
def judge(base: Path, tmp_path: Path) -> Path:
    """An ordinal judge on it."""
    return build_ordinal_judge(tmp_path / "judge", base)


@pytest.fixture
def refused(medjudge: Callable, judge: Path, tmp_path: Path) -> Callable[[], str]:
    """Judges with the folder, and returns the one line that refuses it."""

    def run() -> str:
        done = medjudge("eval", "--judge", judge, "--limit", 1, "--device", "cpu", "--run", tmp_path / "run")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        return line

    return run


@pytest.mark.parametrize(
    "fields",
    [
        {"attn_implementation": "owner/kernel"},
        {"_attn_implementation": "owner/kernel@v1:forward"},
        {"attn_implementation": {"": "owner/kernel"}},
        {"attn_implementation": {"text_config": "owner/kernel"}},
        {"text_config": {"attn_implementation": "owner/kernel"}},
        {"sub": [{"_attn_implementation_internal": "owner/kernel"}]},
        {"experts_implementation": "owner/kernel"},
        {"attn_implementation": "flash_attention_2"},
        {"attn_implementation": "paged|flash_attention_3"},
        {"attn_implementation": 3},
    ],
    ids=str,
)
def test_a_config_names_no_code_of_the_hub(base: Path, fields: dict[str, object]) -> None:
    change_json(base / "config.json", **fields)
    for load in (load_encoder, load_causal_lm):
        with pytest.raises(InputError, match=r"config\.json: \w+ is .*, whose code may come from the hub"):
            load(str(base))


def test_a_model_of_the_hub_names_no_code_either(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change_json(base / "config.json", attn_implementation="owner/kernel")
    cached = tmp_path / "hub" / "models--owner--model"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    shutil.copytree(base, cached / "snapshots" / ("0" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(
        InputError, match='model owner/model: attn_implementation is "owner/kernel", whose code may come'
    ):
        load_encoder("owner/model")


def test_a_config_may_name_what_transformers_brings(base: Path) -> None:
    for named in ("eager", "sdpa", None):
        change_json(base / "config.json", attn_implementation=named)
        load_encoder(str(base))


@pytest.mark.parametrize(
    "fields",
    [
        {"num_hidden_layers": 1_000_000},
        {"num_hidden_layers": 10**30},
        {"hidden_size": 1 << 40},
        {"intermediate_size": 1 << 30},
        {"vocab_size": 1 << 40},
        {"max_position_embeddings": 1 << 40},
        {"num_attention_heads": 1 << 40},
        {"text_config": {"num_hidden_layers": 1_000_000}},
    ],
    ids=str,
)
def test_sizes_that_the_weights_do_not_have_take_no_memory(base: Path, refused, fields: dict[str, object]) -> None:
    change_json(base / "config.json", **fields)
    line = refused()
    assert "tensors, none wider than" in line
    assert len(line) < 500


DAMAGED: dict[str, list[object]] = {
    "hidden_size": [0, "wide", None, -8],
    "num_attention_heads": [0],
    "num_hidden_layers": [[]],
    "vocab_size": ["x"],
    "pad_token_id": [10**9],
    "hidden_act": ["nonsense"],
    "quantization_config": [{"quant_method": "nonsense"}, {"quant_method": "gptq", "bits": 4}, "x"],
    "dtype": ["nonsense"],
    "model_type": ["nonsense"],
    "architectures": [7],
}


@pytest.mark.parametrize("fields", [{name: each} for name, values in DAMAGED.items() for each in values], ids=str)
def test_a_damaged_config_ends_in_one_line_or_is_not_used(base: Path, judge: Path, medjudge, tmp_path, fields) -> None:
    change_json(base / "config.json", **fields)
    done = medjudge("eval", "--judge", judge, "--limit", 1, "--device", "cpu", "--run", tmp_path / "run")
    assert done.returncode in (0, 2), done.stderr
    assert "Traceback" not in done.stderr


def test_a_base_with_a_name_twice_or_numbers_that_are_not_finite_is_refused(base: Path, refused) -> None:
    text = (base / "config.json").read_text()
    (base / "config.json").write_text(text.replace("{", '{"hidden_size": 8,', 1))
    assert "'hidden_size' occurs twice" in refused()
    (base / "config.json").write_text(text)
    weights = load_file(base / "model.safetensors")
    name = next(name for name in weights if name.endswith("query.weight"))
    weights[name][0, 0] = torch.nan
    save_file(weights, base / "model.safetensors", metadata={"format": "pt"})
    assert "holds numbers that are not finite" in refused()


CATASTROPHIC = "(a|a)*" * 3 + "(.*)*(.*)*(.*)*x"


ADAPTERS: dict[str, list[object]] = {
    "target_modules": ["((", CATASTROPHIC, ".*query", [CATASTROPHIC], [], ["query"] * 10_001],
    "exclude_modules": [CATASTROPHIC, r".*\.layers?\.((0+)+)\..*|.*pooler.*", [CATASTROPHIC]],
    "rank_pattern": [{CATASTROPHIC: 2}, {"query": 10_000_000}],
    "alpha_pattern": [{CATASTROPHIC: 2.0}, {"query": 1e308}],
    "lora_alpha": [1e308, 0, float("inf"), float("nan")],
    "r": [10_000_000, 3, 10**4000, 0, "2"],
    "megatron_config": [{"a": 1}],
    "megatron_core": ["os"],
    "auto_mapping": [{"base_model_class": "x"}],
    "of_tomorrow": [True],
    "peft_type": ["PREFIX_TUNING"],
    "init_lora_weights": ["pissa"],
    "modules_to_save": [["pooler"]],
    "bias": ["all"],
}


@pytest.mark.parametrize(
    ("name", "value"),
    [(name, each) for name, values in ADAPTERS.items() for each in values],
    ids=lambda part: str(part)[:60],
)
def test_an_adapter_config_takes_no_time_and_no_memory(judge: Path, name: str, value: object) -> None:
    """Fields are allowed by name and value, and the message names the one that is not."""
    change_json(judge / "adapter_config.json", **{name: value})
    with pytest.raises(InputError, match=r"adapter_config\.json") as refused:
        read_card(judge)
    assert any(part in str(refused.value) for part in (name, ": rank ", "is not a JSON value"))
    assert len(str(refused.value)) < 600


@pytest.mark.parametrize(
    "excluded",
    [r".*\.layers?\.(0|1|12)\..*|.*pooler.*", r".*\.layers\.(0|1)\..*", ".*pooler.*", "pooler", ["pooler"], None],
)
def test_the_patterns_that_training_writes_are_read(judge: Path, excluded: object) -> None:
    change_json(judge / "adapter_config.json", exclude_modules=excluded, target_modules="query")
    read_card(judge)


def test_a_judge_that_cannot_be_loaded_leaves_no_run_folder_behind(tmp_path: Path, medjudge: Callable) -> None:
    broken = tmp_path / "judges" / "broken"
    shutil.copytree(SIMILARITY, broken)
    change_json(broken / "judge.json", base_model=str(tmp_path / "nowhere"), base_source=None)
    failed = medjudge("eval", "--judge", "judges/broken", "--run", "runs/new", "--limit", 1)
    refused_with(failed, "nowhere: no such folder")
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize("command", ["answer", "eval"])
def test_a_model_that_cannot_be_loaded_leaves_no_folder(command: str, tmp_path: Path, tiny_lm: Path, medjudge) -> None:
    shutil.copytree(tiny_lm, tmp_path / "broken")
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"")
    judge = ["--judge", "similarity"] if command == "eval" else []
    for models in (["broken"], [str(tiny_lm), "broken"]):
        named = [part for model in models for part in ("--model", model)]
        failed = medjudge(command, *named, *judge, "--run", "runs/new", "--limit", 1, "--device", "cpu")
        refused_with(failed, "model broken: its files are missing or corrupt")
        assert not (tmp_path / "runs").exists()
