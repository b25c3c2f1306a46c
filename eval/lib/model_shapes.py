"""Models with random weights in the shapes of published ones, and the rate that a device multiplies matrices at.

What such a model says means nothing. It takes the time and the memory of the published model, and needs no model hub.
"""

import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from medjudge.models.hardware import fast_dtype

_QWEN3 = {
    "vocab_size": 151_936,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "tie_word_embeddings": True,
}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {
        "vocab_size": 4000,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
    },
    "60M": {
        "vocab_size": 8000,
        "hidden_size": 640,
        "intermediate_size": 1792,
        "num_hidden_layers": 12,
        "num_attention_heads": 10,
        "num_key_value_heads": 5,
        "head_dim": 64,
    },
    "0.6B": _QWEN3
    | {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16},
    "1.7B": _QWEN3
    | {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16},
    "4B": _QWEN3 | {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32},
    "8B": _QWEN3
    | {
        "hidden_size": 4096,
        "intermediate_size": 12_288,
        "num_hidden_layers": 36,
        "num_attention_heads": 32,
        "tie_word_embeddings": False,
    },
}
"""Shapes of Qwen3's published configurations, and two that a CPU can run."""


def random_model(size: str, device: torch.device, tokenizer: PreTrainedTokenizerBase | None = None) -> PreTrainedModel:
    """A Qwen3 with random weights, on the device, in its fast number format, in evaluation mode.

    Args:
        size: One of SIZES.
        device: Where the weights are drawn: on a GPU this takes a second for 8B.
        tokenizer: Sets the tokens that end and pad; without it no token ends a text, and 0 pads.
    """
    end, pad = (None, 0) if tokenizer is None else (tokenizer.eos_token_id, tokenizer.pad_token_id)
    shape = SIZES[size]
    if tokenizer is not None:
        shape = shape | {"vocab_size": max(shape["vocab_size"], len(tokenizer))}
    config = Qwen3Config(**shape, max_position_embeddings=32_768, eos_token_id=end, pad_token_id=pad)
    torch.manual_seed(0)
    # The number format is set while the model is built: a conversion afterwards would round the rotary frequencies.
    before = torch.get_default_dtype()
    torch.set_default_dtype(fast_dtype(device))
    try:
        with torch.device(device):
            return Qwen3ForCausalLM(config).eval()
    finally:
        torch.set_default_dtype(before)


def save_model(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> Path:
    """Writes model and tokenizer as a folder that a command loads."""
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def layer_parameters(model: torch.nn.Module) -> int:
    """The parameters of the layers; the vocabulary is left out, which judging multiplies once a prompt."""
    return sum(weight.numel() for name, weight in model.named_parameters() if ".layers." in name)


def timed(device: torch.device, run: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of wall time."""
    start = time.perf_counter()
    run(*arguments)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start


@cache
def matrix_rate(device: torch.device) -> float:
    """FLOP a second of a product of two square matrices, the best of ten: 2,048 on a CPU, 8,192 on a GPU."""
    size = 8192 if device.type == "cuda" else 2048
    left, right = (torch.randn(size, size, device=device, dtype=fast_dtype(device)) for _ in range(2))
    return max(2 * size**3 / timed(device, torch.matmul, left, right) for _ in range(10))
