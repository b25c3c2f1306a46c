"""What the steps of `eval/on_gpu.py` share: where they run, what they read, how they are measured."""

import gc
import importlib.util
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from qwen_tokenizer import best_tokenizer, qwen_vocabulary
from transformers import PreTrainedTokenizerBase

from medjudge.benchmark.sample import sample_folder
from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.protocol import Assignment
from medjudge.models.batching import MemoryLimit
from medjudge.models.hardware import describe
from medjudge.models.loading import load_tokenizer
from medjudge.records import Answer, Question
from medjudge.store import read_records

PACKAGES = ("torch", "transformers", "peft", "trl", "accelerate", "bitsandbytes", "flash-attn", "vllm", "triton")


class Place(NamedTuple):
    """Where a step runs.

    Attributes:
        tiny: Models of two layers and few prompts, for a test on a CPU.
        device: The GPU, or the CPU with `tiny`.
        folder: Scratch space, which the steps of one run share.
    """

    tiny: bool
    device: torch.device
    folder: Path

    def size(self, size: str) -> str:
        """The shape of model to build."""
        return "tiny" if self.tiny else size

    def many(self, number: int, if_tiny: int) -> int:
        """How many of something to take."""
        return if_tiny if self.tiny else number


def tokenizer_of(place: Place) -> PreTrainedTokenizerBase:
    """Qwen's tokenizer where its vocabulary is installed, else one trained on the sample; made once for a run."""
    folder = place.folder / "tokenizer"
    if not folder.is_dir():
        part = place.folder / "tokenizer-part"
        best_tokenizer(place.tiny).save_pretrained(part)
        part.rename(folder)
    return load_tokenizer(str(folder))


def machine(place: Place) -> dict[str, Any]:
    """The device, the versions of the packages (null: not installed), and the vocabulary that prompts are made with."""
    about: dict[str, Any] = {**describe(), "versions": {name: _version(name) for name in PACKAGES}}
    tokenizer_of(place)  # here, so that no measurement waits for it
    about["vocabulary"] = "sample" if place.tiny or qwen_vocabulary() is None else "Qwen"
    if place.device.type == "cuda":
        free, total = torch.cuda.mem_get_info(place.device)
        about |= {"cuda": torch.version.cuda, "gib": gib(total), "gib_free": gib(free)}
    return about


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def need(*modules: str) -> None:
    """Raises ModuleNotFoundError, which marks a step as skipped, where a module is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise ModuleNotFoundError(f"no module {module}", name=module)


def gib(size: float) -> float:
    """Bytes as GiB, two decimals."""
    return round(size / 2**30, 2)


@contextmanager
def watched(place: Place) -> Iterator[dict[str, Any]]:
    """Yields a dictionary that gets `seconds` and, on a GPU, `peak_gib` when the block ends."""
    measured: dict[str, Any] = {}
    if place.device.type == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    yield measured
    if place.device.type == "cuda":
        torch.cuda.synchronize()
        measured["peak_gib"] = gib(torch.cuda.max_memory_allocated())
    measured["seconds"] = round(time.perf_counter() - start, 3)


def clear(place: Place) -> None:
    """Frees what a step left in memory."""
    gc.collect()  # models hold reference cycles
    if place.device.type == "cuda":
        torch.cuda.empty_cache()


class CountedBatches(MemoryLimit):
    """A limit that keeps the rows and the longest row of each batch."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.batches: list[tuple[int, int]] = []

    def run(self, indices: Sequence[int], lengths: Sequence[int], forward: Any) -> Any:
        for batch, result in super().run(indices, lengths, forward):
            self.batches.append((len(batch), max(lengths[index] for index in batch)))
            yield batch, result
            del result

    def summary(self) -> dict[str, Any]:
        """The batches so far, and the limit that they led to."""
        rows = [rows for rows, _ in self.batches]
        return {
            "batches": len(rows),
            "first_rows": rows[:1],
            "most_rows": max(rows, default=0),
            "tokens_at_the_end": self.tokens,
        }


def counted(judge: GenerativeJudge) -> CountedBatches:
    """Lets a judge count its batches."""
    memory = CountedBatches(judge.memory.device, judge.memory.tokens, judge.memory.most)
    judge.memory = memory
    return memory


def assignments_of(
    questions: int, answers: int, seed: int = 0, texts_each: tuple[int, int] = (2, 6)
) -> list[Assignment]:
    """Answers to judge: questions of the bundled sample, with texts of its answers in the length of real ones.

    Args:
        questions: The number of questions; each keeps its rubric, reference and checklist.
        answers: The answers to each.
        seed: Of the draw.
        texts_each: The fewest and the most texts of the sample that make one answer.
    """
    draw = random.Random(seed)
    everything = read_records(sample_folder() / "questions.jsonl", Question)
    known = [question for question in everything if question.round == 1]
    language = {question.id: question.language for question in known}
    texts: dict[str, list[str]] = {}
    for answer in read_records(sample_folder() / "answers.jsonl", Answer):
        texts.setdefault(language.get(answer.question_id, "en"), []).append(answer.text)
    work = []
    for number in range(questions):
        base = known[number % len(known)]
        name = f"{base.id}-{number}"
        question = base.model_copy(update={"id": name, "group": name, "prompt": f"{base.prompt} ({number})"})
        for model in range(answers):
            text = "\n\n".join(draw.choices(texts[question.language], k=draw.randint(*texts_each)))
            answer = Answer(question_id=question.id, model=f"m{model}", text=text, finish_reason="stop")
            work.append(Assignment(question, (), answer))
    return work
