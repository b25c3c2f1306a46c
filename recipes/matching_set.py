"""Makes the training set of an intermediate stage from a corpus of questions and answers, such as MedQuAD.

    python recipes/matching_set.py medquad.jsonl.gz data/matching --questions 12000

Writes train.jsonl and validation.jsonl (by subject, none on both sides) for a config with `stage: intermediate`.
"""

import argparse
import sys
from pathlib import Path

from medjudge.benchmark.splits import held_out_groups
from medjudge.distill.matching import matching_lines, read_pairs
from medjudge.errors import InputError
from medjudge.store import write_whole


def main() -> None:
    """Reads the corpus, draws, splits, writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", type=Path, help="JSON lines with question, answer, focus, qtype")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--questions", type=int, default=12_000, help="how many to draw")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    try:
        lines = matching_lines(read_pairs(chosen.corpus), chosen.questions, chosen.seed)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    held = held_out_groups([line.question for line in lines], 0.03, chosen.seed)
    for name, kept in (("train", False), ("validation", True)):
        side = [line for line in lines if (line.question.group in held) == kept]
        write_whole(chosen.out / f"{name}.jsonl", "".join(line.model_dump_json() + "\n" for line in side))
        print(f"{chosen.out / name}.jsonl: {len(side)} answers", file=sys.stderr)


if __name__ == "__main__":
    main()
