"""Reads files as data sets are published: a folder of them, packed with gzip, or together in a zip archive."""

import gzip
import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medjudge.errors import InputError
from medjudge.files import LARGEST_DOCUMENT, decoded, parse_json, read_bytes

_LIMIT = f"{LARGEST_DOCUMENT >> 20} MiB"


def files_in(paths: Sequence[Path], *endings: str) -> list[Path]:
    """The files, and of each folder those whose names have one of these endings, by name.

    Raises:
        InputError: A folder holds no such file, or two files have the same name, which names a model or a set.
    """
    files: dict[str, Path] = {}
    for path in paths:
        found = sorted(file for file in path.iterdir() if file.name.endswith(endings)) if path.is_dir() else [path]
        if not found:
            raise InputError(f"{path}: no file in it that ends in {' or '.join(endings)}")
        for file in found:
            name = file.name.removesuffix(".gz")
            if name in files:
                raise InputError(f"{file}: has the name of {files[name]}; name each file once")
            files[name] = file
    return list(files.values())


def read_unpacked(path: Path) -> str:
    """The text of a file, or of what a `.gz` file holds.

    Raises:
        InputError: The file cannot be read, is damaged, or is larger than 256 MiB unpacked.
    """
    data = read_bytes(path)
    if path.suffix == ".gz":
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
                data = file.read(LARGEST_DOCUMENT + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: not valid gzip ({error}); get the file again") from None
        if len(data) > LARGEST_DOCUMENT:
            raise InputError(f"{path}: more than {_LIMIT} unpacked, which is the limit")
    return decoded(path, data)


def read_zip(path: Path, *endings: str) -> dict[str, str]:
    """The texts of an archive's files whose names have one of these endings, by name; those of macOS are left out.

    Raises:
        InputError: The file cannot be read, is damaged or encrypted, or the texts have more than 256 MiB together.
    """
    texts, size = {}, 0
    try:
        with zipfile.ZipFile(io.BytesIO(read_bytes(path))) as archive:
            for info in archive.infolist():
                if not info.filename.endswith(endings) or info.filename.startswith("__MACOSX/"):
                    continue
                size += info.file_size
                if size > LARGEST_DOCUMENT:
                    raise InputError(f"{path}, {info.filename}: more than {_LIMIT} unpacked, which is the limit")
                texts[info.filename] = decoded(path, archive.read(info))
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError) as error:
        raise InputError(f"{path}: not a readable zip archive ({error}); get the file again") from None
    return texts


def read_list(path: Path) -> list[tuple[str, Any]]:
    """Place and value of each entry of a JSON list, packed or not.

    Raises:
        InputError: The file cannot be read, or holds no such list.
    """
    text = read_unpacked(path)
    try:
        entries = parse_json(text)
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path}: a list of objects is expected")
    return [(f"[{number}]", entry) for number, entry in enumerate(entries)]
