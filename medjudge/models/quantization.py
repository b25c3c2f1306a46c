"""Base models quantised by bitsandbytes: how a judge's base is quantised, in training and in judging."""

from importlib.util import find_spec
from typing import Any, Literal

import torch
from pydantic import BaseModel
from transformers import BitsAndBytesConfig

from medjudge.errors import InputError


class Quantization(BaseModel):
    """The quantisation of a base model while it is loaded (LLM.int8(), arXiv 2208.07339; QLoRA, arXiv 2305.14314).

    Attributes:
        bits: 8, or 4 with a data type of its own.
        type: The data type of 4 bits; 8 bits have none.
        nested: Whether the constants of the 4-bit blocks are quantised too.
        dtype: The format of the activations, and of the weights that are not quantised.
    """

    bits: Literal[4, 8]
    type: Literal["nf4", "fp4"] | None = None
    nested: bool = False
    dtype: Literal["bfloat16", "float16", "float32"] = "bfloat16"

    @property
    def torch_dtype(self) -> torch.dtype:
        dtype: torch.dtype = getattr(torch, self.dtype)
        return dtype

    def load_options(self, device: torch.device) -> dict[str, Any]:
        """Arguments of `load_causal_lm` that quantise the model while it is loaded to a device."""
        config = (
            BitsAndBytesConfig(load_in_8bit=True)
            if self.bits == 8
            else BitsAndBytesConfig(
                load_in_4bit=True,
                bnb_4bit_quant_type=self.type or "nf4",
                bnb_4bit_use_double_quant=self.nested,
                bnb_4bit_compute_dtype=self.torch_dtype,
            )
        )
        return {"quantization_config": config, "dtype": self.torch_dtype, "device_map": {"": device}}

    def __str__(self) -> str:
        kind = "8 bits" if self.bits == 8 else f"{self.type or 'nf4'}".upper()
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
