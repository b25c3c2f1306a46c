"""The archive that `medjudge pack` writes: a tar of plain files, listed in its manifest.

manifest.json            what is packed, and path, size and sha256 of every file
SHA256SUMS               the same sums for `sha256sum --check`, and that of the manifest
...                      the files, in the manifest's order
"""

import io
import os
import shutil
import tarfile
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from medjudge.errors import InputError
from medjudge.files import file_sha256, first_problem, model_from_json, remove_leftovers, temporary_beside

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
_LARGEST = 16 << 20
_EARLIER_SIGNATURE = "manifest.json.minisig"
"""Bundles of earlier versions may have a signature of the manifest after the sums; it is put into place unchecked."""
_LONGEST_PATH, _DEEPEST = 500, 10
_FIX = "nothing was unpacked; copy the bundle again or have it packed again"


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _plain(text: str) -> str:
    if any(unicodedata.category(character).startswith("C") for character in text):
        raise ValueError("has a control character")
    return text


def _inside(path: str) -> str:
    parts = _plain(path).split("/")
    if "\\" in path or ":" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{ascii(path)[:80]} is not a relative path inside the bundle")
    if len(path.encode()) > _LONGEST_PATH or len(parts) > _DEEPEST:
        raise ValueError(f"{path[:80]} is longer than {_LONGEST_PATH} bytes or deeper than {_DEEPEST} folders")
    return path


_Line = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_plain)]
_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\A[^-~/][^/]*\z"), AfterValidator(_inside)]
_Count = Annotated[int, Field(ge=0)]
_Tag = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_.]{1,100}\z")]


class PackedFile(_Data):
    """A file of a bundle. Its path is relative and written with slashes."""

    path: Annotated[str, AfterValidator(_inside)]
    size: int = Field(ge=0, lt=1 << 50)
    sha256: str = Field(pattern=r"\A[0-9a-f]{64}\z")


class About(_Data):
    """The contents of a bundle. Whoever unpacks it sees these texts, and runs a command with some of them in it.

    `python` and `platforms` are those of the wheels that bundles of earlier versions may hold.
    """

    judge: _Name
    kind: Literal["generative", "ordinal", "similarity"]
    base_model: _Line
    base_revision: _Line | None
    questions: _Count
    answers: _Count
    scheme: _Line
    scheme_sha256: str = Field(pattern=r"\A[0-9a-f]{64}\z")
    python: str | None = Field(default=None, pattern=r"\A3\.[0-9]{1,2}\z")
    platforms: list[_Tag] = Field(default=[], max_length=50)


class Manifest(_Data):
    """`manifest.json`."""

    format: Literal[1] = 1
    medjudge: str = Field(description="the version that packed it", pattern=r"\A[0-9A-Za-z.+!-]{1,100}\z")
    about: About
    files: list[PackedFile] = Field(min_length=1, max_length=100_000)

    @model_validator(mode="after")
    def _require_one_file_per_path(self) -> "Manifest":
        # Some file systems do not tell upper from lower case, or two ways to write an accent.
        plain = [unicodedata.normalize("NFC", file.path).casefold() for file in self.files]
        taken = {name.casefold() for name in (MANIFEST, SUMS, _EARLIER_SIGNATURE)}
        folders = {"/".join(parts[:depth]) for parts in (p.split("/") for p in plain) for depth in range(1, len(parts))}
        for path, file in zip(plain, self.files, strict=True):
            if path in taken or path in folders:
                raise ValueError(f"{ascii(file.path)[:80]} occurs twice")
            taken.add(path)
        return self


def write_bundle(out: Path, sources: Mapping[str, Path], version: str, about: About) -> tuple[Manifest, str]:
    """Writes a bundle, all of it or nothing. The same files give the same bytes.

    Args:
        out: The archive, which must not exist.
        sources: The files, by their paths in the bundle.
        version: The version of medjudge.
        about: The manifest's description of the contents.

    Returns:
        The manifest, and its sha256.

    Raises:
        InputError: The archive exists, a file cannot be packed or changes meanwhile, or the disk is full.
    """
    if out.exists():
        raise InputError(f"--out {out}: exists already; choose another name or remove it")
    try:
        packed = [
            PackedFile(path=path, size=file.stat().st_size, sha256=file_sha256(file))
            for path, file in sorted(sources.items())
        ]
        manifest = Manifest(medjudge=version, about=about, files=packed)
    except ValidationError as error:
        raise InputError(f"--out {out}: {first_problem(error)}; rename it") from None
    data = (manifest.model_dump_json(indent=2) + "\n").encode()
    temporary = temporary_beside(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(temporary, "x", format=tarfile.GNU_FORMAT) as archive:
            for name, content in ((MANIFEST, data), (SUMS, _sums(manifest, data))):
                archive.addfile(_member(name, len(content)), io.BytesIO(content))
            for file in packed:
                with sources[file.path].open("rb") as source:
                    archive.addfile(_member(file.path, file.size), source)
                if file_sha256(sources[file.path]) != file.sha256:
                    raise InputError(
                        f"{sources[file.path]}: changed while it was packed; nothing was written, pack again"
                    )
        os.replace(temporary, out)
    except OSError as error:
        raise InputError(f"--out {out}: {(error.strerror or str(error)).lower()}; nothing was written") from None
    finally:
        with suppress(OSError):  # a parent that is a file
            temporary.unlink(missing_ok=True)
    return manifest, sha256(data).hexdigest()


def _sums(manifest: Manifest, data: bytes) -> bytes:
    hashes = [(sha256(data).hexdigest(), MANIFEST), *((file.sha256, file.path) for file in manifest.files)]
    return "".join(f"{digest}  {name}\n" for digest, name in hashes).encode()


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info


def unpack_bundle(archive: Path, target: Path) -> Manifest:
    """Checks every file of a bundle, and only then puts them into place.

    Args:
        target: The folder to write, which must not exist.

    Raises:
        InputError: The bundle is not what its manifest says, the target exists, or the disk is full. Nothing is left.
    """
    if os.path.lexists(target):
        raise InputError(f"--out {target}: exists already; choose another folder or remove it")
    if not archive.is_file():
        raise InputError(f"{archive}: no such file; a bundle is what `medjudge pack` writes")
    try:
        with tarfile.open(archive, "r:", encoding="utf-8") as tar:
            members = iter(tar)
            data, manifest = _manifest(tar, members, archive)
            target.parent.mkdir(parents=True, exist_ok=True)
            needed, free = sum(file.size for file in manifest.files), shutil.disk_usage(target.parent).free
            if archive.stat().st_size < needed:
                raise InputError(f"{archive}: ends early; {_FIX}")
            if needed > free:
                sizes = f"the bundle needs {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free"
                raise InputError(f"{target.parent}: {sizes}; free some")
            prefix, suffix = f".{target.name[:80]}.", f".{os.getpid()}.part"
            remove_leftovers(target.parent, f"{escape(prefix)}*.part")
            with TemporaryDirectory(prefix=prefix, suffix=suffix, dir=target.parent) as staging:
                folder = Path(staging)
                _extract(tar, members, manifest, folder, archive)
                (folder / MANIFEST).write_bytes(data)
                (folder / SUMS).write_bytes(_sums(manifest, data))
                os.rename(folder, target)
    except tarfile.TarError:
        raise InputError(f"{archive}: not a bundle of `medjudge pack`, or a damaged one; {_FIX}") from None
    except OSError as error:
        raise InputError(f"--out {target}: {(error.strerror or str(error)).lower()}; nothing was unpacked") from None
    return manifest


def _manifest(tar: tarfile.TarFile, members: Iterator[tarfile.TarInfo], archive: Path) -> tuple[bytes, Manifest]:
    own = []
    for name in (MANIFEST, SUMS):
        member = next(members, None)
        content = None if member is None or not member.isreg() else tar.extractfile(member)
        if content is None or member is None or member.name != name or member.size > _LARGEST:
            raise InputError(f"{archive}: not a bundle of `medjudge pack`, or a damaged one; {_FIX}")
        own.append(content.read())
    try:
        manifest = model_from_json(Manifest, own[0].decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{archive}, {MANIFEST}: {first_problem(error)}; {_FIX}") from None
    sums = [line for line in own[1].splitlines() if not line.endswith(f"  {_EARLIER_SIGNATURE}".encode())]
    if sums != _sums(manifest, own[0]).splitlines():
        raise InputError(f"{archive}: {MANIFEST} or {SUMS} was changed; {_FIX}")
    return own[0], manifest


def _extract(
    tar: tarfile.TarFile, members: Iterator[tarfile.TarInfo], manifest: Manifest, folder: Path, archive: Path
) -> None:
    """Writes the files of the manifest, which are the only members that may follow, in its order."""
    missing = {file.path: file for file in manifest.files}
    for member in members:
        file = missing.pop(member.name, None)
        content = tar.extractfile(member) if member.isreg() else None
        if member.name == _EARLIER_SIGNATURE and content is not None and member.size <= _LARGEST:
            (folder / _EARLIER_SIGNATURE).write_bytes(content.read())
            continue
        if file is None or content is None:
            name = ascii(member.name)[:80]
            raise InputError(f"{archive}: {name} is no plain file of the manifest, or is there twice; {_FIX}")
        if member.size != file.size:  # before it is written: a sparse member of a small archive may fill the disk
            raise InputError(f"{archive}: {file.path} was changed; {_FIX}")
        place = folder / file.path
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as out:
            shutil.copyfileobj(content, out)
        if file_sha256(place) != file.sha256:
            raise InputError(f"{archive}: {file.path} was changed; {_FIX}")
    if missing:
        raise InputError(f"{archive}: {next(iter(missing))} is missing; {_FIX}")
