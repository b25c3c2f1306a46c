"""Makes the training set of an intermediate stage from a corpus of questions and answers, such as MedQuAD.

    python recipes/matching_set.py medquad.jsonl.gz data/matching --questions 12000

Writes train.jsonl and validation.jsonl (by subject, none on both sides) for a config with `stage: intermediate`.
"""

import argparse
import sys
from pathlib import Path

from medjudge.benchmark.expert_sets import SCHEME
from medjudge.distill.matching import apart, matching_lines, read_pairs, without_questions
from medjudge.errors import InputError, notify
from medjudge.files import write_whole
from medjudge.scheme import open_scheme
from medjudge.store import read_questions, write_scheme


def main() -> None:
    """Reads the corpus, splits it by subject, draws pairs and writes both files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("corpus", type=Path, help="JSON lines with question, answer, focus, qtype")
    parser.add_argument("out", type=Path, help="folder to write")
    parser.add_argument("--questions", type=int, default=12_000, help="how many to draw")
    parser.add_argument("--keep-out", type=Path, nargs="*", default=[], help="questions.jsonl of evaluation sets")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    evaluation_prompts = [question.prompt for path in options.keep_out for question in read_questions(path)]
    pairs = without_questions(read_pairs(options.corpus), evaluation_prompts)
    train_pairs, validation_pairs = apart(pairs, 0.03, options.seed)
    write_scheme(options.out, open_scheme(SCHEME))
    for name, side in (("train", train_pairs), ("validation", validation_pairs)):
        lines = matching_lines(side, options.questions, options.seed)
        write_whole(options.out / f"{name}.jsonl", "".join(line.model_dump_json() + "\n" for line in lines))
        notify(f"{options.out / name}.jsonl: {len(lines)} answers")


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        notify(f"error: {error}")
        sys.exit(2)
