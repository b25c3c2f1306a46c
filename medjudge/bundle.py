"""The archive that `medjudge pack` writes: a tar of plain files in which the manifest determines every byte.

    manifest.json            what is packed, and path, size and sha256 of every file
    SHA256SUMS               the same sums for `sha256sum --check`, and those of the manifest and its signature
    manifest.json.minisig    optional
    ...                      the files, in the manifest's order

The reader knows from the manifest which bytes must follow, headers included. So there is no member that it could
misunderstand: a link, a device, a folder, a second file of a name or a byte behind the end is a difference.
"""

import os
import shutil
import tarfile
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, BinaryIO, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from medjudge.errors import InputError
from medjudge.files import file_sha256, first_problem, model_from_json, remove_leftovers, temporary_beside

MANIFEST, SUMS, SIGNATURE = "manifest.json", "SHA256SUMS", "manifest.json.minisig"
_LARGEST = {MANIFEST: 16 << 20, SUMS: 16 << 20, SIGNATURE: 16 << 10}
_LONGEST_PATH, _DEEPEST = 500, 10
_CHUNK = 1 << 20
_FIX = "nothing was unpacked; copy the bundle again or have it packed again"


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PackedFile(_Data):
    """A file of a bundle. Its path is relative and written with slashes."""

    path: str
    size: int = Field(ge=0, lt=1 << 50)
    sha256: str = Field(pattern=r"\A[0-9a-f]{64}\z")

    @model_validator(mode="after")
    def _require_a_path_inside(self) -> "PackedFile":
        if problem := _problem_with(self.path):
            raise ValueError(f"{ascii(self.path)[:80]} {problem}")
        return self


def _plain(text: str) -> str:
    if any(unicodedata.category(character).startswith("C") for character in text):
        raise ValueError("has a control character")
    return text


def _name(text: str) -> str:
    if problem := "is a path, not a name" if "/" in text else _problem_with(text):
        raise ValueError(f"{ascii(text)[:80]} {problem}")
    return text


_Line = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_plain)]
_Name = Annotated[str, Field(min_length=1, max_length=200, pattern=r"\A[^-~]"), AfterValidator(_name)]
_Count = Annotated[int, Field(ge=0)]
_Tag = Annotated[str, Field(pattern=r"\A[A-Za-z0-9_.]{1,100}\z")]


class About(_Data):
    """The contents of a bundle. `python` and `platforms` are those of its wheels, `None` and empty without any.

    Whoever unpacks a bundle sees these texts, and runs a command with some of them in it.
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
        taken = {MANIFEST.casefold(), SUMS.casefold(), SIGNATURE.casefold()}
        folders = {"/".join(parts[:depth]) for parts in (p.split("/") for p in plain) for depth in range(1, len(parts))}
        for path, file in zip(plain, self.files, strict=True):
            if path in taken or path in folders:
                raise ValueError(f"{ascii(file.path)[:80]} occurs twice")
            taken.add(path)
        return self


def _problem_with(path: str) -> str | None:
    """Why a path may not be in a bundle; None if it may."""
    if any(unicodedata.category(character).startswith("C") for character in path):
        return "has a control character"
    if path.startswith("/") or "\\" in path or ":" in path:
        return "is not a relative path"
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "leads outside"
    if len(path.encode()) > _LONGEST_PATH or len(parts) > _DEEPEST:
        return f"is longer than {_LONGEST_PATH} bytes or deeper than {_DEEPEST} folders"
    return None


class Written(NamedTuple):
    """A bundle that was written: its manifest, and the sha256 of the manifest."""

    manifest: Manifest
    manifest_sha256: str


def write_bundle(
    out: Path, sources: Mapping[str, Path], version: str, about: About, sign: Callable[[bytes], bytes] | None = None
) -> Written:
    """Writes a bundle, all of it or nothing. The same files give the same bytes, but for a signature.

    Args:
        out: The archive, which must not exist.
        sources: The files, by their paths in the bundle.
        version: The version of medjudge.
        sign: Makes a signature of the manifest.

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
    signature = None if sign is None else sign(data)
    temporary = temporary_beside(out)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("xb") as archive:
            for name, content in _own_files(manifest, data, signature):
                archive.write(_header(name, len(content)) + content + _padding(len(content)))
            for file in packed:
                _append(archive, file, sources[file.path])
            archive.write(bytes(2 * tarfile.BLOCKSIZE))
            archive.flush()
            os.fsync(archive.fileno())
        os.replace(temporary, out)
    except OSError as error:
        raise InputError(f"--out {out}: {(error.strerror or str(error)).lower()}; nothing was written") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    return Written(manifest, sha256(data).hexdigest())


def _own_files(manifest: Manifest, data: bytes, signature: bytes | None) -> list[tuple[str, bytes]]:
    """The head of a bundle, before the packed files."""
    first = [(MANIFEST, data)]
    signatures = [] if signature is None else [(SIGNATURE, signature)]
    hashes = [(sha256(content).hexdigest(), name) for name, content in first + signatures]
    hashes += [(file.sha256, file.path) for file in manifest.files]
    sums = "".join(f"{digest}  {name}\n" for digest, name in hashes).encode()
    return [*first, (SUMS, sums), *signatures]


def _header(name: str, size: int) -> bytes:
    """The one tar header that a file of this name and size has in a bundle."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _padding(size: int) -> bytes:
    return bytes(-size % tarfile.BLOCKSIZE)


def _append(archive: BinaryIO, file: PackedFile, source: Path) -> None:
    archive.write(_header(file.path, file.size))
    digest, written = sha256(), 0
    with source.open("rb") as content:
        while chunk := content.read(_CHUNK):
            digest.update(chunk)
            written += archive.write(chunk)
    if (digest.hexdigest(), written) != (file.sha256, file.size):
        raise InputError(f"{source}: changed while it was packed; nothing was written, pack again")
    archive.write(_padding(file.size))


def unpack_bundle(archive: Path, target: Path, verify: Callable[[bytes, bytes | None], None]) -> Manifest:
    """Checks every byte of a bundle, and only then puts its files into place.

    Args:
        target: The folder to write, which must not exist.
        verify: Looks at the manifest and its signature before any other file is read; raises InputError.

    Raises:
        InputError: The bundle is not what its manifest says, the target exists, or the disk is full. Nothing is left.
    """
    if os.path.lexists(target):
        raise InputError(f"--out {target}: exists already; choose another folder or remove it")
    if not archive.is_file():
        raise InputError(f"{archive}: no such file; a bundle is what `medjudge pack` writes")
    try:
        with archive.open("rb") as file:
            reader = _Reader(file, archive)
            manifest = reader.manifest(verify)
            target.parent.mkdir(parents=True, exist_ok=True)
            _require_space(archive, target.parent, manifest)
            with _staging(target) as folder:
                for packed in manifest.files:
                    reader.extract(packed, folder)
                reader.require_end()
                for name, content in reader.own_files:
                    (folder / name).write_bytes(content)
                os.rename(folder, target)
    except OSError as error:
        raise InputError(f"--out {target}: {(error.strerror or str(error)).lower()}; nothing was unpacked") from None
    return manifest


def _require_space(archive: Path, folder: Path, manifest: Manifest) -> None:
    needed, free = sum(file.size for file in manifest.files), shutil.disk_usage(folder).free
    if archive.stat().st_size < needed:
        raise InputError(f"{archive}: ends early; {_FIX}")
    if needed > free:
        raise InputError(
            f"{folder}: the bundle needs {needed / 1e9:.1f} GB and {free / 1e9:.1f} GB are free; free some"
        )


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """A private folder beside the target; what is left of it at the end is removed."""
    name = f".{target.name[:80]}"
    remove_leftovers(target.parent, f"{escape(name)}.*.part")
    folder = Path(mkdtemp(prefix=f"{name}.", suffix=f".{os.getpid()}.part", dir=target.parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Reader:
    """Reads an archive from its start, and compares every byte with what the manifest asks for."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.file = file
        self.path = path
        self.own_files: list[tuple[str, bytes]] = []
        self.known: set[str] = set()
        self.seen = {MANIFEST}

    def manifest(self, verify: Callable[[bytes, bytes | None], None]) -> Manifest:
        data = self._own_file(MANIFEST)
        sums = self._own_file(SUMS)
        signed = sums.split(b"\n", 2)[1:2] == [f"{self._peeked_hash()}  {SIGNATURE}".encode()]
        signature = self._own_file(SIGNATURE) if signed else None
        try:
            manifest = model_from_json(Manifest, data.decode("utf-8"))
        except ValueError as error:
            raise InputError(f"{self.path}, {MANIFEST}: {first_problem(error)}; {_FIX}") from None
        self.own_files = _own_files(manifest, data, signature)
        if dict(self.own_files)[SUMS] != sums:
            raise InputError(f"{self.path}: {MANIFEST} or {SUMS} was changed; {_FIX}")
        verify(data, signature)
        self.known = {file.path for file in manifest.files}
        return manifest

    def extract(self, packed: PackedFile, folder: Path) -> None:
        self._require(_header(packed.path, packed.size), packed.path)
        self.seen.add(packed.path)
        place = folder / packed.path
        place.parent.mkdir(parents=True, exist_ok=True)
        digest, left = sha256(), packed.size
        with place.open("xb") as out:
            while left:
                chunk = self.file.read(min(_CHUNK, left))
                if not chunk:
                    raise InputError(f"{self.path}: ends inside {packed.path}; {_FIX}")
                digest.update(chunk)
                out.write(chunk)
                left -= len(chunk)
        if digest.hexdigest() != packed.sha256 or self.file.read(-packed.size % 512) != _padding(packed.size):
            raise InputError(f"{self.path}: {packed.path} was changed; {_FIX}")

    def require_end(self) -> None:
        end = self.file.read(3 * tarfile.BLOCKSIZE)
        if end != bytes(2 * tarfile.BLOCKSIZE):
            raise InputError(f"{self.path}: {self._difference(end, 'the end')}; {_FIX}")

    def _own_file(self, name: str) -> bytes:
        """A file that stands before the packed ones; its size is the one thing that is taken from a header."""
        start = self.file.tell()
        size = _size(self.file.read(tarfile.BLOCKSIZE))
        if size is None or not 0 <= size <= _LARGEST[name]:
            raise InputError(f"{self.path}: not a bundle of `medjudge pack`, or a damaged one; {_FIX}")
        self.file.seek(start)
        self._require(_header(name, size), name)
        content, padding = self.file.read(size), self.file.read(-size % tarfile.BLOCKSIZE)
        if len(content) < size or padding != _padding(size):
            raise InputError(f"{self.path}: {name} was changed or cut off; {_FIX}")
        self.seen.add(name)
        return content

    def _peeked_hash(self) -> str:
        """The sha256 that a signature at this place would have."""
        start = self.file.tell()
        size = _size(self.file.read(tarfile.BLOCKSIZE))
        content = self.file.read(size) if size is not None and 0 <= size <= _LARGEST[SIGNATURE] else b""
        self.file.seek(start)
        return sha256(content).hexdigest()

    def _require(self, header: bytes, name: str) -> None:
        found = self.file.read(len(header))
        if found != header:
            raise InputError(f"{self.path}: {self._difference(found, name)}; {_FIX}")

    def _difference(self, found: bytes, expected: str) -> str:
        """Explains a header that is not the one the manifest asks for."""
        try:
            info = tarfile.TarInfo.frombuf(found[: tarfile.BLOCKSIZE], "utf-8", "surrogateescape")
        except tarfile.HeaderError:
            return f"damaged or cut off at {expected}"
        name = ascii(info.name)[:80]
        kinds = {tarfile.SYMTYPE: "a link", tarfile.LNKTYPE: "a link", tarfile.DIRTYPE: "a folder"}
        if info.type in kinds or info.isdev():
            return f"{name} is {kinds.get(info.type, 'a device or a pipe')}, and a bundle holds only plain files"
        if problem := _problem_with(info.name):
            return f"the path {name} {problem}"
        if info.name in self.seen:
            return f"{name} occurs twice"
        if info.name not in self.known and info.name not in _LARGEST:
            return f"{name} is not in the manifest"
        return f"{expected} is missing or was changed"


def _size(block: bytes) -> int | None:
    """The size that a tar header names; None if it is no header."""
    try:
        return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape").size
    except tarfile.HeaderError:
        return None
