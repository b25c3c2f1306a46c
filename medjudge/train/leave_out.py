"""Trains a recipe again without one answering model, or one category, at a time: judges that never saw it."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal, NamedTuple

from medjudge.errors import InputError, notify
from medjudge.files import read_json, read_text, write_json, write_whole
from medjudge.judge.api import file_name
from medjudge.judge.folder import CARD_FILE, read_card
from medjudge.models.hardware import one_gpu_environment
from medjudge.records import TrainingLine
from medjudge.scheme import Scheme, scheme_beside
from medjudge.shipped import shipped
from medjudge.store import write_scheme
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
    """Judge folders: `everything` saw all lines, `without[value]` no line of that value.

    For a value that no line has, `without[value]` is `everything`, and `removed` is 0.
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
    """Trains one judge on all lines, and one for each value without its lines; all share the config and the seed.

    Each judge is trained in its own process, so that none inherits memory or trainer state. Finished folds are kept:
    after an interruption, the same call continues with the first unfinished fold, which starts over. The trainer's log
    is in `training/log.txt` of each judge folder; checkpoints are removed.

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
    name_of = {value: f"without-{file_name(value)}" if fold.removed else _ALL for value, fold in left_out.items()}
    retrained = {value: fold for value, fold in left_out.items() if fold.removed}
    work = {_ALL: Fold(train, validation, 0)} | {name_of[value]: fold for value, fold in retrained.items()}
    if len(work) <= len(retrained):
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
    for value, fold in left_out.items():
        if not fold.removed:
            notify(f"{by} {value}: no training line has it, so the judge of all lines never saw it")
    without = {value: folders[name] for value, name in name_of.items()}
    return TrainedFolds(folders[_ALL], without, {value: fold.removed for value, fold in left_out.items()})


def folds(
    train: Sequence[TrainingLine], validation: Sequence[TrainingLine], by: By, values: Sequence[str]
) -> dict[str, Fold]:
    """The lines that remain when each value is left out.

    Raises:
        InputError: A fold that lost lines has none left in one of the files, or one level only to train on.
    """
    result = {}
    for value in values:
        kept_train = [line for line in train if _value(line, by) != value]
        kept_validation = [line for line in validation if _value(line, by) != value]
        removed = len(train) + len(validation) - len(kept_train) - len(kept_validation)
        if removed:
            for name, lines in (("training", kept_train), ("validation", kept_validation)):
                if not lines:
                    raise InputError(
                        f"fold without {by} {value}: no {name} line is left; add lines of others, or do not leave this "
                        "one out"
                    )
            require_levels(
                f"fold without {by} {value}", kept_train, "add lines of other levels, or do not leave it out"
            )
        result[value] = Fold(kept_train, kept_validation, removed)
    return result


def _value(line: TrainingLine, by: By) -> str:
    return line.answer.model if by == "model" else line.question.category


def _text(lines: Sequence[TrainingLine]) -> str:
    return "".join(line.model_dump_json() + "\n" for line in lines)


def _origin(config: Path, overrides: Sequence[str], fold: Fold, scheme: Scheme) -> dict[str, Any]:
    """The inputs of a fold's judge; of two judges with the same origin, one is trained."""
    return {
        "config": _sha256(read_text(config)),
        "overrides": list(overrides),
        "scheme": scheme.sha256,
        "files": {"train.jsonl": _sha256(_text(fold.train)), "validation.jsonl": _sha256(_text(fold.validation))},
    }


def _sha256(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def _is_finished(folder: Path, origin: dict[str, Any]) -> bool:
    if not (folder / CARD_FILE).exists():
        return False
    written = folder / "training" / "fold.json"
    # A judge that continued from another one names that one's files as well.
    recorded = read_card(folder).trained_on.files
    if not written.exists() or read_json(written) != origin or not origin["files"].items() <= recorded.items():
        raise InputError(
            f"{folder}: holds a judge that was made from another config, other options or other training lines; remove "
            "the folder, or rename the config"
        )
    return True


def _train(name: str, fold: Fold, config: Path, folder: Path, origin: dict[str, Any], overrides: Sequence[str]) -> None:
    """Runs the recipe in its own process; its judge card is the last file written."""
    training = folder / "training"
    files = training / "train.jsonl", training / "validation.jsonl"
    for file, lines in zip(files, (fold.train, fold.validation), strict=True):
        write_whole(file, _text(lines))
    write_json(training / "fold.json", origin)
    command = [sys.executable, str(shipped("recipes/train_judge.py")), "--config", str(config), *overrides]
    command += ["--train_file", str(files[0]), "--validation_file", str(files[1])]
    command += ["--output_dir", str(folder), "--resume", "False"]
    # Else a random.py in the working folder would be imported instead of Python's own.
    environment = {**os.environ, "PYTHONSAFEPATH": "1", **one_gpu_environment()}
    log = training / "log.txt"
    with log.open("w", encoding="utf-8") as output:
        status = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, env=environment).returncode
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    if status == _REFUSED:
        last_line = log.read_text(encoding="utf-8", errors="replace").rstrip().rpartition("\n")[2]
        raise InputError(f"fold {name}: {last_line.removeprefix('error: ')}")
    if status != 0:
        raise RuntimeError(f"fold {name}: training ended with exit status {status}; see {log}")
