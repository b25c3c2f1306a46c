"""How long `medjudge --help` takes, beside `python -c pass`.

    python eval/startup.py

Both run 11 times, in alternation; the medians and their ratio go to eval/results/startup.json.
"""

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
    seconds: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(TURNS + 1):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            seconds[name].append(time.perf_counter() - start)
    medians = {name: round(statistics.median(times[1:]), 3) for name, times in seconds.items()}
    ratio = round(medians["medjudge --help"] / medians["python -c pass"], 1)
    record("startup", {"command": "python eval/startup.py", "median_seconds": medians, "ratio": ratio})
    print(medians, ratio)


if __name__ == "__main__":
    main()
