import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from calls import python, worked
from recipe_runs import REPOSITORY, sample_training_files, train

from medjudge.train.progress import show_live_line


@pytest.fixture
def training_files(sample_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    """A small training set from the sample: 8 questions to train on, 2 to validate."""
    return sample_training_files(sample_run, tmp_path, questions=10, validation_share=0.2)


@pytest.fixture
def launched() -> Callable[..., str]:
    """Starts the recipe as the README does, with a config of configs/accelerate; gives what it printed."""

    def launch(config: str, arguments: Sequence[str], **environment: str) -> str:
        command = ["-m", "accelerate.commands.launch", "--config_file", f"configs/accelerate/{config}.yaml"]
        command += ["recipes/train_judge.py", *arguments]
        done = worked(python(*command, cwd=REPOSITORY, env={**os.environ, **environment}))
        return done.stdout + done.stderr

    return launch


@pytest.fixture
def recipe(
    training_files: tuple[Path, Path], tiny_lm: Path, tiny_encoder: Path, tmp_path: Path
) -> Callable[..., list[str]]:
    """The recipe's arguments for a training run of a few steps; every option can be given, or left out by None."""

    def build(kind: str, model: Path | None = None, **options: object) -> list[str]:
        files = dict(zip(("train_file", "validation_file"), training_files, strict=True))
        base, length = (tiny_encoder, 64) if kind == "ordinal" else (tiny_lm, 2048)
        defaults: dict[str, object] = {"kind": kind, **files, "output_dir": tmp_path / "judges" / kind}
        defaults |= {"model_name_or_path": model or base, "max_length": length, "lora_r": 4, "lora_dropout": 0}
        defaults |= {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 4, "max_steps": 4}
        defaults |= {"eval_strategy": "steps", "eval_steps": 2, "save_strategy": "steps", "save_steps": 2}
        defaults |= {"learning_rate": 1e-2, "logging_steps": 1, "bf16": False}
        chosen = {name: value for name, value in (defaults | options).items() if value is not None}
        return [text for name, value in chosen.items() for text in (f"--{name}", str(value))]

    return build


@pytest.fixture
def trained(recipe: Callable[..., list[str]]) -> Callable[..., Path]:
    """Trains a judge by the recipe's arguments; gives its folder."""
    return lambda *kind_and_model, **options: train(recipe(*kind_and_model, **options))


@pytest.fixture
def trainers(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The trainers of the runs in a test, in their order."""
    kept: list[Any] = []
    monkeypatch.setattr("train_judge.show_live_line", lambda trainer: (kept.append(trainer), show_live_line(trainer)))
    return kept


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[None]]:
    """Has a training step raise what stops a run: Ctrl-C, or any other error."""
    from transformers import Trainer

    @contextmanager
    def at(step: int, error: type[BaseException] = KeyboardInterrupt, message: str = "") -> Iterator[None]:
        train_step = Trainer.training_step

        def interrupted_step(self: Trainer, *arguments: object, **options: object) -> torch.Tensor:
            if self.state.global_step == step - 1:
                raise error(message)
            return train_step(self, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "training_step", interrupted_step)
            yield

    return at
