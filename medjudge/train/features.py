"""Training lines -> token ids and targets, exactly as the judge will see them later."""

from bisect import bisect_left, insort
from pathlib import Path
from typing import NamedTuple

from datasets import Dataset
from pydantic import ValidationError
from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.files import first_problem, json_lines
from medjudge.judge.generative import (
    LABELS,
    GenerativeSettings,
    Prompt,
    before_score_ids,
    encode_prompt,
    prompt_room,
    reason_tokens,
    score_line,
    score_token_ids,
    token_ids,
)
from medjudge.judge.ordinal import encode
from medjudge.judge.protocol import Assignment
from medjudge.records import TrainingLine
from medjudge.rubrics.render import Style
from medjudge.rubrics.verdict import before_score
from medjudge.scheme import LLMEVAL_MED, Scheme, scheme_beside


class TrainingData(NamedTuple):
    """The two files of `medjudge distill`, what a judge is trained on and what chooses its checkpoint; their scheme."""

    train: list[TrainingLine]
    validation: list[TrainingLine]
    scheme: Scheme = LLMEVAL_MED


def read_training_lines(path: Path) -> list[TrainingLine]:
    """Reads a file that `medjudge distill` wrote.

    Raises:
        InputError: The file is missing, empty or of another kind, or a question is outside the scheme beside it.
    """
    scheme = scheme_beside(path)
    lines = []
    for number, fields in json_lines(path):
        try:
            lines.append(TrainingLine.model_validate(fields))
        except ValidationError as error:
            raise InputError(
                f"{path}, line {number}: {first_problem(error)}; write it with `medjudge distill`"
            ) from None
        question = lines[-1].question
        if problem := scheme.problem_with(question.category, question.language):
            raise InputError(f"{path}, line {number}: question.{problem}")
        if not abs(sum(lines[-1].probabilities) - 1) <= 1e-3 or min(lines[-1].probabilities) < 0:
            raise InputError(
                f"{path}, line {number}: probabilities: {lines[-1].probabilities} are not shares that add up to 1; "
                "write it with `medjudge distill`"
            )
    if not lines:
        raise InputError(f"{path}: no training line in it")
    return lines


def require_apart(train: list[TrainingLine], validation: list[TrainingLine]) -> None:
    """Raises InputError where a conversation, or the text of a question, is on both sides of the split."""
    conversations = {line.question.group for line in train} & {line.question.group for line in validation}
    questions = question_ids(train) & question_ids(validation)
    for what, shared in (("conversations", conversations), ("questions", questions)):
        if shared:
            raise InputError(
                f"{len(shared)} {what} stand in the training and in the validation file (such as {min(shared)}); "
                "split them again with `medjudge distill`"
            )


def question_ids(lines: list[TrainingLine]) -> set[str]:
    """The ids of the questions in the lines, and of those that an answer was made from."""
    return {name for line in lines for name in (line.question.id, *line.made_from)}


def ordinal_dataset(
    lines: list[TrainingLine], tokenizer: PreTrainedTokenizerBase, max_length: int, most_windows: int
) -> Dataset:
    """Columns `question`, `reference`, `checklist`, `answer` (token ids in windows), `labels`, `level` and `weight`.

    Args:
        most_windows: The most windows of one text, as in judging.
    """
    rows = []
    for line in lines:
        encoded = encode(tokenizer, line.question, line.earlier, line.answer.text, max_length, most_windows)
        texts = {name: value for name, value in encoded._asdict().items() if not name.endswith("_cut")}
        rows.append({**texts, "labels": line.probabilities, "level": line.level, "weight": line.weight})
    return Dataset.from_list(rows)


def generative_dataset(
    lines: list[TrainingLine],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    style: Style = "score-first",
    scheme: Scheme = LLMEVAL_MED,
) -> Dataset:
    """Columns `input_ids`, `labels`, `score_at` (the position of the score), `probabilities` and `weight`.

    `labels` holds what the language loss is on: the reply without its score, which has a loss of its own, and -100
    elsewhere. A score-first reply is the level's token and, where the line has one, the rationale on the next line. A
    reason-first reply is the rationale and a last line "Score: N". Without a rationale, "Score: " is given and only the
    score and the end of the reply are learnt: a judge that learnt to say "Score: " at once would stop reasoning. A
    rationale is cut off after `reason_tokens`, so that it leaves room for the answer.

    Raises:
        InputError: A prompt leaves no room for its answer in the window.
    """
    level_ids = score_token_ids(tokenizer)
    rows = []
    for line in lines:
        rationale = before_score(line.rationale or "")
        score = level_ids[LABELS.index(str(line.level))]
        if style == "score-first":
            before = []
            after = token_ids(tokenizer, f"\n{rationale}")[: reason_tokens(max_length)] if rationale else []
        else:
            last_line = score_line(line_assignment(line, scheme))
            before = before_score_ids(tokenizer, rationale, last_line, reason_tokens(max_length))
            after = []
        reply = [*before, score, *after, tokenizer.eos_token_id]
        prompt = prompt_ids(line_assignment(line, scheme), tokenizer, max_length, style, len(reply))
        spoken = [*(before if rationale else [-100] * len(before)), -100, *after, tokenizer.eos_token_id]
        rows.append(
            {
                "input_ids": prompt.input_ids + reply,
                "labels": [-100] * len(prompt.input_ids) + spoken,
                "score_at": len(prompt.input_ids) + len(before),
                "probabilities": line.probabilities,
                "weight": line.weight,
            }
        )
    return Dataset.from_list(rows)


def line_assignment(line: TrainingLine, scheme: Scheme) -> Assignment:
    """A training line as a judge would get it."""
    return Assignment(line.question, tuple(line.earlier), line.answer, scheme=scheme)


def prompt_ids(
    assignment: Assignment, tokenizer: PreTrainedTokenizerBase, max_length: int, style: Style, reply: int = 0
) -> Prompt:
    """The prompt of a training line, with the room that the judge gives it, or less where a reply needs more.

    Args:
        assignment: From `line_assignment`.
        reply: The tokens of the reply in training.

    Raises:
        InputError: Everything but the answer leaves it no room.
    """
    written = reason_tokens(max_length) if style == "reason-first" else 0
    settings = GenerativeSettings(max_length, style=style, rationale_tokens=written)
    room = min(prompt_room(tokenizer, settings, score_line(assignment)), max_length - reply)
    prompt = encode_prompt(tokenizer, assignment, room, style)
    if prompt is None:
        raise InputError(
            f"question {assignment.question.id}: rubric, question and reference leave no room for the answer in "
            f"max_length {max_length}; raise max_length in the config"
        )
    return prompt


def packed(dataset: Dataset, max_length: int) -> Dataset:
    """Puts rows together, up to `max_length` tokens a pack, best fit first; column `lines` holds the rows of a pack."""
    lengths = [len(row["input_ids"]) for row in dataset]
    packs: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # of packs that are not full, ascending
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        fitting = bisect_left(rooms, (lengths[index], 0))
        room, pack = rooms.pop(fitting) if fitting < len(rooms) else (max_length, len(packs))
        if pack == len(packs):
            packs.append([])
        packs[pack].append(index)
        insort(rooms, (room - lengths[index], pack))
    return Dataset.from_list([{"lines": [dataset[index] for index in pack]} for pack in packs])
