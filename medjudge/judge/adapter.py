"""Loads LoRA adapters of judge folders, with checks: peft itself accepts missing or extra tensors."""

from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors.torch import load_file
from torch import nn

if TYPE_CHECKING:
    from peft import PeftModel

ADAPTER_CONFIG = "adapter_config.json"
ADAPTER_FILE = "adapter_model.safetensors"


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

    model = PeftModel.from_pretrained(body, str(folder), is_trainable=trainable)
    saved = load_file(folder / ADAPTER_FILE)
    if saved.keys() != get_peft_model_state_dict(model).keys():
        raise ValueError(f"{ADAPTER_FILE} does not hold the tensors that {ADAPTER_CONFIG} describes")
    require_finite(saved, ADAPTER_FILE)
    return model


def merge_adapter(body: nn.Module, folder: Path) -> nn.Module:
    """Merges a saved LoRA adapter into its base model, so that judging costs no more than the plain model.

    Raises:
        ValueError: As for `load_adapter`.
    """
    merged: nn.Module = load_adapter(body, folder).merge_and_unload()
    return merged


def require_finite(tensors: dict[str, torch.Tensor], name: str) -> None:
    """Raises ValueError, with the file's name, if a tensor has a NaN or an infinite number."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError(f"{name} holds numbers that are not finite")
