"""Whether the built-in judge can be fooled: the share of answers whose usable label a probe changes.

    python eval/reader_probes.py DATA WORK

DATA holds llmeval-2/, WORK is the folder of `eval/built_in.py`, after it has run; what was measured there is kept as
`probes-SET.json`. The result is `eval/results/reader-probes.json`.
"""

import json
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
    sets = {"mediqa validation": read_sets(work).validation, "llmeval-2": llmeval2_lines(data, 200, seed=0)}
    table = {}
    for name, lines in sets.items():
        kept = work / f"probes-{name.replace(' ', '-')}.json"
        if not kept.exists():
            kept.write_text(json.dumps(probes(judge, lines)))
        table[name] = json.loads(kept.read_text())
    record("reader-probes", {"command": "python eval/reader_probes.py DATA WORK", "table": table})


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/reader_probes.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
