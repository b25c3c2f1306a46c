"""Trains a recipe again without one answering model, or one category, at a time: judges that never saw it."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from medjudge.errors import InputError
from medjudge.files import read_text, write_whole
from medjudge.judge.api import file_name
from medjudge.judge.folder import CARD_FILE, read_card
from medjudge.records import TrainingLine
from medjudge.shipped import shipped
from medjudge.train.features import read_training_lines

By = Literal["model", "category"]
_ALL = "all"


class Fold(NamedTuple):
    """The lines that a judge is trained on, and how many (of both files) its left-out value took away."""

    left_out: str
    train: list[TrainingLine]
    validation: list[TrainingLine]
    removed: int


class TrainedFolds(NamedTuple):
    """Judge folders: `everything` saw all lines, `without[value]` no line of that value.

    A value that no line has is left out by `everything` already: its folder is that one, and `removed` is 0.
    """

    everything: Path
    without: dict[str, Path]
    removed: dict[str, int]


def train_folds(
    config: Path,
    train_file: Path,
    validation_file: Path,
    by: By,
    values: Sequence[str],
    out: Path,
    overrides: Sequence[str] = (),
) -> TrainedFolds:
    """Trains one judge on all lines, and one for each value without its lines; config and seed are the same for all.

    Each judge is trained in a process of its own, so that none inherits memory or trainer state. A finished fold is
    taken as it is, so the same call after an interruption goes on with the first unfinished fold, which starts over.
    What the trainer prints is in `training/log.txt` of each judge folder; checkpoints are removed.

    Args:
        config: The YAML of a judge; its `train_file`, `validation_file` and `output_dir` are not read.
        train_file: `train.jsonl` of `medjudge distill`.
        validation_file: `validation.jsonl` of `medjudge distill`; it chooses the checkpoint, so it loses the value too.
        by: Whether the values are answering models or categories.
        values: What to leave out, one a fold.
        out: Holds a judge folder a fold: `CONFIG-all`, `CONFIG-without-VALUE`.
        overrides: Options over the config, such as `--use_cpu true`.

    Raises:
        InputError: A file is missing or wrong, a fold has too few lines, a judge folder there was made from something
            else, or the recipe refused a fold.
        RuntimeError: Training crashed.
    """
    train, validation = read_training_lines(train_file), read_training_lines(validation_file)
    made = folds(train, validation, by, values)
    retrained = [fold for fold in made if fold.removed]
    work = {_ALL: Fold("", train, validation, 0), **{_name(fold.left_out): fold for fold in retrained}}
    if len(work) <= len(retrained):
        raise InputError(f"two of the {by} names are the same as names of folders: {', '.join(values)}; rename one")
    folders = {name: out / f"{config.stem}-{name}" for name in work}
    origins = {name: _origin(config, overrides, fold) for name, fold in work.items()}
    finished = {name for name in work if _is_finished(folders[name], origins[name])}  # refuses before it trains any
    for number, (name, fold) in enumerate(work.items(), start=1):
        shutil.rmtree(
            folders[name] / "checkpoints", ignore_errors=True
        )  # of a killed run; the last may be half written
        shown = f"fold {number} of {len(work)}: {name}, {len(fold.train)} lines"
        if name in finished:
            print(f"{shown}: trained already", file=sys.stderr)
        else:
            print(f"{shown}: training, see {folders[name] / 'training' / 'log.txt'}", file=sys.stderr)
            _train(name, fold, config, folders[name], origins[name], overrides)
    for fold in made:
        if not fold.removed:
            print(
                f"{by} {fold.left_out}: no training line has it, so the judge of all lines never saw it",
                file=sys.stderr,
            )
    return TrainedFolds(
        folders[_ALL],
        {fold.left_out: folders[_name(fold.left_out) if fold.removed else _ALL] for fold in made},
        {fold.left_out: fold.removed for fold in made},
    )


def folds(
    train: Sequence[TrainingLine], validation: Sequence[TrainingLine], by: By, values: Sequence[str]
) -> list[Fold]:
    """Which lines remain when each value is left out.

    Args:
        train: Lines to train on.
        validation: Lines that choose the checkpoint.
        by: Whether the values are answering models or categories.
        values: What to leave out; a value that stands twice counts once.

    Raises:
        InputError: A fold that lost lines has none left in one of the files, or one level only to train on.
    """
    made = []
    for value in dict.fromkeys(values):
        kept_train = [line for line in train if _value(line, by) != value]
        kept_validation = [line for line in validation if _value(line, by) != value]
        removed = len(train) + len(validation) - len(kept_train) - len(kept_validation)
        if removed:
            _require_enough(f"without {by} {value}", kept_train, kept_validation)
        made.append(Fold(value, kept_train, kept_validation, removed))
    return made


def _value(line: TrainingLine, by: By) -> str:
    return line.answer.model if by == "model" else line.question.category


def _require_enough(fold: str, train: list[TrainingLine], validation: list[TrainingLine]) -> None:
    for name, lines in (("training", train), ("validation", validation)):
        if not lines:
            raise InputError(f"fold {fold}: no {name} line is left; add lines of others, or do not leave this one out")
    if len(levels := {line.level for line in train}) == 1:
        raise InputError(
            f"fold {fold}: every training line that is left has level {levels.pop()}, which teaches nothing; add lines "
            "of other levels, or do not leave this one out"
        )


def _name(value: str) -> str:
    return f"without-{file_name(value)}"


def _text(lines: Sequence[TrainingLine]) -> str:
    return "".join(line.model_dump_json() + "\n" for line in lines)


def _origin(config: Path, overrides: Sequence[str], fold: Fold) -> str:
    """What a fold's judge is made from, as JSON; two judges with the same origin need not both be trained."""
    origin = {
        "config": _sha256(read_text(config)),
        "overrides": list(overrides),
        "files": {"train.jsonl": _sha256(_text(fold.train)), "validation.jsonl": _sha256(_text(fold.validation))},
    }
    return json.dumps(origin, indent=2) + "\n"


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _is_finished(folder: Path, origin: str) -> bool:
    if not (folder / CARD_FILE).exists():
        return False
    written = folder / "training" / "fold.json"
    files = json.loads(origin)["files"]
    # A judge that went on from another one names that one's files as well.
    known = read_card(folder).trained_on.files
    if not written.exists() or read_text(written) != origin or not files.items() <= known.items():
        raise InputError(
            f"{folder}: holds a judge that was made from another config, other options or other training lines; remove "
            "the folder, or rename the config"
        )
    return True


def _train(name: str, fold: Fold, config: Path, folder: Path, origin: str, overrides: Sequence[str]) -> None:
    """Runs the recipe in a process of its own; its judge card is the last file written."""
    beside = folder / "training"
    write_whole(beside / "train.jsonl", _text(fold.train))
    write_whole(beside / "validation.jsonl", _text(fold.validation))
    write_whole(beside / "fold.json", origin)
    ours = {
        "train_file": beside / "train.jsonl",
        "validation_file": beside / "validation.jsonl",
        "output_dir": folder,
        "resume": False,
    }
    command = [sys.executable, str(shipped("recipes/train_judge.py")), "--config", str(config), *overrides]
    command += [text for option, value in ours.items() for text in (f"--{option}", str(value))]
    # Or a random.py in the working folder would be imported in the place of Python's own.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    log = beside / "log.txt"
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=environment).returncode
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    if status != 0:
        said = log.read_text(encoding="utf-8", errors="replace").splitlines()
        refusals = [line.removeprefix("error: ") for line in said if line.startswith("error: ")]
        if status == 2 and refusals:
            raise InputError(f"fold {name}: {refusals[-1]}")
        raise RuntimeError(f"fold {name}: training ended with exit status {status}; see {log}")
