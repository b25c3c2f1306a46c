"""A training set whose rationales are a judge's own: for the second stage of a reason-first judge.

After the first stage a judge has seen another's rationales in training and reads its own in judging. The second stage
starts from the base model again, with the first judge's rationales and the gold scores, so that both are alike (TRACT,
arXiv 2503.04381).
"""

import sys
from collections import Counter
from pathlib import Path

import torch

from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.judge.folder import load_judge, read_card
from medjudge.judge.protocol import Assignment
from medjudge.records import TrainingLine
from medjudge.store import repair_last_line
from medjudge.train.features import read_training_lines


def write_self_rationales(judge_folder: Path, train_file: Path, out_file: Path, device: torch.device) -> Path:
    """Writes the lines of a training file with the rationales that a judge gives for their answers.

    Level, soft label and weight of a line stay as they are: the rationale is greedy, as in judging, and what it leads
    the judge to is not looked at. A line for which the judge writes none, or that its window has no room for, is left
    without. Each line is on its way to the disk when it is made; the same call again goes on where it stopped, and a
    finished file has the order of the training file.

    Args:
        judge_folder: A reason-first judge.
        train_file: What it was trained on.
        out_file: The new training file.

    Raises:
        InputError: The judge gives its score first, or `out_file` holds lines that `train_file` does not.
    """
    card = read_card(judge_folder)
    if card.style != "reason-first":
        raise InputError(
            f"judge {judge_folder}: gives no rationale before its score; train one with --kind generative "
            "--style reason-first"
        )
    lines = read_training_lines(train_file)
    made = _made(out_file)
    left = Counter(_target(line) for line in made)
    waiting = []
    for line in lines:
        left[_target(line)] -= 1
        if left[_target(line)] < 0:
            waiting.append(line)
    if any(count > 0 for count in left.values()):
        raise InputError(f"{out_file}: holds lines that are not in {train_file}; remove it, or name another file")
    if made and waiting:
        print(f"{len(made)} lines are there; {len(waiting)} to go", file=sys.stderr)
    if waiting:
        judge = load_judge(judge_folder, judge_folder.name, device)
        # The round carries the line's number: the judge takes answers in an order of its own.
        work = [Assignment(line.question, tuple(line.earlier), line.answer, n) for n, line in enumerate(waiting, 1)]
        out_file.parent.mkdir(parents=True, exist_ok=True)
        with out_file.open("a", encoding="utf-8") as file:
            for judgment in judge.judge(work):
                line = waiting[judgment.round - 1].model_copy(update={"rationale": judgment.rationale})
                file.write(line.model_dump_json() + "\n")
                file.flush()
                made.append(line)
    _in_order(out_file, lines, made)
    return out_file


def _made(out_file: Path) -> list[TrainingLine]:
    if not out_file.exists():
        return []
    repair_last_line(out_file)
    return read_training_lines(out_file) if out_file.stat().st_size else []


def _target(line: TrainingLine) -> str:
    """All of a line but its rationale."""
    return line.model_dump_json(exclude={"rationale"})


def _in_order(out_file: Path, lines: list[TrainingLine], made: list[TrainingLine]) -> None:
    found: dict[str, list[TrainingLine]] = {}
    for line in made:
        found.setdefault(_target(line), []).append(line)
    write_whole(out_file, "".join(found[_target(line)].pop(0).model_dump_json() + "\n" for line in lines))
