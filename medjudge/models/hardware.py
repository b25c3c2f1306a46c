"""The devices of this machine: which one to use, fast number formats, and memory."""

import ctypes
import gc
import os
import platform
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch

from medjudge.errors import InputError, notify


def choose_device(device: str) -> torch.device:
    """Resolves `auto`, `cpu` or `cuda` to an available device.

    Raises:
        InputError: There is no GPU, or the name is unknown.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {device}: unknown; use auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"--device cuda: torch {torch.__version__} finds no GPU; use --device cpu, or install a CUDA build of torch"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def fast_dtype(device: torch.device) -> torch.dtype:
    """The format of fast matrix products: bfloat16 with hardware support; else float16 on a GPU, float32 on a CPU."""
    if device.type == "cuda":
        return torch.bfloat16 if gpu_has_bf16() else torch.float16
    return torch.bfloat16 if cpu_has_bf16() else torch.float32


def fast_autocast(device: torch.device) -> torch.autocast:
    """Matrix products in `fast_dtype`; off where that is float32."""
    dtype = fast_dtype(device)
    return torch.autocast(device.type, dtype, enabled=dtype != torch.float32)


def gpu_has_bf16() -> bool:
    """True if the GPU multiplies bfloat16 itself. Older ones emulate it, several times slower than float16."""
    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


@cache
def cpu_has_bf16() -> bool:
    """True if the CPU multiplies matrices of bfloat16 clearly faster than those of float32.

    With AMX it does. With AVX-512 BF16 alone, one CPU was two to three times as fast and another one slower, so it is
    timed here. The threshold lies far from both.
    """
    if torch.cpu._is_amx_tile_supported():
        return True
    return torch.cpu._is_avx512_bf16_supported() and _bf16_speedup() > 1.5


def _bf16_speedup() -> float:
    """The speed of a matrix product in bfloat16, as a multiple of float32's; measuring it takes about 50 ms."""
    best = {torch.float32: float("inf"), torch.bfloat16: float("inf")}
    for dtype in [*best] * 6:  # in turn, so that other work on the machine slows both
        states, weights = torch.ones(256, 1024, dtype=dtype), torch.ones(1024, 1024, dtype=dtype)
        start = time.perf_counter()
        torch.nn.functional.linear(states, weights)
        best[dtype] = min(best[dtype], time.perf_counter() - start)
    return best[torch.float32] / best[torch.bfloat16]


_ALLOCATION_ERRORS = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """True if an allocation failed, on a GPU or the CPU."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(
        message in str(error) for message in _ALLOCATION_ERRORS
    )


def return_freed_memory() -> None:
    """Returns freed memory to the operating system; glibc would keep blocks of all sizes that batches ever had."""
    if platform.libc_ver()[0] == "glibc":
        ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def report_peak_memory(stage: str, device: str | None) -> Iterator[None]:
    """Frees the GPU memory that a stage used, and notes its peak memory in the run folder's log.

    Args:
        stage: The stage, such as `answering with my-model`.
        device: `auto`, `cpu` or `cuda`; None if another process does the work: nothing is noted. On a CPU the figure
            is the peak of the whole process so far.
    """
    on_gpu = device is not None and choose_device(device).type == "cuda"
    if on_gpu:
        torch.cuda.reset_peak_memory_stats()
    yield
    gc.collect()  # models hold reference cycles, and vLLM's engine ends when it is garbage-collected
    if device is None:
        return
    peak, kind = peak_of_process(), "of memory (peak of the process so far)"
    if on_gpu:
        peak, kind = torch.cuda.max_memory_allocated(), "of GPU memory"
        torch.cuda.empty_cache()
    notify(f"{stage}: at most {peak / 2**30:.1f} GiB {kind}", shown=False)


def peak_of_process() -> int:
    """The peak memory of this process, in bytes."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, KiB on Linux
    return peak if sys.platform == "darwin" else peak * 1024


def describe() -> dict[str, Any]:
    """Describes the machine for the manifest and the results."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "gpus": gpus,
        "bf16": cpu_has_bf16() if not gpus else gpu_has_bf16(),
        "platform": platform.platform(),
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or platform.machine()
