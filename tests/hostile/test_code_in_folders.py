"""Code in a judge or model folder never runs, and nobody is asked whether it may."""

import contextlib
import io
import json
import shutil
import sys
from pathlib import Path

import pytest
from calls import change_json, refused_with, worked
from tiny_judges import build_ordinal_judge

from medjudge.errors import InputError
from medjudge.models.loading import load_causal_lm, load_encoder, load_tokenizer, window

CODE = """
from pathlib import Path
Path({marker!r}).touch()
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
class Own(PreTrainedTokenizerFast): pass
class OwnConfig(BertConfig): model_type = "own"
class OwnModel(BertModel): config_class = OwnConfig
"""


@pytest.fixture
def marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that the code would make; whoever asks on the terminal is told yes."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("y\n" * 50))
    monkeypatch.setenv("HF_MODULES_CACHE", str(tmp_path / "modules"))
    return tmp_path / "the-code-ran"


def add_code(folder: Path, marker: Path, known: bool) -> None:
    """Names code in the configs of a folder, beside classes that transformers knows, or in their place."""
    (folder / "own.py").write_text(CODE.format(marker=str(marker)))
    tokenizer_class = {} if known else {"tokenizer_class": "Own"}
    change_json(folder / "tokenizer_config.json", auto_map={"AutoTokenizer": [None, "own.Own"]}, **tokenizer_class)
    if (folder / "config.json").exists():
        model_type = {} if known else {"model_type": "own"}
        auto_map = {"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel", "AutoModelForCausalLM": "own.OwnModel"}
        change_json(folder / "config.json", auto_map=auto_map, **model_type)


@pytest.mark.parametrize("known", [True, False])
def test_code_of_a_judge_folder_never_runs(tiny_encoder, marker, medjudge, tmp_path, known: bool) -> None:
    folder = build_ordinal_judge(tmp_path / "judge", tiny_encoder)
    shutil.copytree(tiny_encoder, folder / "base")
    add_code(folder / "base", marker, known)
    done = medjudge("eval", "--judge", folder, "--limit", 1, "--device", "cpu", "--run", tmp_path / "run")
    assert not marker.exists()
    assert sys.stdin.read() == "y\n" * 50
    assert "[y/N]" not in done.stdout + done.stderr
    if known:
        assert done.returncode == 0, done.stderr
    else:
        assert done.returncode == 2
        assert "config.json: names code of its own in auto_map" in done.stderr


@pytest.mark.parametrize("known", [True, False])
def test_code_of_a_model_folder_never_runs(tiny_encoder, marker, tmp_path, known: bool) -> None:
    folder = tmp_path / "model"
    shutil.copytree(tiny_encoder, folder)
    add_code(folder, marker, known)
    for load in (load_encoder, load_causal_lm, window):
        if known:
            load(str(folder))
        else:
            with pytest.raises(InputError, match=r"config.json: names code of its own in auto_map"):
                load(str(folder))
    with contextlib.nullcontext() if known else contextlib.suppress(InputError):
        load_tokenizer(str(folder))
    assert not marker.exists()
    assert sys.stdin.read() == "y\n" * 50


def test_pickle_files_are_refused_by_name(tiny_encoder, medjudge, tmp_path) -> None:
    judge, model = build_ordinal_judge(tmp_path / "judge", tiny_encoder), tmp_path / "model"
    shutil.copytree(tiny_encoder, model)
    command = ("eval", "--judge", judge, "--limit", 1, "--device", "cpu", "--run", tmp_path / "run")
    (judge / "checkpoints" / "checkpoint-1").mkdir(parents=True)
    (judge / "checkpoints" / "checkpoint-1" / "optimizer.pt").touch()  # the trainer's own
    worked(medjudge(*command))
    for name in ("pytorch_model.bin", "training_args.bin", "x.PT", "x.pth", "x.pkl", "x.ckpt"):
        (judge / name).touch()
        refused_with(medjudge(*command), f"judge {judge}: {name} may be in pickle format")
        (model / name).touch()
        for load in (load_encoder, load_tokenizer, window):
            with pytest.raises(InputError, match=f"model {model}: {name} may be in pickle format"):
                load(str(model))
        (judge / name).unlink()
        (model / name).unlink()


@pytest.mark.parametrize("named", ["pytorch_model.bin", "../elsewhere/model.safetensors", "/tmp/model.safetensors"])
def test_an_index_names_only_safetensors_beside_it(tiny_encoder, tmp_path, named: str) -> None:
    model = Path(shutil.copytree(tiny_encoder, tmp_path / "model"))
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": named}}))
    with pytest.raises(InputError, match="of its own folder only"):
        load_encoder(str(model))
    for file in model.glob("model.safetensors*"):
        file.unlink()
    with pytest.raises(InputError, match="missing or corrupt"):
        load_encoder(str(model))
