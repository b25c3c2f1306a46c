"""Steps of `eval/on_gpu.py` that train: each config of configs/judges/, on random weights in the shape of its model.

With TRL and datasets the recipe's own trainer takes the steps, else `on_gpu_plain.py` does, in the same shape.
"""

import importlib.util
import itertools
import random
import statistics
import time
from pathlib import Path
from typing import Any

import torch
from model_shapes import random_model, save_model
from on_gpu_plain import plain_steps
from on_gpu_steps import Place, assignments_of, clear, gib, need, tokenizer_of, watched
from transformers import TrainerCallback
from transformers.utils import logging as transformers_logging

from medjudge.files import read_yaml
from medjudge.judge.protocol import Assignment
from medjudge.records import TrainingLine

CONFIGS = Path(__file__).parent.parent / "configs" / "judges"
STEPS = 10
_LINES = 320
_SIZES = {f"Qwen/Qwen3-{size}": size for size in ("0.6B", "1.7B", "4B", "8B")} | {"models/tiny-lm": "tiny"}
_ENCODERS = {"sentence-transformers/all-MiniLM-L6-v2": "MiniLM", "intfloat/multilingual-e5-small": "e5-small"}
_ENCODER_SHAPES = {"MiniLM": (6, 30_522), "e5-small": (12, 250_037)}
"""Layers and words of encoders of width 384."""


class UnknownShapeError(Exception):
    """The shape of a config's model is not known, or the config continues from a judge that is not there."""


def training(place: Place, config: str) -> dict[str, Any]:
    """Ten optimizer steps: tokens a second after the first two, seconds for a step, peak memory.

    Raises:
        ModuleNotFoundError: The config needs a package that is not installed.
        UnknownShapeError: No random model can stand in for the config's.
    """
    options = read_yaml(CONFIGS / f"{config}.yaml")
    if options.get("load_in_4bit"):
        need("bitsandbytes")
    size = _size(options)
    lines = training_lines(place)
    with_recipe = all(importlib.util.find_spec(name) is not None for name in ("trl", "datasets"))
    if options["kind"] != "generative":
        need("trl", "datasets")
    if with_recipe:
        return {"by": "the recipe's trainer", **recipe_steps(place, config, options, size, lines)}
    return {"by": "a plain loop", **plain_steps(place, options, model_folder(place, size), lines, steps(place))}


def sharing(place: Place, config: str) -> dict[str, Any]:
    """As `training`, with `share_prefixes`: on a GPU, flex attention over trees of lines. Compare the lines a second.

    Raises:
        ModuleNotFoundError: TRL or datasets is not installed.
    """
    need("trl", "datasets")
    options = read_yaml(CONFIGS / f"{config}.yaml")
    lines = training_lines(place)
    return recipe_steps(place, config, options, _size(options), lines, {"packing": "true", "share_prefixes": "true"})


def steps(place: Place) -> int:
    """Optimizer steps of a training step."""
    return place.many(STEPS, 3)


def _size(options: dict[str, Any]) -> str:
    if "start_from" in options or "model_name_or_path" not in options:
        raise UnknownShapeError("continues from a judge that another config trains")
    name = options["model_name_or_path"]
    if name in _ENCODERS:
        return _ENCODERS[name]
    if name not in _SIZES:
        raise UnknownShapeError(f"no shape is known for {name}")
    return _SIZES[name]


def training_lines(place: Place) -> list[TrainingLine]:
    """Lines in the length of real ones, half of them with a rationale, levels at random."""
    draw = random.Random(0)
    lines = []
    texts_each = (2, 6) if not place.tiny else (1, 1)
    for assignment in assignments_of(place.many(_LINES // 8, 2), place.many(8, 2), seed=2, texts_each=texts_each):
        level = draw.randint(1, 5)
        lines.append(_line(assignment, level, draw.random() < 0.5))
    return lines


def _line(assignment: Assignment, level: int, with_rationale: bool) -> TrainingLine:
    return TrainingLine(
        question=assignment.question,
        earlier=[],
        answer=assignment.answer,
        level=level,
        probabilities=[float(level == number) for number in range(1, 6)],
        source="physician",
        scored_by=["random"],
        rationale=assignment.answer.text[:600] if with_rationale else None,
    )


def model_folder(place: Place, size: str) -> Path:
    """A folder with random weights in a shape, written once for all steps."""
    size = size if size in _ENCODER_SHAPES else place.size(size)
    folder = place.folder / f"model-{size}"
    if folder.is_dir():
        return folder
    part = place.folder / f"part-{size}"
    tokenizer = tokenizer_of(place)
    if size in _ENCODER_SHAPES:
        _write_encoder(part, *_ENCODER_SHAPES[size])
    else:
        save_model(random_model(size, place.device, tokenizer), tokenizer, part)
        clear(place)
    return part.rename(folder)


def _write_encoder(folder: Path, layers: int, words: int) -> None:
    """A BERT in the shape of a published encoder, with a small vocabulary of its own tokenizer."""
    from tiny_models import build_tiny_encoder
    from transformers import BertConfig, BertModel

    build_tiny_encoder(folder, window=512)
    shape = {"hidden_size": 384, "num_hidden_layers": layers, "num_attention_heads": 12, "intermediate_size": 1536}
    BertModel(BertConfig(vocab_size=words, max_position_embeddings=512, **shape)).save_pretrained(folder)


def judge_folder(place: Place, size: str) -> Path:
    """A generative judge: a random adapter on `model_folder`."""
    from peft import LoraConfig, get_peft_model

    from medjudge.judge.folder import JudgeCard

    base = model_folder(place, size)
    folder = place.folder / f"judge-{place.size(size)}"
    if folder.is_dir():
        return folder
    part = place.folder / f"judge-part-{place.size(size)}"
    tokenizer = tokenizer_of(place)
    config = LoraConfig(task_type="CAUSAL_LM", r=32, lora_alpha=64, target_modules="all-linear")
    model = get_peft_model(random_model(place.size(size), place.device, tokenizer), config)
    model.save_pretrained(part)
    (part / "README.md").unlink(missing_ok=True)
    tokenizer.save_pretrained(part)
    JudgeCard(kind="generative", base_model=str(base), max_length=10_240).write(part)
    del model
    clear(place)
    return part.rename(folder)


class _Clock(TrainerCallback):
    """When each step ended, and how many tokens had been collated by then."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.tokens = self.lines = 0
        self.at: list[tuple[float, int]] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.at.append((time.perf_counter(), self.tokens))

    def counting(self, collate: Any) -> Any:
        """A collator that counts the tokens of its batches, padding left out."""

        def counted(rows: Any) -> Any:
            batch = collate(rows)
            self.tokens += _tokens(batch)
            self.lines += len(batch["score_at"]) if "score_at" in batch else 0
            return batch

        return counted


def _tokens(batch: dict[str, torch.Tensor]) -> int:
    """The tokens of a batch without padding: those that belong to a line, or that masks show."""
    if "line" in batch:
        return int((batch["line"] >= 0).sum())
    return sum(int(tensor.sum()) for name, tensor in batch.items() if name.endswith("mask"))


def recipe_steps(
    place: Place,
    config: str,
    options: dict[str, Any],
    size: str,
    lines: list[TrainingLine],
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Ten steps of the trainer that `recipes/train_judge.py` builds from the config and `more` options."""
    from medjudge.models.loading import load_tokenizer
    from medjudge.train.command_line import parse_arguments, with_defaults
    from medjudge.train.features import TrainingData
    from medjudge.train.kinds import KINDS

    transformers_logging.set_verbosity_error()
    base = model_folder(place, size)
    output = place.folder / f"train-{config}"
    given = {"train_file": "train", "validation_file": "validation", "output_dir": output, "max_steps": steps(place)}
    given |= {"eval_strategy": "no", "save_strategy": "no", "load_best_model_at_end": "false", "disable_tqdm": "true"}
    given["model_name_or_path"] = base
    if place.tiny:
        given |= {"use_cpu": "true", "bf16": "false", "per_device_train_batch_size": 1}
        given |= {"gradient_accumulation_steps": 1}
        given |= {"dtype": "float32", "max_length": 2560} if options["kind"] == "generative" else {}
    given |= more or {}
    words = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    judge, model, arguments = parse_arguments(["--config", str(CONFIGS / f"{config}.yaml"), *words])
    arguments = with_defaults(arguments, output)
    tokenizer = load_tokenizer(str(base))
    kind = KINDS[judge.kind]
    data = kind.with_room(judge, arguments, tokenizer, TrainingData(lines, lines[:2]))
    trainer = kind.trainer(judge, model, arguments, tokenizer, data)
    clock = _Clock(place.device)
    trainer.data_collator = clock.counting(trainer.data_collator)
    trainer.add_callback(clock)
    with watched(place) as measured:
        trainer.train()
    measured |= pace(clock.at)
    if clock.lines:  # of a generative judge
        each = clock.lines / len(clock.at)
        measured |= {
            "lines_of_a_step": round(each, 1),
            "lines_per_second": round(each / measured["seconds_for_a_step"], 2),
        }
    return {**measured, **_after(place), "trainable": _trainable(trainer.model)}


def _trainable(model: torch.nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters() if weight.requires_grad)


def pace(at: list[tuple[float, int]]) -> dict[str, Any]:
    """Seconds for a step and tokens a second from the third step on.

    Args:
        at: When each step ended, in seconds, and the tokens until then.
    """
    each = [later - earlier for (earlier, _), (later, _) in itertools.pairwise(at[1:])]
    tokens = at[-1][1] - at[1][1]
    return {
        "steps": len(at),
        "seconds_for_a_step": round(statistics.median(each), 4),
        "tokens_of_a_step": round(tokens / len(each)) or None,
        "tokens_per_second": round(tokens / sum(each)) or None,
    }


def _after(place: Place) -> dict[str, Any]:
    if place.device.type != "cuda":
        return {}
    return {"reserved_gib": gib(torch.cuda.max_memory_reserved())}
