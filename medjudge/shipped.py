"""Files that stand at the top of the repository and inside an installed package: recipes and configs."""

from pathlib import Path

from medjudge.errors import InputError

_PACKAGE = Path(__file__).parent


def shipped(name: str) -> Path:
    """The place of a recipe or config in this installation.

    Args:
        name: A path such as `recipes/train_judge.py` or `configs/judges`.
    """
    inside = _PACKAGE / name  # an installed wheel
    return inside if inside.exists() else _PACKAGE.parent / name  # a checkout, which an editable install points to


def config_file(name_or_file: str) -> Path:
    """The config of a training run, by its name in `configs/judges` or by its path.

    Raises:
        InputError: There is neither such a file nor such a name.
    """
    if (file := Path(name_or_file)).is_file():
        return file
    folder = shipped("configs/judges")
    if (named := folder / f"{name_or_file}.yaml").is_file():
        return named
    names = ", ".join(sorted(path.stem for path in folder.glob("*.yaml")))
    raise InputError(f"--config {name_or_file}: no such file, and no config in {folder}, which has {names}")
