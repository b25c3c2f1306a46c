"""Tokens a second, loss and memory of training a generative judge on a CPU: all layers, and the upper ones alone.

    OMP_NUM_THREADS=1 python eval/training_speed.py [--base google/gemma-3-270m] [--upper 6 4] [--steps 100]

The recipe's trainer takes three epochs of lines of the bundled sample, in packs: with an adapter on all layers, and
with one on the upper layers, below which states are kept. Times are processor time. `medjudge train` takes the steps,
line by line, and its peak memory is compared with that of `--plan`. The result is eval/results/training-speed.json.
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
from typing import Any

import torch
from study import record
from transformers import TrainerCallback, set_seed

from medjudge.benchmark.sample import sample_folder
from medjudge.distill.training_set import ScoredAnswers, TrainingSetOptions, build_training_set
from medjudge.files import write_whole
from medjudge.models.loading import load_tokenizer
from medjudge.store import Run
from medjudge.train.command_line import parse_arguments
from medjudge.train.features import data_with_room, read_training_data
from medjudge.train.generative import GenerativeTrainer, generative_trainer

EPOCHS = 3


class _Epochs(TrainerCallback):
    """Notes the processor time at the borders of epochs."""

    def __init__(self) -> None:
        self.borders: list[float] = []

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self.borders.append(time.process_time())

    on_train_end = on_epoch_begin


def write_config(folder: Path, base: str) -> Path:
    """Writes training files, of 24 and 8 lines of the sample, and a config for them."""
    run = Run(sample_folder())
    scored = ScoredAnswers(run.questions(), run.answers(), [], run.physician_scores())
    lines = build_training_set(scored, TrainingSetOptions(validation_share=0.05))
    for name, side in (("train", lines.train[:24]), ("validation", lines.validation[:8])):
        write_whole(folder / f"{name}.jsonl", "".join(line.model_dump_json() + "\n" for line in side))
    options = {"kind": "generative", "model_name_or_path": base, "lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.0}
    options |= {
        "learning_rate": 2e-4,
        "per_device_train_batch_size": 1,
        "max_length": 1536,
        "output_dir": f"{folder}/out",
    }
    options |= {f"{name}_file": f"{folder}/{name}.jsonl" for name in ("train", "validation")}
    config = folder / "judge.yaml"
    config.write_text(json.dumps(options | {"bf16": False, "save_strategy": "no", "logging_strategy": "epoch"}))
    return config


def three_epochs(config: Path, upper: int | None, lines: int) -> dict[str, Any]:
    """Trains on some of the lines in packs: processor seconds and mean loss of each epoch."""
    words = ["--config", str(config), "--packing", "true", "--num_train_epochs", str(EPOCHS), "--eval_strategy", "no"]
    judge, model, training = parse_arguments([*words, *(["--upper_layers", str(upper)] if upper else [])])
    assert model.model_name_or_path
    set_seed(0)
    training.report_to = []
    tokenizer = load_tokenizer(model.model_name_or_path)
    data = read_training_data(judge)
    data = data_with_room(judge, training, tokenizer, data._replace(train=data.train[:lines]))
    trainer: GenerativeTrainer = generative_trainer(judge, model, training, tokenizer, data)
    epochs = _Epochs()
    trainer.add_callback(epochs)
    trainer.train()
    seconds = [after - before for before, after in pairwise(epochs.borders)]
    tokens = sum(len(line["input_ids"]) for row in trainer.train_dataset for line in row["lines"])
    return {
        "upper_layers": upper,
        "tokens_of_an_epoch": tokens,
        "tokens_a_second": round(EPOCHS * tokens / sum(seconds), 1),
        "epochs_seconds": [round(each, 1) for each in seconds],
        "losses": [round(entry["loss"], 3) for entry in trainer.state.log_history if "loss" in entry],
    }


def memory(config: Path, upper: int, steps: int) -> dict[str, Any]:
    """GiB that the plan says, and that a run of so many steps takes at its peak."""
    command = [str(Path(sys.executable).with_name("medjudge")), "train", "--config", str(config)]
    command += ["--upper_layers", str(upper), "--max_steps", str(steps)]
    planned = json.loads(subprocess.run([*command, "--plan", "--json"], check=True, stdout=subprocess.PIPE).stdout)
    _, status, usage = os.wait4(os.posix_spawn(command[0], command, os.environ), 0)
    assert status == 0
    return {"steps": steps, "planned": planned["memory"]["measured"], "peak": round(usage.ru_maxrss / 2**20, 2)}


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="google/gemma-3-270m")
    parser.add_argument("--upper", type=int, nargs="+", default=[6, 4])
    parser.add_argument("--lines", type=int, default=4)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        config = write_config(Path(folder), arguments.base)
        result = {
            "command": f"OMP_NUM_THREADS=1 python {' '.join(sys.argv)}",
            "threads": torch.get_num_threads(),
            "memory_gib": memory(config, arguments.upper[0], arguments.steps),
            "three_epochs": [three_epochs(config, upper, arguments.lines) for upper in (None, *arguments.upper)],
        }
    record("training-speed", result)


if __name__ == "__main__":
    main()
