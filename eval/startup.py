"""How long `medjudge --help` takes, beside `python -c pass`.

    python eval/startup.py

Both run 11 times, in alternation. The medians of wall time and of processor time, and the ratio of the latter, go to
eval/results/startup.json: beside other work on the machine, only processor time says much.
"""

import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from study import record

TURNS = 11
COMMANDS = {
    "medjudge --help": [str(Path(sys.executable).parent / "medjudge"), "--help"],
    "python -c pass": [sys.executable, "-c", "pass"],
}


def main() -> None:
    """Measures and writes the result."""
    wall: dict[str, list[float]] = {name: [] for name in COMMANDS}
    processor: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(TURNS + 1):
        for name, command in COMMANDS.items():
            start, before = time.perf_counter(), _processor_seconds()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            wall[name].append(time.perf_counter() - start)
            processor[name].append(_processor_seconds() - before)
    medians = {kind: _medians(seconds) for kind, seconds in (("wall", wall), ("processor", processor))}
    ratio = round(medians["processor"]["medjudge --help"] / medians["processor"]["python -c pass"], 1)
    load = round(os.getloadavg()[0], 1)
    record(
        "startup",
        {"command": "python eval/startup.py", "median_seconds": medians, "ratio": ratio, "load_average": load},
    )
    print(medians, ratio)


def _processor_seconds() -> float:
    """Of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The first turn fills the file cache and does not count."""
    return {name: round(statistics.median(turns[1:]), 3) for name, turns in seconds.items()}


if __name__ == "__main__":
    main()
