"""Writes a training file with a reason-first judge's own rationales, for its second stage.

    accelerate launch recipes/train_judge.py --config configs/judges/qwen3-1.7b-reason-first.yaml
    python recipes/self_rationales.py judges/qwen3-1.7b-reason-first data/train.jsonl data/train-self.jsonl
    accelerate launch recipes/train_judge.py --config configs/judges/qwen3-1.7b-reason-first.yaml \\
        --train_file data/train-self.jsonl --output_dir judges/qwen3-1.7b-reason-first-2

The second stage starts from the base model again. Stopped half-way, the same command goes on.
"""

import sys
from pathlib import Path

from medjudge.errors import InputError
from medjudge.models.hardware import choose_device
from medjudge.train.self_rationales import write_self_rationales

if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: python recipes/self_rationales.py JUDGE_FOLDER TRAIN_FILE OUT_FILE")
    try:
        judge, source, out = map(Path, sys.argv[1:])
        write_self_rationales(judge, source, out, choose_device("auto"))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
