"""Settings of a generative judge on disk: its rationales, its attention, compiled or not, its base quantised or not."""

import os
import shutil
from typing import NamedTuple

from transformers import PreTrainedModel
from transformers.utils import is_flash_attn_2_available

from medjudge.errors import InputError
from medjudge.models.quantization import Quantization

ATTENTIONS = ("sdpa", "eager", "flash_attention_2")
"""Implementations of attention, by the names that transformers has for them."""
QUANTIZATIONS = {"nf4": Quantization(bits=4, type="nf4", nested=True)}
"""The values of `--judge-quantization`; `nf4` is as the config qwen3-8b-qlora trains on."""


class Inference(NamedTuple):
    """The settings of running a generative judge; other kinds take no notice of it.

    Attributes:
        rationale_tokens: The most tokens of a rationale; 0 for the judge's default.
        attention: One of `ATTENTIONS`; None for that of the model.
        compile: Whether torch compiles the model.
        quantization: Quantises the base model of a judge that was validated without; None runs it as it is.
    """

    rationale_tokens: int = 0
    attention: str | None = None
    compile: bool = False
    quantization: Quantization | None = None


def quantization_name(quantization: Quantization) -> str:
    """The name that `--judge-quantization` takes for it."""
    return next(name for name, known in QUANTIZATIONS.items() if known == quantization)


def require_attention(attention: str) -> None:
    """Finds out before any work whether this machine has an implementation of attention.

    Raises:
        InputError: It has not, or the name is unknown.
    """
    if attention not in ATTENTIONS:
        raise InputError(f"--attention {attention}: unknown; use {', '.join(ATTENTIONS[:-1])} or {ATTENTIONS[-1]}")
    if attention == "flash_attention_2" and not is_flash_attn_2_available():
        raise InputError(
            "--attention flash_attention_2: flash-attn is not installed, or there is no GPU; on a machine with one, "
            "pip install flash-attn --no-build-isolation"
        )


def require_compiler() -> None:
    """Raises InputError where torch finds no C++ compiler to compile a model with."""
    compilers = (os.environ.get("CXX"), "g++", "clang++", "cl")
    if not any(shutil.which(name) for name in compilers if name):
        raise InputError("--compile: torch needs a C++ compiler, and none is installed; apt install g++")


def prepared(model: PreTrainedModel, inference: Inference) -> PreTrainedModel:
    """A loaded model with the attention of the options, compiled if they say so.

    Batches differ in rows and columns, so shapes are dynamic: torch compiles once, not for each of them.

    Raises:
        InputError: The model does not have this attention.
    """
    if inference.attention is not None:
        try:
            model.set_attn_implementation(inference.attention)
        except (ImportError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"--attention {inference.attention}: {reason}") from None
        if model.config._attn_implementation != inference.attention:
            raise InputError(
                f"--attention {inference.attention}: {type(model).__name__} does not have it; leave out --attention"
            )
    if inference.compile:
        model.compile(dynamic=True)
    return model
