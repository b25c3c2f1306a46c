"""Tokens a second, loss and memory of training a generative judge on a CPU: all layers, and the upper ones alone.

    OMP_NUM_THREADS=1 python eval/training_speed.py [--base google/gemma-3-270m] [--upper 6 4] [--steps 100]

The recipe's trainer takes three epochs of lines of the bundled sample, in packs: with an adapter on all layers, and with
one on the upper layers, below which states are kept. Times are processor time. `medjudge train` takes the steps, line by
line, and its peak memory is compared with that of `--plan`. The result is eval/results/training-speed.json.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import torch
from study import record
from transformers import TrainerCallback, set_seed
from trl import ModelConfig, SFTConfig

from medjudge.benchmark.sample import sample_folder
from medjudge.distill.training_set import ScoredAnswers, TrainingSet, TrainingSetOptions, build_training_set
from medjudge.files import write_whole
from medjudge.models.loading import load_tokenizer
from medjudge.records import TrainingLine
from medjudge.store import Run
from medjudge.train.arguments import JudgeArguments
from medjudge.train.features import TrainingData, data_with_room
from medjudge.train.generative import GenerativeTrainer, generative_trainer

EPOCHS = 3
PACK = 1536
OPTIONS = {"lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "learning_rate": 2e-4, "per_device_train_batch_size": 1}


class Trained(NamedTuple):
    """Processor seconds and mean loss of each epoch, and the tokens of one."""

    seconds: list[float]
    losses: list[float]
    tokens: int


class _Epochs(TrainerCallback):
    """Notes the processor time at the borders of epochs."""

    def __init__(self) -> None:
        self.borders: list[float] = []

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self.borders.append(time.process_time())

    on_train_end = on_epoch_begin


def trained(base: str, lines: list[TrainingLine], upper: int | None) -> Trained:
    """Trains on the lines in packs, for three epochs."""
    set_seed(0)
    model = ModelConfig(model_name_or_path=base, **{name: OPTIONS[name] for name in OPTIONS if name.startswith("lora")})
    with tempfile.TemporaryDirectory() as folder:
        training = SFTConfig(
            **{name: OPTIONS[name] for name in OPTIONS if not name.startswith("lora")},
            output_dir=folder,
            max_length=PACK,
            packing=True,
            num_train_epochs=EPOCHS,
            gradient_checkpointing=False,
            logging_strategy="epoch",
            save_strategy="no",
            report_to=[],
            use_cpu=True,
            bf16=False,
            disable_tqdm=True,
        )
        tokenizer, judge = load_tokenizer(base), JudgeArguments("generative", "t", "v", upper_layers=upper)
        data = data_with_room(judge, training, tokenizer, TrainingData(lines, lines[:1]))
        trainer: GenerativeTrainer = generative_trainer(judge, model, training, tokenizer, data)
        epochs = _Epochs()
        trainer.add_callback(epochs)
        trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    tokens = sum(len(line["input_ids"]) for row in trainer.train_dataset for line in row["lines"])
    return Trained([after - before for before, after in pairwise(epochs.borders)], losses, tokens)


def row_of(upper: int | None, run: Trained, before: Trained) -> dict[str, Any]:
    """A row of the result.

    Args:
        before: The run on all layers.
    """
    return {
        "upper_layers": upper,
        "tokens_a_second": round(EPOCHS * run.tokens / sum(run.seconds), 1),
        "times_as_fast": round(sum(before.seconds) / sum(run.seconds), 2),
        "epochs_seconds": [round(second, 1) for second in run.seconds],
        "losses": [round(loss, 3) for loss in run.losses],
    }


def memory(base: str, lines: TrainingSet, upper: int, steps: int) -> dict[str, Any]:
    """GiB that the plan says, and that a run of so many steps takes at its peak."""
    with tempfile.TemporaryDirectory() as folder:
        for name, side in (("train", lines.train), ("validation", lines.validation)):
            write_whole(Path(folder) / f"{name}.jsonl", "".join(line.model_dump_json() + "\n" for line in side))
        options = OPTIONS | {
            "kind": "generative",
            "model_name_or_path": base,
            "upper_layers": upper,
            "max_length": 4096,
        }
        options |= {"output_dir": f"{folder}/judge", "max_steps": steps, "bf16": False, "save_strategy": "no"}
        options |= {"train_file": f"{folder}/train.jsonl", "validation_file": f"{folder}/validation.jsonl"}
        Path(folder, "judge.yaml").write_text(json.dumps(options))
        command = [str(Path(sys.executable).with_name("medjudge")), "train", "--config", f"{folder}/judge.yaml"]
        planned = json.loads(subprocess.run([*command, "--plan", "--json"], check=True, stdout=subprocess.PIPE).stdout)
        _, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ), 0)
        assert status == 0
        return {"steps": steps, "planned": planned["memory"]["measured"], "peak": round(usage.ru_maxrss / 2**20, 2)}


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="google/gemma-3-270m")
    parser.add_argument("--upper", type=int, nargs="+", default=[6, 4])
    parser.add_argument("--lines", type=int, default=6)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    run = Run(sample_folder())
    scored = ScoredAnswers(run.questions(), run.answers(), [], run.physician_scores())
    lines = build_training_set(scored, TrainingSetOptions(validation_share=0.05))
    given = f"--base {arguments.base} --upper {' '.join(map(str, arguments.upper))} --steps {arguments.steps}"
    runs = {upper: trained(arguments.base, lines.train[: arguments.lines], upper) for upper in (None, *arguments.upper)}
    result = {
        "command": f"OMP_NUM_THREADS=1 python eval/training_speed.py {given}",
        "threads": torch.get_num_threads(),
        "tokens_of_an_epoch": runs[None].tokens,
        "three_epochs": [row_of(upper, run, runs[None]) for upper, run in runs.items()],
        "memory_gib": memory(arguments.base, lines, arguments.upper[0], arguments.steps),
    }
    record("training-speed", result)


if __name__ == "__main__":
    main()
