"""Runs of the recipe and changes of its files, for the tests beside this file."""

import json
import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from train_judge import main as train_judge
from transformers import PreTrainedTokenizerBase
from trl import ModelConfig, SFTConfig

from medjudge.distill.training_set import ScoredAnswers, TrainingSetOptions, build_training_set
from medjudge.files import write_whole
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.prompts import encode_prompts
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_tokenizer
from medjudge.records import TrainingLine
from medjudge.store import Run
from medjudge.train.arguments import JudgeArguments, TrainingConfig, parse_arguments
from medjudge.train.features import TrainingData
from medjudge.train.generative import GenerativeTrainer, generative_rows, generative_trainer, readable

REPOSITORY = Path(__file__).parent.parent.parent


def sample_training_files(sample_run: Path, folder: Path, questions: int, validation_share: float) -> tuple[Path, Path]:
    """Training and validation file of so many English questions of the sample, with its scores."""
    run = Run(sample_run)
    ids = [question.id for question in run.questions() if question.language == "en"][:questions]
    sources = ScoredAnswers(run.questions(), run.answers(), [], run.physician_scores()).of_questions(ids)
    training_set = build_training_set(sources, TrainingSetOptions(validation_share=validation_share))
    files = folder / "train.jsonl", folder / "validation.jsonl"
    for file, lines in zip(files, training_set[:2], strict=True):
        write_whole(file, "".join(line.model_dump_json() + "\n" for line in lines))
    return files


def changed(path: Path, change: Callable[[int, dict], None]) -> None:
    """Rewrites a training file line by line; `change` gets the number of a line, from 0, and its fields."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        change(number, line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def config_file(folder: Path, arguments: Sequence[str]) -> Path:
    """The arguments of a recipe as a config file."""
    values = dict(zip([name[2:] for name in arguments[::2]], arguments[1::2], strict=True))
    texts = {name: json.dumps(value) if value == "no" else value for name, value in values.items()}
    (folder / "small.yaml").write_text("".join(f"{name}: {text}\n" for name, text in texts.items()))
    return folder / "small.yaml"


def work(lines: Sequence[TrainingLine]) -> list[Assignment]:
    """What a judge gets to read of training lines."""
    return [Assignment(line.question, tuple(line.earlier), line.answer) for line in lines]


def score_logits(
    model: Any, tokenizer: PreTrainedTokenizerBase, lines: Sequence[TrainingLine], max_length: int
) -> np.ndarray:
    """The logits of the five levels that a judge of this model reads for each line, (lines, 5)."""
    training = model.training
    model.eval()
    judge = GenerativeJudge("trained", readable(model), tokenizer, GenerativeSettings(max_length))
    prompts = encode_prompts(tokenizer, work(lines), [max_length - 1] * len(lines), "score-first")
    readings = judge.read([prompt for prompt in prompts if prompt is not None])
    assert len(readings) == len(lines)
    model.train(training)
    return np.array([reading.logits for reading in readings])


def generative_trainer_of(
    base: Path, folder: Path, lines: Sequence[TrainingLine], judge: dict[str, Any] | None = None, **options: Any
) -> GenerativeTrainer:
    """A trainer of a fresh adapter on a CPU in float32; `options` are SFTConfig's."""
    defaults = {"output_dir": str(folder), "max_length": 4096, "gradient_checkpointing": False, "report_to": []}
    training = SFTConfig(**(defaults | {"use_cpu": True, "bf16": False} | options))
    arguments = JudgeArguments("generative", "train.jsonl", "validation.jsonl", **(judge or {}))
    model = ModelConfig(model_name_or_path=str(base), lora_r=4, lora_dropout=0.0)
    config, tokenizer = TrainingConfig(arguments, model, training), load_tokenizer(str(base))
    rows = generative_rows(config, tokenizer, TrainingData(list(lines), list(lines[:2])))
    return generative_trainer(config, tokenizer, rows)


def moved(trainer: GenerativeTrainer) -> GenerativeTrainer:
    """The trainer, with an adapter that changes what the model says."""
    torch.manual_seed(0)
    for name, value in trainer.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    trainer.model.train()
    return trainer


def gradients_of(trainer: GenerativeTrainer, batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The gradient of each trained tensor by the loss of a batch."""
    trainer.model.zero_grad()
    trainer.compute_loss(trainer.model, batch).backward()
    return {name: value.grad.clone() for name, value in trainer.model.named_parameters() if value.requires_grad}


def good_or_bad(number: int, line: dict) -> None:
    good = number % 2 == 0
    line["answer"]["text"] = ("complete correct safe " if good else "wrong dangerous careless ") * 5
    line["probabilities"] = [0, 0, 0, 0, 1] if good else [1, 0, 0, 0, 0]
    line["level"] = 5 if good else 1


def train(arguments: Sequence[str]) -> Path:
    """Trains a judge by the words of a command line; gives its folder."""
    return train_judge(*parse_arguments(arguments))


def run_recipe(arguments: list[str]) -> None:
    """The recipe as a script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train_judge.py", *arguments])
        runpy.run_path(str(REPOSITORY / "recipes" / "train_judge.py"), run_name="__main__")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], message: str) -> bool:
    """True if the recipe ended with 2, and its last words are one line with the message."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        run_recipe(arguments)
    printed = capsys.readouterr().err.strip().splitlines()
    assert printed[-1].startswith("error: ")
    assert message in printed[-1]
    return caught.value.code == 2
