"""Maps work over a pool of Ray actors with Ray Data, each actor with a model in memory.

Joins the cluster that RAY_ADDRESS names or that runs on this machine; otherwise starts Ray on this machine. Each actor
gets one GPU if the cluster has any, else one CPU.
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
from medjudge.offline import go_offline, is_offline
from medjudge.records import grouped

T = TypeVar("T")
R = TypeVar("R")

_MOST_ITEMS = 64
"""The most items of one task: enough to fill a GPU's batches, and little work is lost if an actor is killed."""

_TASKS_PER_ACTOR = 4
"""The fewest tasks for each actor, so that none waits long for the last one."""


def require_ray() -> None:
    """Raises InputError where Ray is not installed."""
    if find_spec("ray") is None:
        raise InputError("--engine ray: Ray is not installed; pip install 'medjudge[ray]'")


def map_on_actors(
    load: Callable[..., Callable[[list[T]], list[R]]],
    arguments: Sequence[Any],
    work: Sequence[T],
    key: Callable[[T], str],
    weight: Callable[[T], int],
    device: str,
) -> Iterator[list[R]]:
    """Processes work in tasks on all workers of a Ray cluster.

    Args:
        load: Called once in each actor; returns the function that processes the items of a task. It must be a
            module-level function of a module that does not import huggingface_hub.
        arguments: The arguments of `load`, plain values.
        work: The items, which must be picklable.
        key: Items with the same key are in one task.
        weight: The cost of one item; the heaviest go first.
        device: `auto`, `cpu` or `cuda`.

    Yields:
        The results of one task, as soon as it is done, in any order.

    Raises:
        InputError: The cluster cannot be joined, or has no GPU and `device` is `cuda`; or `load` raised it.
        UnfinishedError: An actor failed.
    """
    if not work:
        return
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # Ray's log would hide ours
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
    resources = ray.cluster_resources()
    gpus = 0 if device == "cpu" else int(resources.get("GPU", 0))
    if device == "cuda" and not gpus:
        raise InputError("--device cuda: the Ray cluster has no GPU; omit --device")
    workers = gpus or max(1, int(resources.get("CPU", 1)))
    tasks = _tasks(work, key, weight, workers)
    done = ray.data.from_items(
        [{"work": pickle.dumps(items)} for items in tasks], override_num_blocks=len(tasks)
    ).map_batches(
        _Actor,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(size=min(workers, len(tasks)), max_tasks_in_flight_per_actor=1),
        fn_constructor_args=(load, tuple(arguments), os.environ.get("HF_HUB_OFFLINE", "0"), is_offline()),
        **({"num_gpus": 1} if gpus else {"num_cpus": 1}),
    )
    try:
        with redirect_stdout(sys.stderr):  # Ray reports failed workers on stdout, which is reserved for `--json`
            for batch in done.iter_batches(batch_size=None, prefetch_batches=0):
                for pickled in batch["done"]:
                    results = pickle.loads(pickled)
                    if isinstance(results, InputError):
                        raise results
                    yield results
    except RayError as error:
        reason = [line.strip() for line in str(error).splitlines() if line.strip()][-1]
        raise UnfinishedError(
            f"--engine ray: {reason[:300]}; all results received so far are kept, and the same command continues"
        ) from None


def _tasks(work: Sequence[T], key: Callable[[T], str], weight: Callable[[T], int], workers: int) -> list[list[T]]:
    """Groups items of the same key into tasks, heaviest first, so that the last ones to be handed out are short."""
    most = min(_MOST_ITEMS, ceil(len(work) / (workers * _TASKS_PER_ACTOR)))
    tasks: list[list[T]] = []
    for items in sorted(grouped(work, key).values(), key=lambda group: -sum(map(weight, group))):
        if tasks and len(tasks[-1]) + len(items) <= most:
            tasks[-1] += items
        else:
            tasks.append(items)
    return tasks


class _Actor:
    def __init__(self, load: Callable[..., Any], arguments: tuple[Any, ...], hub_offline: str, offline: bool) -> None:
        os.environ["HF_HUB_OFFLINE"] = hub_offline  # read at the first import of huggingface_hub, in `load`
        if offline:
            go_offline()
        self.error: InputError | None = None
        try:
            self.work = load(*arguments)
        except InputError as error:  # raising it would make Ray retry forever
            self.error = error

    def __call__(self, batch: dict[str, Any]) -> dict[str, list[bytes]]:
        return {"done": [pickle.dumps(self.error or self.work(pickle.loads(pickled))) for pickled in batch["work"]]}
