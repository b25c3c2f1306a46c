"""The smoke test for a GPU, small and on the CPU."""

import json
import os
from pathlib import Path

import pytest
from calls import python

from eval.lib.study import REPOSITORY


@pytest.mark.slow
def test_all_steps_pass_on_a_cpu(tmp_path: Path) -> None:
    out = tmp_path / "on-gpu.json"
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY)}
    done = python(REPOSITORY / "eval/speed/on_gpu.py", "--tiny", "--out", out, env=environment, timeout=900)
    steps = json.loads(out.read_text())["steps"]
    assert done.returncode == 0, {name: step for name, step in steps.items() if step["status"] == "failed"}
    assert steps["judging"]["from_plain_passes"]["levels_differing"] <= 1  # in bfloat16 on a CPU that has it
    assert steps["judging"]["prompts_per_second"] > 0
    assert steps["out of memory"]["tokens_at_the_end"] < 4_000_000
    assert {"distill", "answer", "train qwen3-1.7b-lora", "eval qwen3-1.7b-lora"} <= set(steps["commands"])
