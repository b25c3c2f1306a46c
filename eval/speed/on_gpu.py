"""A smoke test on a GPU: judging against plain forward passes, a first batch too large, training, judging, answering.

    python eval/speed/on_gpu.py [--size 1.7B] [--out FILE] [--only STEP ...]
    python eval/speed/on_gpu.py --tiny           # the same on a CPU, with models of two layers

No model hub and no network are needed: the models have random weights in published shapes, and the texts are those of
the bundled sample. The steps run in order; one that fails leaves the others. FILE (eval/results/on-gpu.json) is written
again after each step. The exit status is 1 where a step failed.
"""

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from eval.lib.model_shapes import SIZES, random_model, save_model
from eval.lib.study import REPOSITORY, RESULTS, circumstances
from eval.lib.tiny_models import byte_tokenizer, sample_texts
from medjudge.benchmark.sample import sample_folder
from medjudge.files import read_yaml, write_whole
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.prompts import Prompt, encode_prompts
from medjudge.judge.protocol import Assignment
from medjudge.scale import median_level
from medjudge.store import Run

CONFIGS = ("qwen3-1.7b-lora", "qwen3-8b-qlora")
WINDOW = 8192
ANSWERS, QUESTIONS = 13, 40
FIRST_TOKENS = 4_000_000
"""Tokens of the first batch of the step that runs out of memory."""


class Place(NamedTuple):
    """The place of the steps: the device, the shape of the model, and a folder for files."""

    device: torch.device
    size: str
    folder: Path

    @property
    def tiny(self) -> bool:
        return self.size == "tiny"


def assignments(questions: int, answers: int) -> list[Assignment]:
    """Questions of the bundled sample, each with answers made of three texts of other questions."""
    run = Run(sample_folder())
    texts = [answer.text for answer in run.answers()]
    first = [question for question in run.questions() if question.round == 1]
    answer = run.answers()[0]
    work = []
    for number in range(questions):
        question = first[number % len(first)].model_copy(update={"id": f"q{number}"})
        for model in range(answers):
            start = 7 * number + 3 * model
            text = "\n\n".join(texts[at % len(texts)] for at in range(start, start + 3))
            fields = {"question_id": question.id, "model": f"m{model}", "text": text}
            work.append(Assignment(question, (), answer.model_copy(update=fields)))
    return work


def judge_of(place: Place, batch_tokens: int | None = None) -> GenerativeJudge:
    """A judge with random weights, whose attention counts for more than that of a fresh model."""
    tokenizer = byte_tokenizer(sample_texts(), 4000)
    model = random_model(place.size, place.device, tokenizer)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("v_proj.weight", "o_proj.weight")):
                weight *= 4
    settings = GenerativeSettings(WINDOW)
    if batch_tokens is not None:
        settings = settings._replace(batch_tokens=batch_tokens)
    judge = GenerativeJudge("random", model, tokenizer, settings)
    if batch_tokens is not None:
        judge.memory.most = batch_tokens
    return judge


def logits_of(judge: GenerativeJudge, work: Sequence[Assignment]) -> tuple[list[Prompt], np.ndarray]:
    """The prompts, and the logits of the five labels that the judge reads from its batches, (n, 5)."""
    prompts = [prompt for item in work if (prompt := encode_prompts(judge.tokenizer, [item], [WINDOW - 1])[0])]
    assert len(prompts) == len(work)
    return prompts, np.array([each.logits for each in judge.read(prompts)])


def differences(left: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """The difference between two readings of the same prompts, after both are scaled to give all five levels."""
    centre = right.mean(axis=0)
    scale = 2.0 / (right - centre).std()
    shares = [torch.tensor((rows - centre) * scale).double().softmax(dim=1).numpy() for rows in (left, right)]
    levels = [[median_level(row) for row in rows] for rows in shares]
    return {
        "levels_differing": sum(one != other for one, other in zip(*levels, strict=True)),
        "largest_difference_of_expected_level": float(np.abs((shares[0] - shares[1]) @ np.arange(1, 6)).max()),
    }


def judging(place: Place) -> dict[str, Any]:
    """Judging in batches: prompts a second, and differences from one plain pass per prompt."""
    judge = judge_of(place)
    work = assignments(2 if place.tiny else QUESTIONS, 4 if place.tiny else ANSWERS)
    logits_of(judge, work[:4])
    start = time.perf_counter()
    prompts, batched = logits_of(judge, work)
    seconds = time.perf_counter() - start
    few = range(len(prompts))[:100]
    plain = []
    with torch.inference_mode():
        for at in few:
            ids = torch.tensor([prompts[at].input_ids], device=place.device)
            plain.append(judge.model(ids, use_cache=False, logits_to_keep=1).logits[0, -1, list(judge.label_ids)])
    tokens = sum(len(prompt.input_ids) for prompt in prompts)
    return {
        "prompts": len(prompts),
        "tokens": tokens,
        "prompts_per_second": round(len(prompts) / seconds, 2),
        "from_plain_passes": differences(batched[: len(few)], torch.stack(plain).float().cpu().numpy()),
    }


def out_of_memory(place: Place) -> dict[str, Any]:
    """A first batch whose two first passes run out of memory is halved twice, and no judgment changes."""
    work = assignments(2 if place.tiny else 8, 6 if place.tiny else 39)
    _, expected = logits_of(judge_of(place), work)
    judge = judge_of(place, FIRST_TOKENS)
    refused = iter(range(2))

    def refuse(*_: Any) -> None:
        if next(refused, None) is not None:
            raise torch.OutOfMemoryError("one of the first passes")

    judge.model.register_forward_pre_hook(refuse, with_kwargs=True)
    _, found = logits_of(judge, work)
    if judge.memory.tokens >= FIRST_TOKENS:
        raise AssertionError("the first batch fitted: nothing was halved")
    return {"prompts": len(work), "tokens_at_the_end": judge.memory.tokens, **differences(found, expected)}


def medjudge(place: Place, command: str) -> float:
    """Runs a command of medjudge offline; returns its seconds.

    Raises:
        RuntimeError: It failed; with the end of its output.
    """
    start = time.perf_counter()
    words = [sys.executable, "-m", "medjudge.cli", *command.split()]
    done = subprocess.run(words, cwd=place.folder, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"exit {done.returncode}: {command}: {done.stderr[-600:]}")
    return round(time.perf_counter() - start, 1)


def commands(place: Place) -> dict[str, Any]:
    """Seconds of `distill`, of `train` with each of CONFIGS, of `eval` with its judge, and of `answer`."""
    base = write_base(place, place.size)
    device = f"--device {place.device.type} --offline"
    answer = f"answer --model {base} --run answers --limit 4 --max-new-tokens 16 {device}"
    seconds = {"answer": medjudge(place, answer), "distill": medjudge(place, f"distill {sample_folder()} --out data")}
    if place.tiny:
        for file in place.folder.glob("data/*.jsonl"):
            lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
            file.write_text("".join(lines[:12]), encoding="utf-8")
    for config in CONFIGS[: 1 if place.tiny else None]:
        options = read_yaml(REPOSITORY / "configs" / "judges" / f"{config}.yaml")
        base = write_base(place, "tiny" if place.tiny else options["model_name_or_path"].removeprefix("Qwen/Qwen3-"))
        train = f"train --config {config} --model_name_or_path {base} --train-file data/train.jsonl"
        train += f" --validation-file data/validation.jsonl --output-dir {config} --max_steps {1 if place.tiny else 10}"
        train += " --eval_strategy no --save_strategy no --load_best_model_at_end false"
        if place.tiny:
            train += " --use_cpu true --bf16 false --dtype float32 --max_length 2560"
            train += " --per_device_train_batch_size 1 --gradient_accumulation_steps 1"
        seconds[f"train {config}"] = medjudge(place, train)
        judged = (
            f"eval --benchmark sample --judge {config} --run run-{config} --limit {1 if place.tiny else 8} {device}"
        )
        seconds[f"eval {config}"] = medjudge(place, judged)
    return seconds


def write_base(place: Place, size: str) -> Path:
    """The folder of a base model with random weights of a size, written once."""
    folder = place.folder / f"base-{size}"
    if not folder.exists():
        tokenizer = byte_tokenizer(sample_texts(), 4000)
        save_model(random_model(size, place.device, tokenizer), tokenizer, folder)
    return folder


STEPS = {"judging": judging, "out of memory": out_of_memory, "commands": commands}


def main() -> int:
    """Runs the steps; returns 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="1.7B")
    parser.add_argument("--out", type=Path, default=RESULTS / "on-gpu.json")
    parser.add_argument("--only", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--tiny", action="store_true", help="on the CPU, with models of two layers")
    options = parser.parse_args()
    if not options.tiny and not torch.cuda.is_available():
        parser.error(f"torch {torch.__version__} finds no GPU; --tiny runs on the CPU")
    result: dict[str, Any] = {"command": " ".join(["python", *sys.argv]), **circumstances(), "steps": {}}
    with tempfile.TemporaryDirectory() as folder:
        device, size = ("cpu", "tiny") if options.tiny else ("cuda", options.size)
        place = Place(torch.device(device), size, Path(folder))
        for name in options.only:
            try:
                entry = {"status": "done", **STEPS[name](place)}
            except Exception as error:  # the other steps still run
                trace = [f"{Path(at.filename).name}:{at.lineno}" for at in traceback.extract_tb(error.__traceback__)]
                entry = {"status": "failed", "error": f"{type(error).__name__}: {error}", "trace": trace[-6:]}
            if device == "cuda":
                entry["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
                gc.collect()
                torch.cuda.empty_cache()
            result["steps"][name] = entry
            write_whole(options.out, json.dumps(result, ensure_ascii=False, indent=2) + "\n")
            print(name, json.dumps(entry, ensure_ascii=False), flush=True)
    return int(any(entry["status"] == "failed" for entry in result["steps"].values()))


if __name__ == "__main__":
    sys.exit(main())
