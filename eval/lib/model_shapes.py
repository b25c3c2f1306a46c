"""Models with random weights in the shapes of published ones.

What such a model says means nothing. It takes the time and the memory of the published model, and needs no model hub.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from medjudge.models.hardware import fast_dtype


def _shape(*sizes: int) -> dict[str, Any]:
    """Arguments of Qwen3Config."""
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")
    return dict(zip((*names, "num_key_value_heads", "head_dim"), sizes, strict=True))


_TIED = {"tie_word_embeddings": True}
SIZES: dict[str, dict[str, Any]] = {
    "tiny": _shape(4000, 64, 128, 2, 4, 2, 16),
    "60M": _shape(8000, 640, 1792, 12, 10, 5, 64),
    "0.6B": _shape(151_936, 1024, 3072, 28, 16, 8, 128) | _TIED,
    "1.7B": _shape(151_936, 2048, 6144, 28, 16, 8, 128) | _TIED,
    "4B": _shape(151_936, 2560, 9728, 36, 32, 8, 128) | _TIED,
    "8B": _shape(151_936, 4096, 12_288, 36, 32, 8, 128) | {"tie_word_embeddings": False},
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


def speed_arguments(description: str, **counts: int) -> tuple[argparse.Namespace, str, str]:
    """The options of a script that times a random model: DATA, --size, --device and counts with their usual values.

    Returns:
        The options, the words that name them all, and the ending of the name of the result.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--size", choices=SIZES, default="60M")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    for name, count in counts.items():
        parser.add_argument(f"--{name}", type=int, default=count)
    options = parser.parse_args()
    words = " ".join(f"--{name} {value}" for name, value in vars(options).items() if name != "data")
    return options, words, options.device if options.size == "60M" else f"{options.device}-{options.size}"


def timed(device: torch.device, run: Callable[..., Any], *arguments: Any) -> float:
    """Seconds of wall time."""
    start = time.perf_counter()
    run(*arguments)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - start
