"""Steps of `eval/on_gpu.py` that answer, run out of memory, and are killed and go on."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from model_shapes import random_model
from on_gpu_judging import ANSWERS, WINDOW, Spread, differences, prompts_of
from on_gpu_steps import Place, assignments_of, clear, gib, need, tokenizer_of, watched
from on_gpu_training import judge_folder, model_folder

from medjudge.answer.conversation import Request
from medjudge.answer.transformers_engine import TransformersEngine
from medjudge.errors import InputError
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings, score_line
from medjudge.judge.protocol import Assignment

NEW_TOKENS = 256


def answering(place: Place, size: str) -> dict[str, Any]:
    """Answers in static batches, sampled and greedy; random models never stop."""
    folder = model_folder(place, size)
    new_tokens = place.many(NEW_TOKENS, 8)
    questions = [item.question.prompt for item in assignments_of(place.many(96, 4), 1)]
    requests = [Request([{"role": "user", "content": text}], seed) for seed, text in enumerate(questions)]
    result: dict[str, Any] = {"answers": len(requests), "new_tokens": new_tokens}
    for name, temperature in {"static, sampled": 0.7, "static, greedy": 0.0}.items():
        engine = TransformersEngine(
            str(folder), device=place.device.type, max_new_tokens=new_tokens, temperature=temperature
        )
        attention = engine.model.config._attn_implementation
        try:
            list(engine.answer(requests[:2]))
            with watched(place) as measured:
                replies = dict(engine.answer(requests))
        except Exception as error:  # one way that fails leaves the others
            result[name] = {"error": " ".join(str(error).split())[:300]}
        else:
            written = sum(reply.tokens_out or 0 for reply in replies.values())
            result[name] = {
                **measured,
                "attention": attention,
                "tokens_per_second": round(written / measured["seconds"], 1),
                "answers_per_second": round(len(replies) / measured["seconds"], 3),
            }
        del engine
        clear(place)
    return result


def out_of_memory(place: Place) -> dict[str, Any]:
    """First batches far too large: they halve until they fit, and no judgment is lost or changes.

    The process may use 6 GiB more than the model. In a test on a CPU a model that refuses large batches stands in.
    """
    tokenizer = tokenizer_of(place)
    model = random_model(place.size("0.6B"), place.device, tokenizer)
    work = assignments_of(place.many(8, 2), place.many(ANSWERS, 6))
    settings = GenerativeSettings(WINDOW)
    careful = GenerativeJudge("careful", model, tokenizer, settings)
    expected = _logits(careful, work)
    clear(place)
    judge = GenerativeJudge("greedy", model, tokenizer, settings._replace(batch_tokens=4_000_000))
    judge.memory.most = 4_000_000
    _limit_memory(place, judge)
    try:
        with watched(place) as measured:
            rows = _logits(judge, work)
        one_text = _one_text_too_long(place, judge)
    finally:
        if place.device.type == "cuda":
            torch.cuda.set_per_process_memory_fraction(1.0)
    return {
        **measured,
        "prompts": len(work),
        "tokens_at_first": 4_000_000,
        "tokens_at_the_end": judge.memory.tokens,
        "halved": judge.memory.tokens < 4_000_000,
        "beside_small_batches": differences(rows, expected, Spread.of(expected)),
        "one_text_too_long": one_text,
    }


def _logits(judge: GenerativeJudge, work: Sequence[Assignment]) -> np.ndarray:
    prompts = prompts_of(judge, work)
    return np.array([reading.logits for reading in judge.read(prompts, [score_line(item) for item in work])])


def _limit_memory(place: Place, judge: GenerativeJudge) -> None:
    if place.device.type == "cuda":
        _, total = torch.cuda.mem_get_info()
        allowed = torch.cuda.memory_allocated() + 6 * 2**30
        torch.cuda.set_per_process_memory_fraction(min(1.0, allowed / total))
        return

    def refuse(model: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        rows, length = arguments[0].shape
        if rows > 2 or length > 4000:
            raise torch.OutOfMemoryError("a pass of more than two rows or 4000 tokens, in a test")

    judge.model.register_forward_pre_hook(refuse, with_kwargs=True)


def _one_text_too_long(place: Place, judge: GenerativeJudge) -> str:
    """What a user reads where a single text does not fit in memory."""
    if place.device.type == "cuda":
        held = torch.cuda.memory_allocated()
        _, total = torch.cuda.mem_get_info()
        clear(place)
        torch.cuda.set_per_process_memory_fraction(min(1.0, (held + 64 * 2**20) / total))
    long = assignments_of(1, 1, texts_each=(60, 60))
    try:
        _logits(judge, long)
    except InputError as error:
        return str(error)
    return f"it fitted in {gib(judge.memory.held)} GiB"


def killed_and_resumed(place: Place, size: str) -> dict[str, Any]:
    """`medjudge eval` with a judge folder, killed after its first judgments, and the same command again."""
    need("typer", "rich", "openai", "scipy", "sklearn")
    folder = judge_folder(place, size)
    data = place.folder / "resume"
    data.mkdir(exist_ok=True)
    work = assignments_of(place.many(40, 4), place.many(ANSWERS, 6))
    _write_lines(data / "questions.jsonl", list({item.question.id: item.question for item in work}.values()))
    _write_lines(data / "answers.jsonl", [item.answer for item in work])
    command = [sys.executable, "-m", "medjudge.cli", "eval", "--benchmark", str(data / "questions.jsonl")]
    command += ["--answers", str(data / "answers.jsonl"), "--judge", str(folder), "--run", str(data / "run")]
    command += ["--device", place.device.type, "--offline"]
    judgments = data / "run" / "judgments" / f"{folder.name}.jsonl"
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    with (data / "log.txt").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            before = _killed_at(process, judgments)
        finally:
            process.kill()
            process.wait()
        with watched(place) as measured:
            done = subprocess.run(command, stdout=log, stderr=log, env=environment, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError(f"exit {done.returncode}: {(data / 'log.txt').read_text()[-400:]}")
    records = [json.loads(line) for line in judgments.read_text(encoding="utf-8").splitlines()]
    keys = {(record["question_id"], record["model"]) for record in records}
    return {
        "answers": len(work),
        "judged_when_killed": before,
        "judged_at_the_end": len(keys),
        "twice": len(records) - len(keys),
        "seconds_of_the_second_run": measured["seconds"],
    }


def _killed_at(process: "subprocess.Popen[bytes]", judgments: Path) -> int:
    """Kills the process as soon as there is a judgment; returns how many there were."""
    while process.poll() is None:
        if judgments.exists() and (lines := judgments.read_bytes().count(b"\n")):
            process.send_signal(signal.SIGKILL)
            process.wait()
            return max(lines, judgments.read_bytes().count(b"\n"))
        time.sleep(0.02)
    return judgments.read_bytes().count(b"\n") if judgments.exists() else 0


def _write_lines(path: Path, records: Sequence[Any]) -> None:
    path.write_text("".join(f"{record.model_dump_json()}\n" for record in records), encoding="utf-8")
