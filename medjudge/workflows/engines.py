"""The engines that run models: whether this machine has them."""

import os

from medjudge.answer.vllm_engine import require_vllm
from medjudge.errors import InputError
from medjudge.models.hardware import choose_device
from medjudge.parallel.ray_pool import require_ray


def check_engine(engine: str, device: str) -> None:
    """Finds out before any work whether this machine has an engine and a device.

    Args:
        engine: `transformers`, `vllm` or `ray`.
        device: `auto`, `cpu` or `cuda`; with Ray, of the workers, where this machine may have none.

    Raises:
        InputError: It has not, or `accelerate launch` started several processes.
    """
    if "LOCAL_RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise InputError("accelerate launch: this command runs in one process; --engine ray shares its work over GPUs")
    if engine != "ray" or device != "cuda":
        choose_device(device)
    if engine == "vllm":
        require_vllm()
    elif engine == "ray":
        require_ray()
    elif engine != "transformers":
        raise InputError(f"--engine {engine}: unknown; use transformers, vllm or ray")
