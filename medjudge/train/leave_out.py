"""Trains a recipe again without one answering model, or one category, at a time: judges that never saw it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch

from medjudge.errors import InputError, notify
from medjudge.files import read_json, read_text, write_json
from medjudge.judge.api import file_name
from medjudge.judge.folder import CARD_FILE
from medjudge.records import TrainingLine
from medjudge.scheme import Scheme, scheme_beside
from medjudge.shipped import shipped
from medjudge.store import write_records, write_scheme
from medjudge.train.arguments import CHECKPOINTS
from medjudge.train.checks import require_levels
from medjudge.train.features import read_training_lines

By = Literal["model", "category"]
_ALL = "all"
_REFUSED = 2
"""The recipe's exit status after an InputError, which is the last line of its log."""


class Fold(NamedTuple):
    """The lines that a judge is trained on, and how many lines of both files its left-out value removed."""

    train: list[TrainingLine]
    validation: list[TrainingLine]
    removed: int


class TrainedFolds(NamedTuple):
    """Judge folders: `everything` saw all lines, `without[value]` none of the value; it is `everything` if none has."""

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
    """Trains one judge on all lines, and one for each value without its lines; all share the config and the seed.

    Each judge is trained in its own process. Finished folds are kept: after an interruption, the same call continues
    with the first unfinished fold, which starts over. The trainer's log is in `training/log.txt` of each judge folder.

    Args:
        config: The YAML of a judge; its `train_file`, `validation_file` and `output_dir` are not read.
        validation_file: `validation.jsonl` of `medjudge distill`; it chooses the checkpoint, so it loses the value too.
        values: What to leave out, one value per fold.
        out: Gets one judge folder per fold: `CONFIG-all`, `CONFIG-without-VALUE`.
        overrides: Options over the config, such as `--use_cpu true`.

    Raises:
        InputError: A file is missing or wrong, a fold has too few lines, a judge folder there was made from something
            else, or the recipe refused a fold.
        RuntimeError: Training crashed.
    """
    train, validation = read_training_lines(train_file), read_training_lines(validation_file)
    scheme = scheme_beside(train_file)
    left_out = folds(train, validation, by, values)
    removed = {value: fold.removed for value, fold in left_out.items()}
    name_of = {value: f"without-{file_name(value)}" if removed[value] else _ALL for value in left_out}
    work = {_ALL: Fold(train, validation, 0)}
    work |= {name_of[value]: fold for value, fold in left_out.items() if fold.removed}
    if len(work) < 1 + sum(map(bool, removed.values())):
        raise InputError(f"two of the {by} names are the same as names of folders: {', '.join(values)}; rename one")
    folders = {name: out / f"{config.stem}-{name}" for name in work}
    origins = {name: _origin(config, overrides, fold, scheme) for name, fold in work.items()}
    finished = {name for name in work if _is_finished(folders[name], origins[name])}  # refuses before it trains any
    for number, (name, fold) in enumerate(work.items(), start=1):
        # Of a killed run; the last checkpoint may be half written.
        shutil.rmtree(folders[name] / CHECKPOINTS, ignore_errors=True)
        progress = f"fold {number} of {len(work)}: {name}, {len(fold.train)} lines"
        if name in finished:
            notify(f"{progress}: trained already")
        else:
            notify(f"{progress}: training, see {folders[name] / 'training' / 'log.txt'}")
            write_scheme(folders[name] / "training", scheme)
            _train(name, fold, config, folders[name], origins[name], overrides)
    for value, name in name_of.items():
        if name == _ALL:
            notify(f"{by} {value}: no training line has it, so the judge of all lines never saw it")
    return TrainedFolds(folders[_ALL], {value: folders[name] for value, name in name_of.items()}, removed)


def folds(
    train: Sequence[TrainingLine], validation: Sequence[TrainingLine], by: By, values: Sequence[str]
) -> dict[str, Fold]:
    """The lines that remain when each value is left out.

    Raises:
        InputError: A fold that lost lines has none left in one of the files, or one level only to train on.
    """

    def without(value: str, lines: Sequence[TrainingLine]) -> list[TrainingLine]:
        return [line for line in lines if value != (line.answer.model if by == "model" else line.question.category)]

    result = {}
    for value in values:
        kept_train, kept_validation = without(value, train), without(value, validation)
        removed = len(train) + len(validation) - len(kept_train) - len(kept_validation)
        if removed:
            fold = f"fold without {by} {value}"
            for name, lines in (("training", kept_train), ("validation", kept_validation)):
                if not lines:
                    raise InputError(
                        f"{fold}: no {name} line is left; add lines of others, or do not leave this one out"
                    )
            require_levels(fold, kept_train, "add lines of other levels, or do not leave it out")
        result[value] = Fold(kept_train, kept_validation, removed)
    return result


def _origin(config: Path, overrides: Sequence[str], fold: Fold, scheme: Scheme) -> dict[str, Any]:
    """The inputs of a fold's judge; of two judges with the same origin, one is trained."""
    sides = {"train.jsonl": fold.train, "validation.jsonl": fold.validation}
    texts = {name: "".join(line.model_dump_json() + "\n" for line in lines) for name, lines in sides.items()}
    files = {name: sha256(text.encode()).hexdigest() for name, text in texts.items()}
    digest = sha256(read_text(config).encode()).hexdigest()
    return {"config": digest, "overrides": list(overrides), "scheme": scheme.sha256, "files": files}


def _is_finished(folder: Path, origin: dict[str, Any]) -> bool:
    if not (folder / CARD_FILE).exists():
        return False
    written = folder / "training" / "fold.json"
    if not written.exists() or read_json(written) != origin:
        raise InputError(
            f"{folder}: holds a judge that was made from another config, other options or other training lines; remove "
            "the folder, or rename the config"
        )
    return True


def _train(name: str, fold: Fold, config: Path, folder: Path, origin: dict[str, Any], overrides: Sequence[str]) -> None:
    """Runs the recipe in its own process; its judge card is the last file written."""
    training = folder / "training"
    files = training / "train.jsonl", training / "validation.jsonl"
    write_records(files[0], fold.train)
    write_records(files[1], fold.validation)
    write_json(training / "fold.json", origin)
    command = [sys.executable, str(shipped("recipes/train_judge.py")), "--config", str(config), *overrides]
    command += ["--train_file", str(files[0]), "--validation_file", str(files[1])]
    command += ["--output_dir", str(folder), "--resume", "False"]
    # Else a random.py in the working folder would be imported instead of Python's own.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    if torch.cuda.device_count() > 1:  # the recipe, started as one process, trains on one
        environment["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    log = training / "log.txt"
    with log.open("w", encoding="utf-8") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment).returncode
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    if status == _REFUSED:
        last_line = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
        raise InputError(f"fold {name}: {last_line.removeprefix('error: ')}")
    if status != 0:
        raise RuntimeError(f"fold {name}: training ended with exit status {status}; see {log}")
