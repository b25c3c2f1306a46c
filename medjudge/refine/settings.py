"""What a refinement folder was made from: written once, and compared whenever the folder is used again."""

from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.errors import InputError
from medjudge.files import parse_json, read_text, write_json

FILE = "settings.json"


class Settings(NamedTuple):
    """The content of `settings.json`."""

    judge: str
    judge_sha256: str
    rounds: int
    seed: int
    held_out: float
    fdr: float
    fdr_kept: float
    scores_and_texts_sha256: str


def claim_folder(folder: Path, settings: Settings) -> None:
    """Writes the settings into a refinement folder.

    Raises:
        InputError: The folder was made from other settings, or its settings cannot be read.
    """
    file = folder / FILE
    if file.exists():
        existing = _read(file)
        different = [name for name, value in settings._asdict().items() if existing.get(name) != value]
        if "scores_and_texts_sha256" in different:
            raise InputError(
                f"{folder}: physicians' scores, questions or answers of the run have changed since it was made; give "
                f"another folder, such as --out {_free_name(folder)}"
            )
        if different:
            raise InputError(
                f"{folder}: was made with another {', '.join(different)}; remove it or give another folder, such as "
                f"--out {_free_name(folder)}"
            )
    write_json(file, settings._asdict())


def _read(file: Path) -> dict[str, Any]:
    reason = ""
    try:
        content = parse_json(read_text(file))
        if isinstance(content, dict):
            return content
    except ValueError as error:
        reason = f" ({error})"
    raise InputError(
        f"{file}: not the settings of a refinement{reason}; restore it from a copy, remove the folder, or give another "
        f"one, such as --out {_free_name(file.parent)}"
    )


def _free_name(folder: Path) -> Path:
    """A folder beside this one that does not exist yet."""
    names = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    return next(name for name in names if not name.exists())
