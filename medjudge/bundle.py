"""The archive that `medjudge pack` writes: a tar of plain files, listed in its manifest.

manifest.json            what is packed, and path, size and sha256 of every file
SHA256SUMS               the same sums for `sha256sum --check`, and that of the manifest
...                      the files, in the manifest's order
"""

import io
import os
import tarfile
from collections.abc import Mapping
from contextlib import suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from medjudge.errors import InputError
from medjudge.files import file_sha256, first_problem, model_from_json, remove_leftovers, temporary_beside

MANIFEST, SUMS = "manifest.json", "SHA256SUMS"
_LARGEST = 16 << 20
_EARLIER_SIGNATURE = "manifest.json.minisig"
"""Bundles of earlier versions may have a signature of the manifest after the sums; it is put into place unchecked."""
_FIX = "nothing was unpacked; copy the bundle again or have it packed again"

_Count = Annotated[int, Field(ge=0)]
_Sha256 = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError(f"{ascii(path)[:80]} is not a relative path inside the bundle")
    return path


class PackedFile(_Data):
    """A file of a bundle. Its path is relative and written with slashes."""

    path: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_inside)]
    size: _Count
    sha256: _Sha256


class About(_Data):
    """The contents of a bundle. Whoever unpacks it sees these texts, and runs a command with the judge's name in it.

    `python` and `platforms` are those of the wheels that bundles of earlier versions may hold.
    """

    judge: Annotated[str, Field(max_length=200, pattern=r"\A[^-~./][^/]*\z")]
    kind: Literal["generative", "ordinal", "similarity"]
    base_model: str
    base_revision: str | None
    questions: _Count
    answers: _Count
    scheme: str
    scheme_sha256: _Sha256
    python: str | None = None
    platforms: list[str] = []


class Manifest(_Data):
    """`manifest.json`."""

    format: Literal[1] = 1
    medjudge: str = Field(description="the version that packed it")
    about: About
    files: list[PackedFile] = Field(min_length=1, max_length=100_000)


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
    if not hasattr(tarfile, "data_filter"):
        raise InputError(f"{archive}: this Python cannot unpack it safely; use Python 3.10.12, 3.11.4 or a later one")
    if not archive.is_file():
        raise InputError(f"{archive}: no such file; a bundle is what `medjudge pack` writes")
    try:
        with tarfile.open(archive, "r:", encoding="utf-8") as tar:
            data, manifest = _checked_manifest(tar, archive)
            target.parent.mkdir(parents=True, exist_ok=True)
            if archive.stat().st_size < sum(file.size for file in manifest.files):
                raise InputError(f"{archive}: ends early; {_FIX}")
            prefix, suffix = f".{target.name[:80]}.", f".{os.getpid()}.part"
            remove_leftovers(target.parent, f"{escape(prefix)}*.part")
            with TemporaryDirectory(prefix=prefix, suffix=suffix, dir=target.parent) as staging:
                folder = Path(staging)
                tar.extractall(folder, filter="data")
                for file in manifest.files:
                    if file_sha256(folder / file.path) != file.sha256:
                        raise InputError(f"{archive}: {file.path} was changed; {_FIX}")
                (folder / SUMS).write_bytes(_sums(manifest, data))
                os.rename(folder, target)
    except tarfile.TarError:
        raise InputError(f"{archive}: not a bundle of `medjudge pack`, or a damaged one; {_FIX}") from None
    except OSError as error:
        raise InputError(f"--out {target}: {(error.strerror or str(error)).lower()}; nothing was unpacked") from None
    return manifest


def _checked_manifest(tar: tarfile.TarFile, archive: Path) -> tuple[bytes, Manifest]:
    """The manifest of an archive that has the files it lists, in their sizes, and nothing else."""
    members = tar.getmembers()
    own = []
    for member, name in zip(members, (MANIFEST, SUMS), strict=False):
        content = tar.extractfile(member) if member.isreg() and member.name == name else None
        own += [content.read()] if content is not None and member.size <= _LARGEST else []
    if len(own) != 2:
        raise InputError(f"{archive}: not a bundle of `medjudge pack`, or a damaged one; {_FIX}")
    data, sums = own
    if f"{sha256(data).hexdigest()}  {MANIFEST}".encode() not in sums.splitlines():
        raise InputError(f"{archive}: {MANIFEST} or {SUMS} was changed; {_FIX}")
    try:
        manifest = model_from_json(Manifest, data.decode("utf-8"))
    except ValueError as error:
        raise InputError(f"{archive}, {MANIFEST}: {first_problem(error)}; {_FIX}") from None
    known = (MANIFEST, SUMS, _EARLIER_SIGNATURE)
    listed = {each.name: each.size for each in members[:3] if each.name in known and each.size <= _LARGEST}
    listed |= {file.path: file.size for file in manifest.files}
    for member in members:
        if not member.isreg() or listed.pop(member.name, None) != member.size:
            name = ascii(member.name)[:80]
            raise InputError(
                f"{archive}: {name} is no plain file of the manifest, is there twice or was changed; {_FIX}"
            )
    if listed:
        raise InputError(f"{archive}: {ascii(next(iter(listed)))[:80]} is missing; {_FIX}")
    return data, manifest
