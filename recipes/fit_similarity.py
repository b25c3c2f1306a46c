"""Fits a similarity judge, the baseline: four cut points on the cosine between answer and reference.

    python recipes/fit_similarity.py data/train.jsonl judges/similarity

The judge in the package was made from the bundled sample:

    medjudge distill medjudge/data/sample --out data
    cat data/train.jsonl data/validation.jsonl > data/all.jsonl
    python recipes/fit_similarity.py data/all.jsonl medjudge/data/similarity --note "No physician scored the sample."
"""

import argparse
import sys
from pathlib import Path

from medjudge.errors import InputError, notify
from medjudge.train.features import read_training_lines
from medjudge.train.similarity import fit_similarity_judge


def main() -> None:
    """Reads the training set, fits the cut points and writes the judge folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("train_file", type=Path, help="train.jsonl of medjudge distill")
    parser.add_argument("judge_folder", type=Path, help="judge folder to write")
    parser.add_argument("--note", help="sentence for the judge card")
    options = parser.parse_args()
    lines = read_training_lines(options.train_file)
    fit_similarity_judge(lines, options.train_file, options.judge_folder, options.note)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        notify(f"error: {error}")
        sys.exit(2)
