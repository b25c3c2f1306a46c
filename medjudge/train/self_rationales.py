"""A training set whose rationales are a judge's own: for the second stage of a reason-first judge.

After the first stage, a judge has seen another's rationales in training and reads its own in judging. The second stage
starts from the base model again, with the first judge's rationales and the gold scores, so that training and judging
see the same (TRACT, arXiv 2503.04381).
"""

from collections import Counter
from pathlib import Path

import torch

from medjudge.errors import InputError, notify
from medjudge.files import appending, write_whole
from medjudge.judge.folder import load_judge, read_card
from medjudge.records import TrainingLine
from medjudge.scheme import scheme_beside
from medjudge.screen import progress_bar
from medjudge.store import repair_last_line, write_scheme
from medjudge.train.features import line_assignment, read_training_lines


def write_self_rationales(judge_folder: Path, train_file: Path, out_file: Path, device: torch.device) -> Path:
    """Writes the lines of a training file with the rationales that a judge gives for their answers.

    Level, soft label and weight of a line stay as they are: the rationale is greedy, as in judging, and the judge's own
    score after it is ignored. A line without a rationale from the judge, or too long for its window, has none. Each
    line is written as soon as it is made; the same call continues where it stopped. A finished file has the order of
    the training file.

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
    written = _written(out_file)
    left = Counter(_target(line) for line in written)
    waiting = []
    for line in lines:
        left[_target(line)] -= 1
        if left[_target(line)] < 0:
            waiting.append(line)
    if any(count > 0 for count in left.values()):
        raise InputError(f"{out_file}: holds lines that are not in {train_file}; remove it, or name another file")
    if written and waiting:
        notify(f"{len(written)} lines are written; {len(waiting)} to go")
    if waiting:
        scheme = scheme_beside(train_file)
        judge = load_judge(judge_folder, judge_folder.name, device, scheme=scheme)
        # The round carries the line's number: the judge takes answers in an order of its own.
        work = [line_assignment(line, scheme)._replace(round=number) for number, line in enumerate(waiting, 1)]
        write_scheme(out_file.parent, scheme)
        bar = progress_bar(len(work), "rationales", "answer")
        with bar, appending(out_file) as file:
            for judgment in judge.judge(work):
                line = waiting[judgment.round - 1].model_copy(update={"rationale": judgment.rationale})
                file.write(line.model_dump_json().encode() + b"\n")
                file.flush()
                written.append(line)
                bar.update()
    _in_order(out_file, lines, written)
    return out_file


def _written(out_file: Path) -> list[TrainingLine]:
    if not out_file.exists():
        return []
    repair_last_line(out_file)
    return read_training_lines(out_file) if out_file.stat().st_size else []


def _target(line: TrainingLine) -> str:
    """All of a line but its rationale."""
    return line.model_dump_json(exclude={"rationale"})


def _in_order(out_file: Path, lines: list[TrainingLine], written: list[TrainingLine]) -> None:
    by_target: dict[str, list[TrainingLine]] = {}
    for line in written:
        by_target.setdefault(_target(line), []).append(line)
    write_whole(out_file, "".join(by_target[_target(line)].pop(0).model_dump_json() + "\n" for line in lines))
