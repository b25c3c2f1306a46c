"""The processes of `accelerate launch`: each does its share into a part of its own, and the first writes the run."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple, TypeVar

from medjudge.errors import UnfinishedError
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


def local_rank() -> int | None:
    """This process's number on this machine where `accelerate launch` started several; None where it is alone."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "LOCAL_RANK" not in os.environ:
        return None
    return int(os.environ["LOCAL_RANK"])


def join() -> Group:
    """Joins the other processes that `accelerate launch` started; returns when all are here."""
    import torch

    # Only waiting goes through it, and gloo can wait without a GPU.
    torch.distributed.init_process_group("gloo", timeout=_PATIENCE)
    return Group(torch.distributed.get_rank(), torch.distributed.get_world_size())
