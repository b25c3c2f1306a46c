"""Whether the built-in judge can be fooled: the share of answers whose usable label a probe changes.

    python eval/reader_probes.py DATA WORK

DATA holds llmeval-2/, WORK is the folder of `eval/built_in.py`, after it has run. The result is
`eval/results/reader-probes.json`.
"""

import sys
from pathlib import Path

import torch
from built_in_data import read_sets
from reader_measures import llmeval2_lines, probes
from study import record

from medjudge.judge.folder import load_judge
from medjudge.judge.open import built_in_folder


def main(data: Path, work: Path) -> None:
    """Judges each answer as it is and changed by each probe, and writes the table."""
    judge = load_judge(built_in_folder(), "built-in", torch.device("cpu"))
    table = {
        "mediqa validation": probes(judge, read_sets(work).validation),
        "llmeval-2": probes(judge, llmeval2_lines(data, 200, seed=0)),
    }
    record("reader-probes", {"command": "python eval/reader_probes.py DATA WORK", "table": table})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/reader_probes.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
