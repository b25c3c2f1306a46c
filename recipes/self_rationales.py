"""Writes a training file with a reason-first judge's own rationales, for its second stage.

    accelerate launch recipes/train_judge.py --config configs/judges/qwen3-1.7b-reason-first.yaml
    python recipes/self_rationales.py judges/qwen3-1.7b-reason-first data/train.jsonl data/train-self.jsonl
    accelerate launch recipes/train_judge.py --config configs/judges/qwen3-1.7b-reason-first.yaml \\
        --train_file data/train-self.jsonl --output_dir judges/qwen3-1.7b-reason-first-2

The second stage starts from the base model again. If it is stopped, the same command continues.
"""

import argparse
import sys
from pathlib import Path

from medjudge.errors import InputError, notify
from medjudge.models.hardware import choose_device
from medjudge.train.self_rationales import write_self_rationales


def main() -> None:
    """Judges the training answers and writes the rationales into a copy of the training file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("judge_folder", type=Path, help="reason-first judge")
    parser.add_argument("train_file", type=Path, help="the file that it was trained on")
    parser.add_argument("out_file", type=Path, help="training file to write")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    options = parser.parse_args()
    device = choose_device(options.device)
    write_self_rationales(options.judge_folder, options.train_file, options.out_file, device)


if __name__ == "__main__":
    try:
        main()
    except InputError as error:
        notify(f"error: {error}")
        sys.exit(2)
