"""The speed of training a generative judge where packs hold once what their lines begin with, with the same steps.

    python eval/speed/tree_packing.py DATA [--rounds 3] [--questions 6]

DATA is LLMEval-Med's dataset.json. Each round draws questions and, as 39 answers to each, references of others. The
recipe's own trainer takes an epoch of the same lines twice, line by line and in packs with share_prefixes. The times
are processor time, in float32. The gradients of a step over all lines are compared. The model is a Qwen3 with 1.6
million parameters in its layers, of random weights. The result is eval/results/tree-packing.json.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from transformers import Trainer
from transformers.utils import logging as transformers_logging
from trl import ModelConfig, SFTConfig

from eval.lib.study import record
from eval.lib.tiny_models import byte_tokenizer, write_lm
from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.models.loading import load_tokenizer
from medjudge.records import Answer, Question, TrainingLine
from medjudge.train.arguments import JudgeArguments, TrainingConfig
from medjudge.train.features import TrainingData
from medjudge.train.generative import GenerativeTrainer, generative_rows, generative_trainer

ANSWERS = 39
WINDOW = 6144
SHAPE = {
    "hidden_size": 256,
    "intermediate_size": 768,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
}
WAYS = {
    "line by line": {},
    "packs with share_prefixes": {"packing": True, "share_prefixes": True},
}


class Epoch(NamedTuple):
    """Processor seconds of the forward and backward passes of an epoch, and the tokens that they read."""

    seconds: float
    tokens: int


def lines_of(questions: Sequence[Question], each: int, draw: random.Random) -> list[TrainingLine]:
    """Training lines with random levels on `each` questions: 39 references of others as answers to each."""
    with_reference = [question for question in questions if question.reference and question.round == 1]
    texts = [question.reference or "" for question in with_reference]
    lines = []
    for question in draw.sample(with_reference, each):
        for model, text in enumerate(draw.choices(texts, k=ANSWERS)):
            level = draw.randint(1, 5)
            answer = Answer(question_id=question.id, model=f"m{model}", text=text, finish_reason="stop")
            soft = [float(level == number) for number in range(1, 6)]
            fields = {"question": question, "earlier": [], "answer": answer, "level": level, "scored_by": ["random"]}
            lines.append(TrainingLine(**fields, probabilities=soft, source="physician"))
    return lines


def trainer_of(base: Path, lines: list[TrainingLine], output: Path, way: dict[str, bool]) -> GenerativeTrainer:
    """The recipe's trainer, in float32, with an adapter that says something."""
    training = SFTConfig(
        output_dir=str(output),
        max_length=WINDOW,
        packing=way.get("packing", False),
        per_device_train_batch_size=1,
        gradient_checkpointing=False,
        report_to=[],
        use_cpu=True,
        bf16=False,
        disable_tqdm=True,
    )
    judge = JudgeArguments("generative", "t", "v", share_prefixes=way.get("share_prefixes", False))
    model = ModelConfig(model_name_or_path=str(base), lora_r=16, lora_dropout=0.0)
    config, tokenizer = TrainingConfig(judge, model, training), load_tokenizer(str(base))
    rows = generative_rows(config, tokenizer, TrainingData(lines, lines[:1]))
    trainer = generative_trainer(config, tokenizer, rows)
    torch.manual_seed(0)
    for name, value in trainer.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.02)
    trainer.model.train()
    return trainer


def epoch(trainer: GenerativeTrainer) -> Epoch:
    """An epoch as one step: gradients are left in the model. The optimiser takes the same time in all ways."""
    batches = list(Trainer.get_train_dataloader(trainer))
    weight = torch.stack([batch["weight"].sum() for batch in batches]).sum()
    start = time.process_time()
    for batch in batches:
        trainer.compute_loss(trainer.model, batch, num_items_in_batch=weight).backward()
    seconds = time.process_time() - start
    return Epoch(seconds, sum(batch["input_ids"].numel() for batch in batches))


def differing(one: GenerativeTrainer, other: GenerativeTrainer) -> float:
    """The largest relative difference of the gradient of an adapter's weight matrix, by its norm."""
    pairs = zip(one.model.named_parameters(), other.model.named_parameters(), strict=True)
    return max(
        float((theirs.grad - ours.grad).norm() / ours.grad.norm())
        for (_, ours), (_, theirs) in pairs
        if ours.grad is not None and theirs.grad is not None
    )


def write_base(folder: Path, questions: Sequence[Question], vocabulary: int, **shape: int) -> Path:
    """A model of a shape, untrained, and a tokenizer of the questions' texts."""
    texts = (f"{question.prompt} {question.reference or ''}" for question in questions)
    return write_lm(folder, byte_tokenizer(texts, vocabulary), max_position_embeddings=WINDOW, **shape)


def main() -> None:
    """Measures and writes the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--questions", type=int, default=6)
    arguments = parser.parse_args()
    transformers_logging.set_verbosity_error()
    questions = read_llmeval_med(arguments.data).questions
    draw = random.Random(0)
    epochs: dict[str, list[Epoch]] = {way: [] for way in WAYS}
    gradients: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        base = write_base(Path(folder) / "base", questions, 8000, **SHAPE)
        build = partial(trainer_of, base, output=Path(folder) / "out")
        for _ in range(arguments.rounds):
            lines = lines_of(questions, arguments.questions, draw)
            trainers = {way: build(lines, way=options) for way, options in WAYS.items()}
            for way, trainer in trainers.items():
                epochs[way].append(epoch(trainer))
                print(way, epochs[way][-1], flush=True)
            separate, shared = trainers.values()
            gradients.append(differing(separate, shared))
    record("tree-packing", result_of(arguments, epochs, gradients))


def result_of(
    arguments: argparse.Namespace, epochs: dict[str, list[Epoch]], gradients: Sequence[float]
) -> dict[str, Any]:
    """The rows of the result; how much faster is paired by round."""
    separate, *_ = epochs.values()
    rows = []
    for way, each in epochs.items():
        faster = [before.seconds / after.seconds for before, after in zip(separate, each, strict=True)]
        rows.append(
            {
                "way": way,
                "seconds": round(statistics.median(one.seconds for one in each), 2),
                "rounds_seconds": [round(one.seconds, 2) for one in each],
                "tokens": [one.tokens for one in each],
                "times_as_fast": round(statistics.median(faster), 2),
                "range": [round(min(faster), 2), round(max(faster), 2)],
            }
        )
    return {
        "command": f"python {sys.argv[0]} DATA --rounds {arguments.rounds} --questions {arguments.questions}",
        "model": SHAPE,
        "dtype": "float32",
        "threads": torch.get_num_threads(),
        "lines_of_a_round": arguments.questions * ANSWERS,
        "epoch": rows,
        "gradients_differ_by_at_most": max(gradients),
    }


if __name__ == "__main__":
    main()
