"""Base models quantised by bitsandbytes: how a judge's base is quantised, in training and in judging."""

from importlib.util import find_spec
from typing import Any, Literal

import torch
from pydantic import BaseModel
from transformers import BitsAndBytesConfig

from medjudge.errors import InputError


class Quantization(BaseModel):
    """The quantisation of a base model to 4 bits while it is loaded (QLoRA, arXiv 2305.14314).

    Attributes:
        bits: Always 4.
        type: The data type of the weights; None for `nf4`.
        nested: Whether the constants of the blocks are quantised too.
        dtype: The format of the activations, and of the weights that are not quantised.
    """

    bits: Literal[4]
    type: Literal["nf4", "fp4"] | None = None
    nested: bool = False
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"

    def load_options(self, device: torch.device) -> dict[str, Any]:
        """Arguments of `load_causal_lm` that quantise the model while it is loaded to a device."""
        dtype = getattr(torch, self.dtype)
        config = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=self.type or "nf4",
            bnb_4bit_use_double_quant=self.nested,
            bnb_4bit_compute_dtype=dtype,
        )
        return {"quantization_config": config, "dtype": dtype, "device_map": {"": device}}

    def __str__(self) -> str:
        kind = (self.type or "nf4").upper()
        return f"{kind}, nested" if self.nested else kind


QUANTIZATIONS = {"nf4": Quantization(bits=4, type="nf4", nested=True)}
"""The values of `--judge-quantization`; `nf4` is as the config qwen3-8b-qlora trains on."""


def quantization_name(quantization: Quantization) -> str:
    """The name that `--judge-quantization` takes for it."""
    return next(name for name, known in QUANTIZATIONS.items() if known == quantization)


def require_bitsandbytes(who: str) -> None:
    """Raises InputError where bitsandbytes is missing.

    Args:
        who: What needs it, as the message begins.
    """
    if find_spec("bitsandbytes") is None:
        raise InputError(f"{who} needs bitsandbytes; pip install 'medjudge[gpu]'")
