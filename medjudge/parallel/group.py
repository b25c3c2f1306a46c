"""The processes of `accelerate launch`: each writes its share to a part of the run, and the first merges the parts."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple, TypeVar

from medjudge.errors import UnfinishedError
from medjudge.store import Run

T = TypeVar("T")


_BARRIER_TIMEOUT = timedelta(days=30)
"""A finished process waits for the slowest one, which may take longer than the default timeout of half an hour."""


def partition(work: Sequence[T], key: Callable[[T], str], weight: Callable[[T], int]) -> list[list[T]]:
    """Groups items of the same key, heaviest group first, so that the last groups to be handed out are short.

    Args:
        key: Items with the same key stay in one group.
        weight: The cost of one item, in any unit.
    """
    groups: dict[str, list[T]] = {}
    for item in work:
        groups.setdefault(key(item), []).append(item)
    return sorted(groups.values(), key=lambda group: -sum(map(weight, group)))


class Group(NamedTuple):
    """The rank of this process and the number of processes.

    Only the first process holds the run's lock, prints, and writes the run's files.
    """

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0

    def wait(self) -> None:
        """Waits until all processes have called this.

        Raises:
            UnfinishedError: One of them has ended.
        """
        if self.size > 1:
            import torch

            try:
                torch.distributed.barrier()
            except RuntimeError:
                raise UnfinishedError(
                    f"process {self.rank}: another process of this run ended early, see its message; all results are "
                    "kept, and the same command continues"
                ) from None

    def share(self, work: Sequence[T], key: Callable[[T], str], weight: Callable[[T], int]) -> list[T]:
        """The items that this process does. The arguments are those of `partition`, the same in all processes."""
        if self.size == 1:
            return list(work)
        return [item for items in partition(work, key, weight)[self.rank :: self.size] for item in items]

    @contextmanager
    def writing(self, run: Run) -> Iterator[Run]:
        """Yields the run folder in which this process appends: the run itself, or a part that is merged at the end."""
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
    """The rank of this process on this machine; None if `accelerate launch` did not start several."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or "LOCAL_RANK" not in os.environ:
        return None
    return int(os.environ["LOCAL_RANK"])


def join() -> Group:
    """Waits for all processes that `accelerate launch` started, and joins them to a group."""
    import torch

    # Used for barriers only; gloo needs no GPU.
    torch.distributed.init_process_group("gloo", timeout=_BARRIER_TIMEOUT)
    return Group(torch.distributed.get_rank(), torch.distributed.get_world_size())
