"""Loads base models and tokenizers from a folder, the hub or its cache, or an installed package.

Code in a model's folder never runs, and weights are read from safetensors files only.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import torch
from httpx2 import HTTPError
from huggingface_hub import is_offline_mode, snapshot_download, try_to_load_from_cache
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForCausalLM,
    AutoTokenizer,
    PretrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.utils.logging import disable_progress_bar, get_verbosity, set_verbosity, set_verbosity_error

from medjudge.errors import InputError, NetworkRefusedError
from medjudge.files import read_json
from medjudge.models.packaged import PACKAGED, located_gguf, packaged_folder
from medjudge.models.safety import names_own_code, refuse_foreign_kernels, refuse_other_sizes, refuse_pickles

_MODEL_FILES = ("*.json", "*.safetensors", "*.txt", "*.jinja", "*.model")


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
    torch.backends.cuda.enable_cudnn_sdp(False)  # it makes a plan for each new length, 5 ms for each layer
    disable_progress_bar()  # one bar per file would hide those of the stations
    try:
        place = located(model_id)
        _check_config(place, revision, of_weights="use_safetensors" in options)
        # False, not the default: without it, transformers asks on the terminal whether to run the code.
        with _without_load_reports():
            loaded = auto.from_pretrained(place, revision=revision, trust_remote_code=False, **options)
        if isinstance(loaded, torch.nn.Module):
            _require_finite(loaded)
        return loaded
    except torch.cuda.OutOfMemoryError:
        raise
    except Exception as error:  # whatever a hostile config makes transformers raise, ImportError to ZeroDivisionError
        if isinstance(error, InputError) and not isinstance(error, NetworkRefusedError):
            raise
        attention = options.get("attn_implementation")
        if isinstance(error, ImportError) and attention not in (None, "eager"):
            raise InputError(f"attn_implementation {attention}: {' '.join(str(error).split())[:300]}") from None
        raise _explained(error, model_id, folder) from None


@contextmanager
def _without_load_reports() -> Iterator[None]:
    """Keeps transformers from reporting the pooler that packaged encoders lack and that judges do not use."""
    before = get_verbosity()
    set_verbosity_error()
    try:
        yield
    finally:
        set_verbosity(before)


def _explained(error: Exception, model_id: str, folder: Path) -> InputError:
    """The reason why a model cannot be loaded, and what to do, from what transformers raised."""
    reason = " ".join(str(error).split())[:300] or type(error).__name__
    if folder.is_dir() and (file := names_own_code(folder)) is not None:
        return InputError(
            f"{file}: names code of its own in auto_map, which medjudge never runs; take a model that transformers "
            "knows"
        )
    if folder.is_dir():
        return InputError(f"model {model_id}: its files are missing or corrupt ({reason})")
    if missing := _missing_package(model_id):
        return missing
    source = "no network is used (HF_HUB_OFFLINE)" if is_offline_mode() else "the hub was asked"
    return InputError(
        f"model {model_id}: cannot be loaded; {source}. Name a folder with the model or a base that a package brings "
        f"(`medjudge doctor` lists them), or download it first with `hf download {quote(model_id)}` ({reason})"
    )


def _check_config(place: str, revision: str | None, of_weights: bool) -> None:
    """Checks `config.json` of a folder or hub id before transformers acts on it."""
    file = Path(place) / "config.json"
    if not Path(place).is_dir():
        if of_weights:  # a tokenizer runs nothing that a config names
            refuse_foreign_kernels(PretrainedConfig.get_config_dict(place, revision=revision)[0], f"model {place}")
    elif file.is_file():
        config = read_json(file, "restore the file")
        if not isinstance(config, dict):
            raise InputError(f"{file}: not a JSON object; restore the file")
        refuse_foreign_kernels(config, str(file))
        if of_weights:
            refuse_other_sizes(config, file.parent)


def _require_finite(model: torch.nn.Module) -> None:
    """Raises ValueError if a weight is NaN or infinite: every score would be."""
    for name, weight in model.named_parameters():
        checked = weight.is_floating_point() and weight.numel() and weight.element_size() > 1 and not weight.is_meta
        if checked and not all(torch.isfinite(end) for end in weight.detach().aminmax()):
            raise ValueError(f"{name} holds numbers that are not finite")


def _refuse_missing_folder(model_id: str, folder: Path) -> None:
    if model_id.startswith((".", "/", "~")) and folder.suffix != ".gguf" and not folder.is_dir():
        raise InputError(f"model {model_id}: no such folder")


def _missing_package(model_id: str) -> InputError | None:
    """The refusal that names the package to install for a model; None where none has it, or where it is installed."""
    row = PACKAGED.get(model_id)
    if row is None or packaged_folder(model_id) is not None:
        return None
    return InputError(
        f"model {model_id}: neither the package {row.packages[0]} nor a model hub has it here; {row.install} "
        f"(licence: {row.licence})"
    )


def located(model_id: str) -> str:
    """The place to load a model from: a folder for a GGUF file and for what a package carries, else the id itself.

    A model that the hub's cache holds comes from there: its weights are in full precision.

    Raises:
        InputError: A package's files are not the published ones, or weights cannot be converted or written.
    """
    path = Path(model_id).expanduser()
    if path.suffix == ".gguf" and not path.is_dir():
        return str(located_gguf(path))
    if model_id in PACKAGED and not path.is_dir() and not in_hub_cache(model_id):
        return str(packaged_folder(model_id) or model_id)
    return str(path) if model_id.startswith("~") else model_id


def model_name(model_id: str) -> str:
    """A model's name in the records: its hub id, or the name of its folder or GGUF file."""
    path = Path(model_id).expanduser()
    return path.resolve().name if path.is_dir() else path.stem if path.suffix == ".gguf" else model_id


def base_name(model_name_or_path: str) -> str:
    """A base model as a card names it: a folder by its full path, so that the judge works from any folder."""
    path = Path(model_name_or_path).expanduser()
    return str(path.resolve()) if path.is_dir() or path.suffix == ".gguf" else model_name_or_path


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
                f"model {model_id}: cannot be had; download it first with `hf download {quote(model_id)}` ({reason})"
            ) from None
    files = sorted({file for pattern in _MODEL_FILES for file in folder.glob(pattern) if file.is_file()})
    # The hub's cache has the files of all revisions next to the snapshots, and links to them.
    inside = folder.resolve().parents[1] if folder.parent.name == "snapshots" else folder.resolve()
    for file in files:
        if not file.resolve().is_relative_to(inside):
            raise InputError(f"{file}: a link that leads out of the model's folder; replace it by the file")
    if not any(file.suffix == ".safetensors" for file in files):
        raise InputError(f"model {model_id}: no safetensors in {folder}; convert its weights")
    return files


def in_hub_cache(model_id: str) -> bool:
    """True if the hub's cache on this machine has the weights of a model, in one file or several."""
    weights = ("model.safetensors", "model.safetensors.index.json")
    return any(isinstance(try_to_load_from_cache(model_id, name), str) for name in weights)


def window(model_id: str, revision: str | None = None) -> int:
    """The context window of a model in tokens, from its config; raises InputError if the model cannot be had."""
    config = _loaded(AutoConfig, model_id, revision)
    return int(getattr(config, "max_position_embeddings", 0) or config.get_text_config().max_position_embeddings)


def commit(model_id: str, revision: str | None = None) -> str | None:
    """The hub's commit of a model; None for a folder."""
    return getattr(_loaded(AutoConfig, model_id, revision), "_commit_hash", None)
