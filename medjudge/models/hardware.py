"""Which device a model runs on, and in which number format its matrix products are fast."""

import gc
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from medjudge.errors import InputError


def choose_device(device: str) -> torch.device:
    """Turns `auto`, `cpu` or `cuda` into a device that is really there.

    Raises:
        InputError: A GPU is asked for where torch sees none, or the name is another one.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise InputError(f"--device {device}: unknown; take auto, cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"--device cuda: torch {torch.__version__} sees no GPU here; take --device cpu, or install a CUDA build of "
            "torch"
        )
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


def fast_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where the device multiplies it in hardware, float32 elsewhere (a CPU without it emulates, slowly)."""
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.bfloat16 if cpu_has_bf16() else torch.float32


def cpu_has_bf16() -> bool:
    """Whether the CPU has matrix instructions for bfloat16 (AVX-512 BF16 or AMX)."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


_NO_MEMORY = (
    "DefaultCPUAllocator: can't allocate memory",
    "DefaultCPUAllocator: not enough memory",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUDA error: out of memory",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed, on a GPU or the CPU."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(sign in str(error) for sign in _NO_MEMORY)


@contextmanager
def peak_memory_told(what: str, device: str | None) -> Iterator[None]:
    """Prints on stderr how much memory a stage took at most, and gives what it held on a GPU back.

    Args:
        what: The stage, as `answering with my-model`.
        device: `auto`, `cpu` or `cuda`; None where another process does the work, and there is nothing to tell. On a
            CPU the figure is the highest of the whole process so far.
    """
    if device is None:
        yield
        gc.collect()  # vLLM's engine ends when nothing refers to it
        return
    place = choose_device(device)
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    yield
    gc.collect()  # models hold circles of references
    if place.type == "cuda":
        peak = torch.cuda.max_memory_allocated()
        torch.cuda.empty_cache()
    else:
        peak = _peak_of_process()
    where = "of GPU memory" if place.type == "cuda" else "of memory (highest of the process so far)"
    print(f"{what}: at most {peak / 2**30:.1f} GiB {where}", file=sys.stderr)


def _peak_of_process() -> int:
    """Bytes."""
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024


def describe() -> dict[str, Any]:
    """The machine, as the manifest and the results name it."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "gpus": gpus,
        "bf16": cpu_has_bf16() if not gpus else torch.cuda.is_bf16_supported(),
        "platform": platform.platform(),
    }


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or platform.machine()
