"""Loads LoRA adapters of judge folders, with checks: peft itself accepts missing or extra tensors, and any config."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import torch
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import nn

from medjudge.errors import InputError
from medjudge.files import clipped, first_problem, model_from_json, read_text

if TYPE_CHECKING:
    from peft import PeftModel

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_FILE = "adapter_model.safetensors"

_PLAIN = r"[A-Za-z0-9_.-]{1,200}"
_LOWER_LAYERS, _POOLER = r"\.\*\\\.layers(\?)?\\\.\([0-9|]{1,2000}\)\\\.\.\*", r"\.\*pooler\.\*"
_OWN_EXCLUSION = re.compile(rf"{_LOWER_LAYERS}(\|{_POOLER})?|{_POOLER}")
"""The patterns that training writes, and wrote before, for `upper_layers` and an encoder's pooler."""


def _excluded(name: str) -> str:
    if not re.fullmatch(_PLAIN, name) and not _OWN_EXCLUSION.fullmatch(name):
        raise ValueError("is no module's name; a list of names is expected")
    return name


# peft reads most of these as regular expressions, and a short one can take hours.
_Module = Annotated[str, Field(pattern=rf"\A{_PLAIN}\z")]
_Modules = Annotated[list[_Module], Field(min_length=1, max_length=10_000)]
_Rank = Annotated[int, Field(ge=1)]
_Alpha = Annotated[float, Field(gt=0, le=1e6)]


class _AdapterConfig(BaseModel):
    """The fields of `adapter_config.json` that may have a value, and the values. Any other must be switched off."""

    model_config = ConfigDict(extra="allow", strict=True, allow_inf_nan=False)

    peft_type: Literal["LORA"]
    r: _Rank
    lora_alpha: _Alpha
    lora_dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    target_modules: _Module | _Modules
    exclude_modules: Annotated[str, AfterValidator(_excluded)] | list[_Module] | None = None
    rank_pattern: dict[_Module, _Rank] = {}
    alpha_pattern: dict[_Module, _Alpha] = {}
    bias: Literal["none"] = "none"
    fan_in_fan_out: bool = False
    use_dora: bool = False
    use_rslora: bool = False
    inference_mode: bool = True
    init_lora_weights: bool = True
    task_type: Literal["CAUSAL_LM", "FEATURE_EXTRACTION"] | None = None
    base_model_name_or_path: str | None = None
    revision: str | None = None
    peft_version: str | None = None
    megatron_core: Literal["megatron.core"] | None = None
    qalora_group_size: _Rank = 16


def check_adapter_config(folder: Path) -> None:
    """Checks `adapter_config.json` of a judge folder before peft acts on it.

    Raises:
        InputError: It is no LoRA configuration, a value is of a wrong type or range, or a field that judges do not use
            is switched on.
    """
    path = folder / ADAPTER_CONFIG
    fix = "restore the file or train the judge again"
    try:
        config = model_from_json(_AdapterConfig, read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: {first_problem(error)}; {fix}") from None
    for name, value in (config.model_extra or {}).items():
        if value not in (None, False, "", [], {}):
            raise InputError(f"{path}: {name[:80]!r} is set, and judges' adapters do not use it; {fix}")
    largest = max([config.r, *config.rank_pattern.values()])
    if largest > (most := _largest_rank(folder / ADAPTER_FILE, fix)):
        raise InputError(f"{path}: rank {clipped(largest)}, and {ADAPTER_FILE} has ranks up to {most}; {fix}")


def _largest_rank(weights: Path, fix: str) -> int:
    """The largest rank of an adapter's tensors, from the file's header: no memory is taken."""
    try:
        with safe_open(weights, "pt") as opened:
            names = [name for name in opened.keys() if "lora_A" in name]  # noqa: SIM118, no mapping
            return max([0, *(opened.get_slice(name).get_shape()[0] for name in names)])
    except (SafetensorError, OSError, IndexError) as error:
        raise InputError(f"{weights}: {' '.join(str(error).split())[:200]}; {fix}") from None


@contextmanager
def damage_explained(judge: str, base: str = "its base model") -> Iterator[None]:
    """Turns whatever damaged files of a judge folder make torch, transformers and peft raise into an InputError.

    Args:
        judge: The folder, as the message begins.
        base: The base model, as the message names it.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, (torch.cuda.OutOfMemoryError, InputError)):
            raise
        reason = " ".join(str(error).split())[:200]
        raise InputError(
            f"{judge}: its files are corrupt or do not fit {base} ({reason}); restore them or train the judge again"
        ) from None


def load_adapter(body: nn.Module, folder: Path, trainable: bool = False) -> "PeftModel":
    """Adds a saved LoRA adapter to its base model.

    Args:
        body: The base model.
        folder: The judge folder.
        trainable: Whether the adapter will be trained further.

    Raises:
        ValueError: The file does not hold exactly the tensors of the adapter, or a number is not finite.
    """
    # Imported here because it takes seconds, and judges without an adapter do not need it.
    from peft import PeftModel, get_peft_model_state_dict

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # peft reads a property that transformers renamed
        model = PeftModel.from_pretrained(body, str(folder), is_trainable=trainable)
    # With a name, peft would ask the model hub for its config whenever the adapter's tensors are listed or saved.
    model.peft_config["default"].base_model_name_or_path = ""
    saved = load_file(folder / ADAPTER_FILE)
    if saved.keys() != get_peft_model_state_dict(model).keys():
        raise ValueError(f"{ADAPTER_FILE} does not hold the tensors that {ADAPTER_CONFIG} describes")
    require_finite(saved, ADAPTER_FILE)
    return model


def require_finite(tensors: dict[str, torch.Tensor], name: str) -> None:
    """Raises ValueError, with the file's name, if a tensor has a NaN or an infinite number."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError(f"{name} holds numbers that are not finite")
