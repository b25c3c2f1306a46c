"""LoRA adapters of judge folders, checked as they are loaded: peft itself would continue with whatever it finds."""

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
    """Puts a saved LoRA adapter onto its base model.

    Raises:
        ValueError: The file lacks tensors of the adapter, or holds others, or numbers that are not finite.
    """
    # Here, because it takes seconds that judges without an adapter need not wait for.
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
        ValueError: As `load_adapter`.
    """
    merged: nn.Module = load_adapter(body, folder).merge_and_unload()
    return merged


def require_finite(tensors: dict[str, torch.Tensor], name: str) -> None:
    """Raises ValueError, with the file's name, where a tensor holds NaN or an infinite number."""
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError(f"{name} holds numbers that are not finite")
