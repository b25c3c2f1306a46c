"""The processes of `accelerate launch` that share the work of a command."""

import os
from collections.abc import Sequence

from medjudge.answer.vllm_engine import require_vllm
from medjudge.errors import InputError
from medjudge.models.hardware import choose_device
from medjudge.parallel.group import Group, join, local_rank
from medjudge.parallel.ray_pool import require_ray

ENGINES = ("transformers", "vllm", "ray")


def join_processes(device: str) -> Group:
    """Joins the other processes, if `accelerate launch` started several, and takes this one's GPU.

    Every process but the first waits until the first has checked all options, so that one wrong option is reported
    once. The first calls `Group.wait` when it has.

    Args:
        device: `auto`, `cpu` or `cuda`.

    Raises:
        InputError: There are fewer GPUs than processes, or no such device.
    """
    rank = local_rank()
    if rank is None:
        return Group()
    if choose_device(device).type == "cuda":
        import torch

        if rank >= (gpus := torch.cuda.device_count()):
            raise InputError(
                f"accelerate launch: {os.environ.get('LOCAL_WORLD_SIZE', 'more')} processes for {gpus} GPUs; give "
                f"--num_processes {gpus}, or --device cpu"
            )
        torch.cuda.set_device(rank)  # "cuda" then means this one
    group = join()
    if not group.first:
        group.wait()
    return group


def check_engine(engine: str, device: str, option: str = "--engine") -> None:
    """Finds out before any work whether this machine has an engine and a device.

    Args:
        engine: `transformers`, `vllm` or `ray`.
        device: `auto`, `cpu` or `cuda`; with Ray, of the workers, where this machine may have none.
        option: The option that names the engine.

    Raises:
        InputError: It has not.
    """
    if engine != "ray" or device != "cuda":
        choose_device(device)
    if engine not in ENGINES:
        raise InputError(f"{option} {engine}: unknown; use transformers, vllm or ray")
    if engine == "vllm":
        require_vllm(f"{option} vllm")
    if engine == "ray":
        require_ray()


def check_sharing(group: Group, engine: str, at_servers: Sequence[str]) -> None:
    """Finds out before any work whether several processes can share it.

    Args:
        at_servers: The options that name a model of a server, such as `--judge openai:gpt-4o`.

    Raises:
        InputError: The engine starts its own workers, or a server would be asked.
    """
    if group.size == 1:
        return
    if engine != "transformers":
        raise InputError(f"--engine {engine}: starts its own workers; start the command without accelerate launch")
    if at_servers:
        raise InputError(
            f"{at_servers[0]}: several processes ask a server no faster than one; start the command without accelerate "
            "launch (--concurrency says how many requests are in flight)"
        )
