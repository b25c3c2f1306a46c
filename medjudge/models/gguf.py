"""GGUF files (llama.cpp's format) as folders that transformers opens: weights in bfloat16, config and tokenizer."""

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr
from functools import cache
from io import StringIO
from pathlib import Path

import gguf
import torch
from gguf.constants import LlamaFileType
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig
from transformers.utils.logging import disable_progress_bar

from medjudge.errors import InputError, notify
from medjudge.models.hardware import return_freed_memory


def convert(source: Path, folder: Path) -> None:
    """Converts a GGUF file, once: reading the vocabulary takes a minute.

    Args:
        source: The file, whatever its quantisation.
        folder: An existing folder; gets config.json, model.safetensors in bfloat16 and the tokenizer's files.

    Raises:
        InputError: transformers cannot read the file.
    """
    notify(f"converting {source.name} to safetensors; this takes about a minute, once ...")
    disable_progress_bar()
    where = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    try:
        # Without dequantize the weights stay in GGUF's blocks, which no adapter can be trained on.
        unpacked = {"quantization_config": GgufConfig(dequantize=True), "dtype": torch.bfloat16}
        with _read_once(), redirect_stderr(StringIO()):  # it has bars of its own
            model = AutoModelForCausalLM.from_pretrained(**where, **unpacked)
            tokenizer = AutoTokenizer.from_pretrained(**where)
    except (ValueError, KeyError, IndexError, RuntimeError, TypeError, AttributeError, NotImplementedError) as error:
        raise _unreadable(source, error) from None
    model.config.quantization_config = None
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    del model, tokenizer
    return_freed_memory()  # else 0.7 GB of Gemma 3 270M's conversion stay with the process


@contextmanager
def _read_once() -> Iterator[None]:
    """Has transformers parse a file once for config, weights and tokenizer: a vocabulary takes 10 s each time."""
    reader = gguf.GGUFReader
    gguf.GGUFReader = cache(reader)
    try:
        yield
    finally:
        gguf.GGUFReader = reader


def quantization(source: Path) -> str:
    """The quantisation that a GGUF file states, such as `Q4_K_M`; `unknown` where it states none.

    Raises:
        InputError: It is no GGUF file.
    """
    try:
        field = gguf.GGUFReader(source).get_field("general.file_type")
        return "unknown" if field is None else LlamaFileType(int(field.contents())).name.removeprefix("MOSTLY_")
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise _unreadable(source, error) from None


def _unreadable(source: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(f"model {source}: transformers cannot read this GGUF file ({reason}); take another model")
