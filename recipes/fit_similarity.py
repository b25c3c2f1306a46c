"""Fits a similarity judge, the baseline: four cut points on the cosine between answer and reference.

    python recipes/fit_similarity.py data/train.jsonl judges/similarity

The judge that comes with the package was made from the bundled sample:

    medjudge distill medjudge/data/sample --out data
    cat data/train.jsonl data/validation.jsonl > data/all.jsonl
    python recipes/fit_similarity.py data/all.jsonl medjudge/data/similarity "No physician scored the sample."
"""

import sys
from pathlib import Path

from medjudge.errors import InputError
from medjudge.train.features import read_training_lines
from medjudge.train.similarity import fit_similarity_judge

if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: python recipes/fit_similarity.py TRAIN_FILE JUDGE_FOLDER [NOTE]")
    try:
        source, folder, *note = sys.argv[1:]
        fit_similarity_judge(read_training_lines(Path(source)), Path(source), Path(folder), *note)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
