"""Refusals of judge and model folders: code that runs as it is loaded, and sizes that the weights do not have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import safe_open

from medjudge.errors import InputError
from medjudge.files import clipped

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")
_CONFIGS = ("config.json", "tokenizer_config.json", "generation_config.json", "processor_config.json")
_IMPLEMENTATIONS = (None, "eager", "sdpa", "flex_attention", "batched_mm", "grouped_mm")
"""Implementations that transformers has. Another name may be one of the hub, whose code it would fetch and run."""
_SIZES = {
    "layers": re.compile(r"depth|num_blocks|((num|n|encoder|decoder)_)+(hidden_)?layers?"),
    "width": re.compile(
        r"(\w+_)?(hidden_size|intermediate_size|vocab_size|embedding_size|d_model|d_ff|n_embd|n_inner|ffn_dim|"
        r"hidden_dim|heads|experts)"
    ),
    "window": re.compile("max_position_embeddings"),
}
"""The entries of a config that decide how much memory a model takes."""
_LONGEST_WINDOW = 1 << 24
"""Tokens: positions need no weights, and take memory."""


def refuse_pickles(folder: Path, named: str) -> None:
    """Refuses a folder with files in Python's pickle format, which runs code as it is read.

    Subfolders are not looked at: nothing is loaded from them, and the trainer's own checkpoints lie in one.

    Args:
        folder: A judge or model folder.
        named: How a message names it.

    Raises:
        InputError: There is such a file, or an index of weights names something other than safetensors files in it.
    """
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in _PICKLES)
    if pickles:
        raise InputError(
            f"{named}: {', '.join(pickles[:3])}{' and others' if len(pickles) > 3 else ''} may be in pickle format, "
            "which can run code; remove it: weights are read from *.safetensors only"
        )
    for index in sorted(folder.glob("*.index.json")):
        weight_map = _fields(index).get("weight_map")
        for name in sorted(map(str, weight_map.values())) if isinstance(weight_map, dict) else ():
            if not name.endswith(".safetensors") or Path(name).name != name:
                raise InputError(
                    f"{index}: names {name[:80]!r}; it may name *.safetensors files of its own folder only"
                )


def names_own_code(folder: Path) -> Path | None:
    """The config in a model folder that names Python code to run; None where none does."""
    return next((folder / name for name in _CONFIGS if "auto_map" in _fields(folder / name)), None)


def refuse_foreign_kernels(config: dict[str, Any], named: str) -> None:
    """Refuses a model's config that names an implementation of attention which transformers does not bring itself.

    Args:
        config: The fields of `config.json`, nested ones included.
        named: How a message names the file.

    Raises:
        InputError: It names one, such as `owner/kernel`, which transformers would fetch from the hub and run.
    """
    for name, value in _entries(config):
        if "_implementation" in name:
            for each in value.values() if isinstance(value, dict) else [value]:
                if not isinstance(each, (str, type(None))) or each not in _IMPLEMENTATIONS:
                    raise InputError(
                        f"{named}: {name[:80]} is {clipped(each)}, whose code may come from the hub; remove the entry, "
                        "or name eager, sdpa or flex_attention"
                    )


def refuse_other_sizes(config: dict[str, Any], folder: Path) -> None:
    """Refuses a config that asks for more than its weights have, before a model of that size takes memory.

    Raises:
        InputError: It counts more layers than there are tensors, or is wider than each of them.
        SafetensorError: A file of weights is corrupt.
    """
    tensors, widest = 0, 0
    for file in folder.glob("*.safetensors"):
        with safe_open(file, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118, no mapping
                tensors += 1
                widest = max([widest, *weights.get_slice(name).get_shape()])
    limits = {"layers": tensors, "width": widest, "window": _LONGEST_WINDOW}
    for name, value in _entries(config) if tensors else ():
        kind = next((kind for kind, pattern in _SIZES.items() if pattern.fullmatch(name)), None)
        size = value if isinstance(value, int) else 0
        if isinstance(value, dict):  # a layer's heads, side by side, are one of its widths
            heads, width = value.get("num_attention_heads"), value.get("head_dim")
            kind, size = "width", heads * width if isinstance(heads, int) and isinstance(width, int) else 0
        if kind is not None and size > limits[kind]:
            raise InputError(
                f"{folder / 'config.json'}: {name or 'num_attention_heads times head_dim'} is {clipped(size)}, and "
                f"the model beside it has {tensors} tensors, none wider than {widest}; restore the file"
            )


def _entries(config: object) -> Iterator[tuple[str, Any]]:
    """The names and values of a JSON object, itself first, and of all objects in it."""
    waiting: list[tuple[str, object]] = [("", config)]
    while waiting:
        name, value = waiting.pop()
        yield name, value
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [("", inner) for inner in value]


def _fields(path: Path) -> dict[str, object]:
    """The fields of a JSON object; none where the file is missing or broken, which its reader reports."""
    try:
        fields = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
