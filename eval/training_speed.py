"""Tokens a second and memory of training a generative judge on a CPU: all layers, and the upper ones.

    OMP_NUM_THREADS=1 python eval/training_speed.py [--base google/gemma-3-270m] [--upper 6] [--rounds 2]

Each round trains on lines of the bundled sample, in packs, for three epochs by the recipe's own trainer: with an adapter
on all layers, and with one on the upper layers, below which states are kept. Times are processor time. The result is
eval/results/training-speed.json.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from study import record
from transformers import TrainerCallback, set_seed
from trl import ModelConfig, SFTConfig

from medjudge.benchmark.sample import sample_folder
from medjudge.distill.training_set import ScoredAnswers, TrainingSetOptions, build_training_set
from medjudge.models.loading import load_tokenizer
from medjudge.records import TrainingLine
from medjudge.store import Run
from medjudge.train.arguments import JudgeArguments
from medjudge.train.features import TrainingData, data_with_room
from medjudge.train.generative import GenerativeTrainer, generative_trainer

EPOCHS = 3
PACK = 1536


class Trained(NamedTuple):
    """Processor seconds of each epoch, the tokens of one, and the mean loss of each."""

    seconds: list[float]
    tokens: int
    losses: list[float]


class _Epochs(TrainerCallback):
    """Notes the processor time at the borders of epochs."""

    def __init__(self) -> None:
        self.borders: list[float] = []

    def on_epoch_begin(self, *_: Any, **__: Any) -> None:
        self.borders.append(time.process_time())

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.borders.append(time.process_time())


def sample_lines() -> list[TrainingLine]:
    """Training lines of the bundled sample."""
    run = Run(sample_folder())
    scored = ScoredAnswers(run.questions(), run.answers(), [], run.physician_scores())
    return build_training_set(scored, TrainingSetOptions(validation_share=0.2)).train


def trained(base: str, lines: list[TrainingLine], upper: int | None, seed: int, folder: str) -> Trained:
    """Trains on the lines in packs, for three epochs."""
    set_seed(seed)
    training = SFTConfig(
        output_dir=folder,
        max_length=PACK,
        packing=True,
        per_device_train_batch_size=1,
        num_train_epochs=EPOCHS,
        learning_rate=2e-4,
        lr_scheduler_type="constant",
        gradient_checkpointing=False,
        logging_strategy="epoch",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
        seed=seed,
    )
    judge = JudgeArguments("generative", "t", "v", upper_layers=upper)
    tokenizer = load_tokenizer(base)
    data = data_with_room(judge, training, tokenizer, TrainingData(lines, lines[:1]))
    model = ModelConfig(model_name_or_path=base, lora_r=16, lora_alpha=32, lora_dropout=0.0)
    trainer: GenerativeTrainer = generative_trainer(judge, model, training, tokenizer, data)
    epochs = _Epochs()
    trainer.add_callback(epochs)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    tokens = sum(len(line["input_ids"]) for row in trainer.train_dataset for line in row["lines"])
    seconds = [after - before for before, after in zip(epochs.borders, epochs.borders[1:], strict=False)]
    return Trained(seconds, tokens, losses)


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="google/gemma-3-270m")
    parser.add_argument("--upper", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--lines", type=int, default=24)
    arguments = parser.parse_args()
    lines = sample_lines()
    print(len(lines), flush=True)
    for round_number in range(arguments.rounds):
        chosen = lines[round_number * arguments.lines:][: arguments.lines]
        for upper in (None, arguments.upper):
            with tempfile.TemporaryDirectory() as folder:
                one = trained(arguments.base, chosen, upper, round_number, folder)
            print(upper, one, EPOCHS * one.tokens / sum(one.seconds), flush=True)


if __name__ == "__main__":
    main()
