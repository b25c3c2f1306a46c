"""The processes of `accelerate launch`: each does its share into a part of its own, and the first writes the run."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple, TypeVar

from medjudge.errors import InputError, UnfinishedError
from medjudge.parallel.shares import partition
from medjudge.store import Run

T = TypeVar("T")

_PATIENCE = timedelta(days=30)
"""A process that has finished waits for the slowest; the default of half an hour is less than a share may take."""


class Group(NamedTuple):
    """Which of how many processes this is. The first alone holds the run's lock, prints and writes the run's files."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Returns when all processes are here.

        Raises:
            UnfinishedError: One of them has ended.
        """
        if self.size > 1:
            import torch

            try:
                torch.distributed.barrier()
            except RuntimeError:
                raise UnfinishedError(
                    f"process {self.rank}: another process of this run ended early, see what it said; everything done "
                    "is kept, and the same command goes on"
                ) from None

    def share(self, work: Sequence[T], belongs: Callable[[T], str], weight: Callable[[T], int]) -> list[T]:
        """What of the work this process does; arguments as for `partition`, the same in all processes."""
        if self.size == 1:
            return list(work)
        return [one for piece in partition(work, belongs, weight)[self.rank :: self.size] for one in piece]

    @contextmanager
    def writing(self, run: Run) -> Iterator[Run]:
        """Where this process appends: the run itself, or its part, which the first process takes in at the end."""
        if self.size == 1:
            yield run
            return
        part = run.part(self.rank)
        with part.lock():
            yield part
        self.wait()
        if self.first:
            run.merge_parts()
        self.wait()


def join(device: str) -> Group:
    """Finds the other processes, if `accelerate launch` started several, and takes this one's GPU.

    Args:
        device: `auto`, `cpu` or `cuda`.

    Raises:
        InputError: There are fewer GPUs than processes, or no such device.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "LOCAL_RANK" not in os.environ:
        return Group()
    import torch

    from medjudge.models.hardware import choose_device

    local = int(os.environ["LOCAL_RANK"])
    if choose_device(device).type == "cuda":
        if local >= torch.cuda.device_count():
            raise InputError(
                f"accelerate launch: {os.environ.get('LOCAL_WORLD_SIZE', 'more')} processes for "
                f"{torch.cuda.device_count()} GPUs; give --num_processes {torch.cuda.device_count()}, or --device cpu"
            )
        torch.cuda.set_device(local)  # "cuda" then means this one
    # Only waiting goes through it, and gloo can wait without a GPU.
    torch.distributed.init_process_group("gloo", timeout=_PATIENCE)
    return Group(torch.distributed.get_rank(), torch.distributed.get_world_size())


def check_sharing(group: Group, engine: str, device: str, asked: Sequence[str]) -> None:
    """Finds out before anything is written whether the work can be shared as asked.

    Args:
        engine: `transformers`, `vllm` or `ray`.
        device: `auto`, `cpu` or `cuda`; with Ray of the workers, where this machine may have none.
        asked: The options that name a model or a judge, as `--judge openai:gpt-4o`.

    Raises:
        InputError: It cannot.
    """
    from medjudge.models.hardware import choose_device

    if engine != "ray" or device != "cuda":
        choose_device(device)
    if engine not in ("transformers", "vllm", "ray"):
        raise InputError(f"--engine {engine}: unknown; take transformers, vllm or ray")
    if engine == "vllm":
        from medjudge.answer.vllm_engine import require_vllm

        require_vllm()
    if engine == "ray":
        from medjudge.parallel.ray_pool import require_ray

        require_ray()
    if group.size == 1:
        return
    if engine != "transformers":
        raise InputError(f"--engine {engine}: starts its own workers; start the command without accelerate launch")
    for one in asked:
        if "openai:" in one:
            raise InputError(
                f"{one}: several processes ask a server no faster than one; start the command without accelerate "
                "launch (--concurrency says how many requests are under way)"
            )
