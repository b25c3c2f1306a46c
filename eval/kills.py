"""Whether commands that are killed at random moments lose nothing and end as if they had not been.

    python eval/kills.py WORK [KILLS]

WORK is an empty folder; KILLS is 200 unless given, shared by six stations: answer, judge, import, distill, validate and
report. Each is killed at a random time or at a random byte of a file and started again until it ends; then its files
are compared with those of a run that was not killed. The counts go to eval/results/robustness.json. The exit status is
1 if an outcome differs.
"""

import sys
import time
from datetime import date
from pathlib import Path

from killed import STATIONS, kill_until_it_ends, start_folder, with_models
from study import RESULTS
from tiny_models import build_tiny_lm

from medjudge.files import read_json, write_json
from medjudge.models.hardware import describe

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
    file = RESULTS / "robustness.json"
    result = {
        "command": f"python eval/kills.py WORK {kills}",
        "date": date.today().isoformat(),
        "machine": describe(),
        "seed": SEED,
        "stations": counts,
    }
    write_json(file, {**(read_json(file) if file.exists() else {}), "kills": result})
    sys.exit(differing)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python eval/kills.py WORK [KILLS]")
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 200)
