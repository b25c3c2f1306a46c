"""Optimizer steps in the shape of a generative config without TRL: the same adapter, packs, losses, checkpointing."""

import statistics
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
from model_shapes import timed
from on_gpu_steps import Place, gib, watched
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import BitsAndBytesConfig, PreTrainedTokenizerBase

from medjudge.judge.generative import score_token_ids
from medjudge.judge.prompts import encode_prompt, token_ids
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.records import TrainingLine
from medjudge.rubrics.render import Style
from medjudge.train.judge_trainer import language_loss, regression_loss, score_loss


class Line(NamedTuple):
    """The tokens of a line, where its score stands in them, and its soft label."""

    ids: list[int]
    score_at: int
    label: list[float]


def plain_steps(
    place: Place, options: dict[str, Any], base: Path, lines: Sequence[TrainingLine], steps: int
) -> dict[str, Any]:
    """Optimizer steps over packs, or over rows one by one where the config does not pack."""
    tokenizer = load_tokenizer(str(base))
    model = adapted(place, options, base)
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=1e-4)
    max_length = place.many(options["max_length"], 2560)
    encoded = [_encoded(line, tokenizer, max_length, options.get("style", "score-first")) for line in lines]
    each = 1 if options.get("packing") else place.many(options["per_device_train_batch_size"], 1)
    batches = packs([line for line in encoded if line], max_length if options.get("packing") else 0, each)
    label_ids = torch.tensor(score_token_ids(tokenizer), device=place.device)
    casting = torch.autocast("cuda", torch.bfloat16) if place.device.type == "cuda" else nullcontext()
    seconds, tokens = [], []
    with watched(place) as measured:
        for _ in range(steps):
            taken = [next(batches) for _ in range(place.many(options.get("gradient_accumulation_steps", 1), 1))]

            def one_step(taken: list[list[Line]] = taken) -> None:
                for batch in taken:
                    with casting:
                        loss = batch_loss(model, batch, label_ids) / len(taken)
                    loss.backward()  # type: ignore[no-untyped-call]
                optimizer.step()
                optimizer.zero_grad()

            seconds.append(timed(place.device, one_step))
            tokens.append(sum(len(line.ids) for batch in taken for line in batch))
    extra = {"reserved_gib": gib(torch.cuda.max_memory_reserved())} if place.device.type == "cuda" else {}
    return {
        **measured,
        "steps": steps,
        "seconds_for_a_step": round(statistics.median(seconds[2:]), 4),
        "tokens_of_a_step": round(statistics.mean(tokens[2:])),
        "tokens_per_second": round(sum(tokens[2:]) / sum(seconds[2:])),
        **extra,
        "trainable": sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
    }


def adapted(place: Place, options: dict[str, Any], base: Path) -> Any:
    """The base model with a fresh adapter, ready to train."""
    dtype = torch.float32 if place.tiny else torch.bfloat16
    checkpoint = {"use_reentrant": False}
    if options.get("load_in_4bit"):
        quantized = BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type=options["bnb_4bit_quant_type"],
            bnb_4bit_use_double_quant=options["use_bnb_nested_quant"],
            bnb_4bit_compute_dtype=dtype,
        )
        model: Any = load_causal_lm(str(base), dtype=dtype, quantization_config=quantized)
        model = prepare_model_for_kbit_training(model, options.get("gradient_checkpointing", False), checkpoint)
    else:
        model = load_causal_lm(str(base), dtype=dtype).to(place.device)
        if options.get("gradient_checkpointing"):
            model.gradient_checkpointing_enable(checkpoint)
    shape = {"r": options["lora_r"], "lora_alpha": options["lora_alpha"], "lora_dropout": options["lora_dropout"]}
    return get_peft_model(model, LoraConfig(task_type="CAUSAL_LM", target_modules="all-linear", **shape)).train()


def _encoded(line: TrainingLine, tokenizer: PreTrainedTokenizerBase, max_length: int, style: Style) -> Line | None:
    words = token_ids(tokenizer, f"\n{line.rationale}") if line.rationale else []
    prompt = encode_prompt(tokenizer, Assignment(line.question, (), line.answer), max_length - len(words) - 2, style)
    if prompt is None:
        return None
    score = score_token_ids(tokenizer)[line.level - 1]
    ids = [*prompt.input_ids, score, *words, int(tokenizer.eos_token_id)]
    return Line(ids, len(prompt.input_ids), line.probabilities)


def packs(lines: Sequence[Line], most: int, each: int) -> Iterator[list[Line]]:
    """Lines again and again: packs of up to `most` tokens, or, with `most` 0, groups of `each` lines."""
    number = 0
    pack: list[Line] = []
    while True:
        line = lines[number % len(lines)]
        tokens = sum(len(other.ids) for other in pack) + len(line.ids)
        if pack and (tokens > most if most else len(pack) == each):
            yield pack
            pack = []
        pack.append(line)
        number += 1


def batch_loss(model: Any, batch: Sequence[Line], label_ids: torch.Tensor) -> torch.Tensor:
    """The loss of the recipe over lines in one sequence, whose positions begin again with each line."""
    device = label_ids.device
    ids = torch.tensor([[token for line in batch for token in line.ids]], device=device)
    positions = torch.cat([torch.arange(len(line.ids)) for line in batch])[None].to(device)
    starts = torch.tensor([0, *(len(line.ids) for line in batch)]).cumsum(0).tolist()
    scores = [start + line.score_at for start, line in zip(starts, batch, strict=False)]
    words: list[int] = []
    owner: list[int] = []
    for number, (start, line) in enumerate(zip(starts, batch, strict=False)):
        spoken = range(start + line.score_at + 1, start + len(line.ids))
        words.extend(spoken)
        owner += [number] * len(spoken)
    before = torch.tensor([place - 1 for place in [*scores, *words]], device=device)
    logits = model(ids, position_ids=positions, use_cache=False, logits_to_keep=before).logits[0]
    at_score, at_words = logits[: len(batch)], logits[len(batch) :]
    target = torch.tensor([line.label for line in batch], device=device)
    spoken_ids = ids[0, torch.tensor(words, device=device)]
    language = language_loss(at_words, spoken_ids, torch.tensor(owner, device=device), len(batch))
    levels = at_score.float().log_softmax(dim=1)[:, label_ids]
    return (language + score_loss(levels, target) + regression_loss(levels, target)).mean()
