import os
import platform
from pathlib import Path

import psutil
import pytest
import torch

from medjudge.errors import InputError
from medjudge.models import hardware
from medjudge.models.hardware import choose_device
from medjudge.workflows.doctor import diagnose


def test_a_gpu_is_requested_and_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="finds no GPU; use --device cpu"):
        choose_device("cuda")
    assert choose_device("auto").type == "cpu"
    with pytest.raises(InputError, match="unknown"):
        choose_device("tpu")


@pytest.mark.parametrize(
    ("amx", "avx512", "speedup", "expected"),
    [(True, False, 0.0, True), (False, True, 3.0, True), (False, True, 0.3, False), (False, False, 3.0, False)],
)
def test_bfloat16_needs_amx_or_a_measured_gain(
    amx: bool, avx512: bool, speedup: float, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: avx512)
    monkeypatch.setattr(hardware, "_bf16_speedup", lambda: speedup)
    monkeypatch.setattr(hardware, "cpu_has_bf16", hardware.cpu_has_bf16.__wrapped__)  # measured each time
    assert hardware.fast_dtype(torch.device("cpu")) == (torch.bfloat16 if expected else torch.float32)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators return memory themselves")
def test_freed_memory_is_returned() -> None:
    held = [torch.ones(4096) for _ in range(20_000)]
    last = held[-1]  # glibc itself returns what lies above the last block in use
    del held
    before = psutil.Process().memory_info().rss
    hardware.return_freed_memory()
    assert before - psutil.Process().memory_info().rss > 200 * 2**20
    assert last.sum() == 4096


def fake_nvidia_smi(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_driver_too_old_is_told_from_no_gpu_and_from_a_cpu_build(tmp_path, monkeypatch) -> None:
    fake_nvidia_smi(tmp_path, monkeypatch, 'echo "NVIDIA A100-SXM4-80GB, 470.57.02"')
    reasons = {
        "13.0": "driver is too old for this torch, which is built for CUDA 13.0",
        None: "this torch is a CPU build",
    }
    for built_for, reason in reasons.items():
        monkeypatch.setattr(torch.version, "cuda", built_for)
        gpu = hardware.unused_gpu()
        assert gpu is not None
        assert (gpu.name, gpu.driver) == ("NVIDIA A100-SXM4-80GB", "470.57.02")
        assert reason in gpu.reason
        assert any("470.57.02" in line for line in diagnose()["advice"])
    for script in ("exit 9", "true"):
        fake_nvidia_smi(tmp_path, monkeypatch, script)
        assert hardware.unused_gpu() is None
        assert any(line.startswith("no GPU") for line in diagnose()["advice"])


def test_bfloat16_that_a_gpu_emulates_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation=True: including_emulation)
    assert hardware.fast_dtype(torch.device("cuda")) == torch.float16
