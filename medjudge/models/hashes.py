"""The sha256 of large files, remembered on this machine, and what of a base model changes a score."""

import os
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from medjudge.files import file_sha256, write_whole
from medjudge.models.loading import files_of_model
from medjudge.models.packaged import SOURCE_FILE, cache_folder

_WORTH_REMEMBERING = 1 << 20
"""Bytes. A smaller file is read again each time."""
_SETTLED = 2.0
"""Seconds. A file that was changed later than this before it was read may change again within one tick of the file
system's clock, and its hash is not remembered."""
_TOKENIZER_SUFFIXES = (".json", ".txt", ".model", ".jinja")
_MODEL_CONFIGS = ("config.json", "generation_config.json")


def cached_sha256(path: Path) -> str:
    """The sha256 of a file. That of a large file is remembered under `~/.cache/medjudge` ($XDG_CACHE_HOME).

    A remembered hash counts only for the same path, inode, size, time of change of the content and of the inode: the
    latter cannot be set back.
    """
    path = path.resolve()
    status = path.stat()
    if status.st_size < _WORTH_REMEMBERING or not cache_folder().is_absolute():
        return file_sha256(path)
    entry = _entry(path, status)
    with suppress(OSError, UnicodeDecodeError):
        if len(remembered := entry.read_text(encoding="ascii")) == len(sha256().hexdigest()):
            return remembered
    start = time.time()
    digest = file_sha256(path)
    settled = start - max(status.st_mtime_ns, status.st_ctime_ns) / 1e9 > _SETTLED
    if settled and _entry(path, path.stat()) == entry:
        with suppress(OSError):  # a cache that cannot be written costs time only
            write_whole(entry, digest)
    return digest


def _entry(path: Path, status: os.stat_result) -> Path:
    state = (path, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return cache_folder() / "sha256" / sha256(os.fsencode("\n".join(map(str, state)))).hexdigest()


def base_hashes(model_id: str, revision: str | None, tokenizer: bool) -> dict[str, str]:
    """The identity of a base model: the sha256 of its weights and configs by file name.

    Files, not the hub's commit, so that a model is the same from the hub's cache and from a folder.

    Args:
        tokenizer: Whether its tokenizer files count too.

    Raises:
        InputError: The model cannot be had.
    """
    return {
        file.name: cached_sha256(file)
        for file in files_of_model(model_id, revision)
        if file.name != SOURCE_FILE
        if tokenizer or file.name in _MODEL_CONFIGS or file.name.endswith((".safetensors", ".index.json"))
    }


def folder_hashes(folder: Path) -> dict[str, str]:
    """The sha256 of the files of a judge folder that `transformers` and `peft` may read, by file name."""
    return {
        str(path.relative_to(folder)): cached_sha256(path)
        for path in sorted([*folder.iterdir(), *folder.glob("additional_chat_templates/*")])
        if path.is_file() and path.suffix in (".safetensors", *_TOKENIZER_SUFFIXES)
    }
