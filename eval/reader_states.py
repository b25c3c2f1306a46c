"""Token states on disk: each text is encoded once, and an interrupted run goes on where it stopped."""

import hashlib
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from medjudge.judge.states import LAYERS, FrozenEncoder, TextStates
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.packaged import MULTILINGUAL_E5

MAX_LENGTH, MOST_WINDOWS = 512, 3
WIDTH = 384
_PART = 256
"""How many texts are encoded before they are written."""


def encoder() -> FrozenEncoder:
    """The published encoder, as the judge reads with it."""
    model = load_encoder(MULTILINGUAL_E5).eval()
    return FrozenEncoder(model, load_tokenizer(MULTILINGUAL_E5), MAX_LENGTH, MOST_WINDOWS)


class StateStore:
    """The states of many texts in one folder, read through memory maps.

    Args:
        folder: Holds index.jsonl and one file of rows for each field.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.index: dict[str, tuple[int, int, int, int]] = {}
        path = folder / "index.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        for number, line in enumerate(lines):
            name, start, count, left_out = json.loads(line)
            self.index[name] = (number, start, count, left_out)
        self.rows = sum(entry[2] for entry in self.index.values())
        self._open()

    def _open(self) -> None:
        def mapped(name: str, dtype: str, rows: int, columns: int) -> np.ndarray:
            path = self.folder / name
            if not path.exists() or rows == 0:
                return np.zeros((0, columns), dtype)
            return np.memmap(path, dtype, "r", shape=(rows, columns))

        self.ids = mapped("ids.bin", "int32", self.rows, 1)
        self.spans = mapped("spans.bin", "int32", self.rows, 2)
        self.states = mapped("states.bin", "float16", self.rows, len(LAYERS) * WIDTH)
        self.wholes = mapped("wholes.bin", "float32", len(self.index), WIDTH)

    def __getitem__(self, text: str) -> TextStates:
        number, start, count, left_out = self.index[_name(text)]
        rows = slice(start, start + count)
        return TextStates(self.ids[rows, 0], self.spans[rows], self.states[rows], self.wholes[number], left_out)

    def __contains__(self, text: str) -> bool:
        return _name(text) in self.index

    def add(self, texts: Iterable[str], reader: FrozenEncoder) -> None:
        """Encodes the texts that are missing, those of similar length together."""
        missing = sorted({text for text in texts if text and text not in self}, key=len)
        start = time.monotonic()
        for at in range(0, len(missing), _PART):
            part = missing[at : at + _PART]
            self._append(part, reader.read(part))
            seconds = time.monotonic() - start
            print(
                f"{at + len(part):,} of {len(missing):,} texts, {self.rows:,} tokens, {seconds:,.0f} s",
                file=sys.stderr,
                flush=True,
            )
        self._open()

    def _append(self, texts: list[str], read: list[TextStates]) -> None:
        fields = {
            "ids.bin": (np.concatenate([each.ids for each in read]).astype(np.int32), 4),
            "spans.bin": (np.concatenate([each.spans for each in read]).astype(np.int32), 8),
            "states.bin": (np.concatenate([each.states for each in read]), 2 * len(LAYERS) * WIDTH),
        }
        for name, (values, size) in fields.items():
            _write_at(self.folder / name, self.rows * size, values)
        wholes = np.stack([each.whole for each in read])
        _write_at(self.folder / "wholes.bin", len(self.index) * 4 * WIDTH, wholes)
        with (self.folder / "index.jsonl").open("a") as lines:
            for text, each in zip(texts, read, strict=True):
                entry = (len(self.index), self.rows, len(each.ids), each.left_out)
                self.index[_name(text)] = entry
                self.rows += len(each.ids)
                lines.write(json.dumps([_name(text), *entry[1:]]) + "\n")


def _write_at(path: Path, position: int, values: np.ndarray) -> None:
    """Writes behind what the index knows of: what a killed run left there is overwritten."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.seek(position)
        file.write(values.tobytes())


def _name(text: str) -> str:
    return hashlib.sha1(text.encode("utf-8"), usedforsecurity=False).hexdigest()
