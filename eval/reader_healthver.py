"""How well readers tell HealthVer's claims apart that they have not learned from.

    python eval/reader_healthver.py WORK [FOLD ...]

WORK is the folder of `eval/built_in.py`, after it has run. Each fold (0 to 4, all unless named) trains the last
three stages but that of the alarm again without its claims. The result is `eval/results/reader-healthver.json`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from reader_lessons import FOLDS, Material
from reader_tables import healthver_table
from reader_training import paraphrased
from study import record


def main(work: Path, folds: Sequence[int]) -> None:
    """Trains the readers that are not there yet, and writes the table."""
    material = Material(work)
    readers = {fold: paraphrased(work, material, fold) for fold in folds}
    named = "".join(f" {fold}" for fold in folds) if len(folds) < FOLDS else ""
    command = f"python eval/reader_healthver.py WORK{named}"
    record("reader-healthver", {"command": command, "table": healthver_table(readers, material)})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python eval/reader_healthver.py WORK [FOLD ...]")
    main(Path(sys.argv[1]), [int(fold) for fold in sys.argv[2:]] or list(range(FOLDS)))
