"""Ray: Ray Data's `map_batches` over a pool of actors, each with a model in memory.

Joins the cluster that RAY_ADDRESS names or that runs on this machine, else starts Ray on this machine alone. An actor
has one GPU where the cluster has any, else one CPU.
"""

import logging
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from importlib.util import find_spec
from math import ceil
from typing import Any, TypeVar

from medjudge.errors import InputError, UnfinishedError
from medjudge.parallel.shares import partition

T = TypeVar("T")
R = TypeVar("R")

_MOST = 64
"""Items of one batch: enough to fill a GPU's batches, and what an actor has under way at a kill is soon made again."""

_BATCHES_AN_ACTOR = 4
"""The fewest batches for each actor, so that none waits long for the last one."""


def require_ray() -> None:
    """Raises InputError where Ray is not installed."""
    if find_spec("ray") is None:
        raise InputError("--engine ray: Ray is not installed; pip install 'medjudge[ray]'")


def map_on_actors(
    load: Callable[..., Callable[[list[T]], list[R]]],
    arguments: Sequence[Any],
    work: Sequence[T],
    belongs: Callable[[T], str],
    weight: Callable[[T], int],
    device: str,
) -> Iterator[list[R]]:
    """Does work batch by batch on all workers of a Ray cluster.

    Args:
        load: Called once in each actor, there gives what does a batch. A function of a module, which must not load
            huggingface_hub when it is imported.
        arguments: For `load`; plain values.
        work: What there is to do; can be pickled.
        belongs: What has the same name here comes into the same batch.
        weight: Of one item; the heaviest go first.
        device: `auto`, `cpu` or `cuda`.

    Yields:
        What came of a batch, as soon as it is back, in any order.

    Raises:
        InputError: The cluster cannot be joined, or has no GPU and `device` is `cuda`; or what `load` raised.
        UnfinishedError: An actor failed.
    """
    if not work:
        return
    # Nothing goes out that nobody asked for; Ray's own lines would bury ours, and stdout is for `--json`.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    import ray
    import ray.data
    from ray.exceptions import RayError

    if not ray.is_initialized():
        try:
            ray.init(log_to_driver=False, logging_level="critical")
        except (RayError, ConnectionError) as error:
            reason = str(error).strip().splitlines()[0]
            raise InputError(
                f"--engine ray: the cluster of RAY_ADDRESS, or of this machine, cannot be joined ({reason[:200]}); see "
                "`ray status`"
            ) from None
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    settings = ray.data.DataContext.get_current()
    settings.enable_progress_bars = settings.print_on_execution_start = False
    there = ray.cluster_resources()
    gpus = 0 if device == "cpu" else int(there.get("GPU", 0))
    if device == "cuda" and not gpus:
        raise InputError("--device cuda: the Ray cluster has no GPU; leave --device out")
    workers = gpus or max(1, int(there.get("CPU", 1)))
    batches = _batches(work, belongs, weight, workers)
    done = ray.data.from_items(
        [{"work": pickle.dumps(one)} for one in batches], override_num_blocks=len(batches)
    ).map_batches(
        _Actor,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(batches)), max_tasks_in_flight_per_actor=1),
        fn_constructor_args=(load, tuple(arguments), os.environ.get("HF_HUB_OFFLINE", "0")),
        **({"num_gpus": 1} if gpus else {"num_cpus": 1}),
    )
    try:
        with redirect_stdout(sys.stderr):  # Ray tells of failed workers on stdout, which is for `--json`
            for batch in done.iter_batches(batch_size=None, prefetch_batches=0):
                for one in batch["done"]:
                    made = pickle.loads(one)
                    if isinstance(made, InputError):
                        raise made
                    yield made
    except RayError as error:
        reason = [line.strip() for line in str(error).splitlines() if line.strip()][-1]
        raise UnfinishedError(
            f"--engine ray: {reason[:300]}; everything that came back is kept, and the same command goes on"
        ) from None


def _batches(work: Sequence[T], belongs: Callable[[T], str], weight: Callable[[T], int], workers: int) -> list[list[T]]:
    most = min(_MOST, ceil(len(work) / (workers * _BATCHES_AN_ACTOR)))
    batches: list[list[T]] = []
    for piece in partition(work, belongs, weight):
        if batches and len(batches[-1]) + len(piece) <= most:
            batches[-1] += piece
        else:
            batches.append(piece)
    return batches


class _Actor:
    def __init__(
        self, load: Callable[..., Callable[[list[T]], list[R]]], arguments: tuple[Any, ...], offline: str
    ) -> None:
        os.environ["HF_HUB_OFFLINE"] = offline  # read when huggingface_hub is first imported, which `load` does
        self.refused: InputError | None = None
        try:
            self.work = load(*arguments)
        except InputError as error:  # Ray would try again without end
            self.refused = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"done": [pickle.dumps(self.refused or self.work(pickle.loads(one))) for one in batch["work"]]}
