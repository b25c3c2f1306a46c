"""Whether commands that are killed at random moments lose nothing and end as if they had not been.

    python eval/kills.py WORK [KILLS]

WORK is an empty folder; KILLS is 200 unless given, shared by six stations: answer, judge, import, distill, validate and
report. Each is killed at a random time or at a random byte of a file and started again until it ends; then its files
are compared with those of a run that was not killed. The counts go to eval/results/robustness.json. The exit status is
1 if an outcome differs.
"""

import sys
import time
from pathlib import Path

from killed import STATIONS, kill_until_it_ends, start_folder, with_models
from study import record_entry
from tiny_models import build_tiny_lm

SEED = 17


def main(work: Path, kills: int) -> None:
    """Kills every station and records the counts."""
    start = start_folder(work / "start")
    stations = {**with_models(build_tiny_lm(work / "tiny-lm")), **STATIONS}
    share = -(-kills // len(stations))
    counts: dict[str, dict[str, object]] = {}
    differing = False
    for number, (name, station) in enumerate(stations.items()):
        began = time.monotonic()
        try:
            ended = kill_until_it_ends(station, start, work / name, share, SEED + number)
        except AssertionError as problem:
            counts[name] = {"problem": str(problem)[:500]}
            differing = True
        else:
            counts[name] = {"kills": share, "runs": ended, "runs_that_differ": 0}
        counts[name]["seconds"] = round(time.monotonic() - began, 1)
        print(name, counts[name], file=sys.stderr, flush=True)
    result = {"command": f"python eval/kills.py WORK {kills}", "seed": SEED, "stations": counts}
    record_entry("robustness", "kills", result)
    sys.exit(differing)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python eval/kills.py WORK [KILLS]")
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 200)
