"""What medjudge does on this GPU: training, judging, answering and their edges, on random weights of real shapes.

    python eval/on_gpu.py --minutes 40 [--out FILE] [--only STEP ...]
    python eval/on_gpu.py --tiny           # the same on a CPU, with models of two layers: shows that it runs

No model hub and no network are needed. The steps run in order of importance. A step that would not end in time is
skipped, as is one whose package is not installed; a step that fails, hangs or crashes leaves the others. FILE
(eval/results/on-gpu.json) is written again after each step. Prompts are made from the bundled sample, with Qwen's
vocabulary where the package `dashscope` is installed. Recipes run where TRL and datasets are, else a plain loop.
"""

import argparse
import json
import multiprocessing
import os
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
GRACE = 45
"""Seconds after the end of the minutes that a step which has begun may take."""
_START = 60
"""The seconds that a fresh process may take to import."""


class Step(NamedTuple):
    """One measurement.

    Attributes:
        name: Its key in the result.
        seconds: What it takes on an H100, roughly: it is skipped where less time is left.
        function: `MODULE:FUNCTION` under eval/.
        arguments: For the function, after the place.
        alone: Whether its process ends with it, as what it starts may hold memory.
    """

    name: str
    seconds: int
    function: str
    arguments: tuple[Any, ...] = ()
    alone: bool = False


def planned() -> Iterator[Step]:
    """All steps, the most important first."""
    yield Step("machine", 15, "on_gpu_steps:machine")
    yield Step("matrix rate", 5, "on_gpu_judging:multiplying")
    yield Step("judging as plain passes", 45, "on_gpu_judging:agreeing")
    yield Step("judging 0.6B", 20, "on_gpu_judging:judging", ("0.6B", 40))
    yield Step("judging 1.7B", 30, "on_gpu_judging:judging", ("1.7B", 40))
    yield Step("training qwen3-1.7b-lora", 60, "on_gpu_training:training", ("qwen3-1.7b-lora",))
    yield Step("training qwen3-1.7b-lora, prefixes shared", 60, "on_gpu_training:sharing", ("qwen3-1.7b-lora",))
    yield Step("judging in trees 1.7B", 45, "on_gpu_judging:in_trees", ("1.7B", 40))
    yield Step("judging 8B", 45, "on_gpu_judging:judging", ("8B", 16))
    yield Step("out of memory", 25, "on_gpu_edges:out_of_memory")
    yield Step("answering 1.7B", 45, "on_gpu_edges:answering", ("1.7B",), alone=True)
    yield Step("reason first 0.6B", 30, "on_gpu_judging:reasoning")
    yield Step("attention", 30, "on_gpu_judging:attention")
    yield Step("training qwen3-8b-qlora", 120, "on_gpu_training:training", ("qwen3-8b-qlora",))
    yield Step("killed and resumed", 60, "on_gpu_edges:killed_and_resumed", ("0.6B",))
    for path in sorted((FOLDER.parent / "configs" / "judges").glob("*.yaml")):
        if path.stem not in ("qwen3-8b-qlora", "qwen3-1.7b-lora"):
            yield Step(f"training {path.stem}", 75, "on_gpu_training:training", (path.stem,))


class Worker:
    """A process that runs steps; a fresh one takes over after a failure, as a GPU error would spoil all that follows.

    Args:
        tiny: Whether it runs on the CPU.
        folder: Scratch space.
    """

    def __init__(self, tiny: bool, folder: Path) -> None:
        self.tiny = tiny
        self.start = partial(self._started, tiny, folder)
        self.process: Any = None

    def _started(self, tiny: bool, folder: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other, tiny, folder), daemon=True)
        self.process.start()
        other.close()

    def run(self, step: Step, seconds: float) -> dict[str, Any]:
        """Runs a step; returns its entry of the result.

        Args:
            seconds: After these it is stopped.
        """
        fresh = self.process is None
        if fresh:
            self.start()
        started = time.monotonic()
        try:
            self.pipe.send((step.function, step.arguments))
            if self.pipe.poll(seconds + _START * fresh):
                entry: dict[str, Any] = self.pipe.recv()
            else:
                entry = {"status": "failed", "error": f"stopped after {seconds:.0f} s"}
        except (EOFError, OSError):
            self.process.join(10)
            entry = {"status": "failed", "error": f"its process ended with {self.process.exitcode}"}
        if entry["status"] == "failed" or step.alone:
            self.stop()
        return {"status": entry["status"], "step_seconds": round(time.monotonic() - started, 1), **entry}

    def stop(self) -> None:
        """Ends the process, and the commands that it has started."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:  # it has not made its group yet
                self.process.kill()
            self.process.join()
            self.pipe.close()
            self.process = None


def serve(pipe: Any, tiny: bool, folder: Path) -> None:
    """Runs the steps that come through the pipe, in the process of a Worker."""
    os.setsid()
    os.environ["HF_HUB_OFFLINE"] = "1"
    while True:
        function, arguments = pipe.recv()
        pipe.send(attempted(function, arguments, tiny, folder))


def attempted(function: str, arguments: tuple[Any, ...], tiny: bool, folder: Path) -> dict[str, Any]:
    """Runs one step in this process; whatever it raises becomes its entry."""
    import importlib
    import traceback

    try:
        import torch

        if not tiny and not torch.cuda.is_available():
            return {"status": "failed", "error": f"torch {torch.__version__} finds no GPU; --tiny runs on the CPU"}
        from on_gpu_steps import Place, clear

        place = Place(tiny, torch.device("cpu" if tiny else "cuda"), folder)
        module, _, name = function.partition(":")
        result = getattr(importlib.import_module(module), name)(place, *arguments)
        clear(place)
    except ModuleNotFoundError as error:
        return {"status": "skipped", "reason": f"package not installed: {error.name}"}
    except Exception as error:
        if type(error).__name__ == "UnknownShapeError":
            return {"status": "skipped", "reason": str(error)}
        where = traceback.extract_tb(error.__traceback__)
        trace = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in where][-8:]
        return {"status": "failed", "error": f"{type(error).__name__}: {error}"[:1000], "trace": trace}
    return {"status": "done", "result": result}


def write(path: Path, result: dict[str, Any]) -> None:
    """Writes the result so that it is whole at any moment."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    part.write_text(json.dumps(result, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
    part.replace(path)


def measure(steps: list[Step], minutes: float, worker: Worker, path: Path) -> dict[str, Any]:
    """Runs the steps that the minutes leave time for, and writes the result after each."""
    begun = time.monotonic()
    result: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "minutes": minutes,
        "steps": {},
    }
    for step in steps:
        left = minutes * 60 - (time.monotonic() - begun)
        if left < step.seconds:
            entry = {"status": "skipped", "reason": f"takes about {step.seconds} s, and {max(left, 0):.0f} s are left"}
        else:
            # A CPU with other work may take any time; on a GPU such a step hangs.
            most = left if worker.tiny else 4 * step.seconds + 60
            entry = worker.run(step, min(left + GRACE, most))
        result["steps"][step.name] = entry
        write(path, result)
        print(f"{step.name}: {json.dumps(entry, ensure_ascii=False)[:2000]}", flush=True)
    worker.stop()
    return result


def main() -> int:
    """Measures; returns 1 where a step failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=40)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="STEP", help="these steps alone, such as 'judging 8B'")
    parser.add_argument("--tiny", action="store_true", help="on the CPU, with models of two layers")
    arguments = parser.parse_args()
    steps = list(planned())
    if arguments.only:
        if unknown := set(arguments.only) - {step.name for step in steps}:
            parser.error(f"no step {', '.join(sorted(unknown))}; there are {', '.join(step.name for step in steps)}")
        steps = [step for step in steps if step.name in arguments.only]
    out = arguments.out or FOLDER / "results" / ("on-gpu-tiny.json" if arguments.tiny else "on-gpu.json")
    with tempfile.TemporaryDirectory() as folder:
        result = measure(steps, arguments.minutes, Worker(arguments.tiny, Path(folder)), out)
    return int(any(entry["status"] == "failed" for entry in result["steps"].values()))


if __name__ == "__main__":
    sys.exit(main())
