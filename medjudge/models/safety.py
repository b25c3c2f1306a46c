"""What a judge or model folder may not hold: files that run code when they are loaded."""

import json
from pathlib import Path

from medjudge.errors import InputError

_PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".dill")
_CONFIGS = ("config.json", "tokenizer_config.json", "generation_config.json", "processor_config.json")


def refuse_pickles(folder: Path, named: str) -> None:
    """Refuses a folder with files in Python's pickle format, which runs code as it is read.

    Subfolders are not looked at: nothing is loaded from them, and the trainer's own checkpoints lie in one.

    Args:
        folder: A judge or model folder.
        named: How a message names it.

    Raises:
        InputError: There is such a file, or an index of weights names something other than safetensors files beside it.
    """
    pickles = sorted(path.name for path in folder.iterdir() if path.suffix.lower() in _PICKLES)
    if pickles:
        raise InputError(
            f"{named}: {', '.join(pickles[:3])}{' and others' if len(pickles) > 3 else ''} may be in pickle format, "
            "which can run code; remove it: weights are read from *.safetensors only"
        )
    for index in sorted(folder.glob("*.index.json")):
        for name in sorted(_weight_files(index)):
            if not name.endswith(".safetensors") or Path(name).name != name:
                raise InputError(
                    f"{index}: names {name[:80]!r}; it may name *.safetensors files of its own folder only"
                )


def names_own_code(folder: Path) -> Path | None:
    """The config in a model folder that names Python code to run; None where none does."""
    for name in _CONFIGS:
        fields = _fields(folder / name)
        if "auto_map" in fields:
            return folder / name
    return None


def _weight_files(index: Path) -> set[str]:
    weight_map = _fields(index).get("weight_map")
    return set(map(str, weight_map.values())) if isinstance(weight_map, dict) else set()


def _fields(path: Path) -> dict[str, object]:
    """The fields of a JSON object; none where the file is missing or broken, which its reader reports."""
    try:
        fields = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}
