"""Training lines -> token ids and targets, exactly as the judge will see them later."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from pydantic import ValidationError
from transformers import PreTrainedTokenizerBase
from trl import SFTConfig

from medjudge.errors import InputError, notify
from medjudge.files import first_problem, json_lines
from medjudge.judge.generative import (
    LABELS,
    GenerativeSettings,
    before_score_ids,
    prompt_room,
    reason_tokens,
    score_line,
    score_token_ids,
)
from medjudge.judge.ordinal import VERDICTS
from medjudge.judge.ordinal_input import Encoded, Window, encode, points_of
from medjudge.judge.prompts import Prompt, encode_prompts, token_ids
from medjudge.judge.protocol import Assignment
from medjudge.models.chat import with_chat_template
from medjudge.records import PointVerdict, TrainingLine
from medjudge.rubrics.render import Style, prompt_hashes
from medjudge.rubrics.verdict import before_score
from medjudge.scheme import LLMEVAL_MED, Scheme, scheme_beside
from medjudge.train.arguments import JudgeArguments


class EncodedLine(NamedTuple):
    """A training line as token ids.

    Attributes:
        row: The columns of `generative_dataset`.
        answer_tokens_cut: How many tokens of the answer did not fit.
    """

    row: dict[str, Any]
    answer_tokens_cut: int


class TrainingData(NamedTuple):
    """The files of `medjudge distill`, what a judge is trained on and what chooses its checkpoint; their scheme.

    `encoded` holds the lines of both as token ids, in their order, where a generative judge reads them.
    """

    train: list[TrainingLine]
    validation: list[TrainingLine]
    scheme: Scheme = LLMEVAL_MED
    encoded: tuple[list[EncodedLine], list[EncodedLine]] = ([], [])


def read_training_data(judge: JudgeArguments) -> TrainingData:
    """Reads the training and the validation file that a config names.

    Raises:
        InputError: One is missing, empty or of another kind.
    """
    scheme = scheme_beside(Path(judge.train_file))
    lines = [read_training_lines(Path(file)) for file in (judge.train_file, judge.validation_file)]
    return TrainingData(lines[0], lines[1], scheme)


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


def require_apart(data: TrainingData) -> None:
    """Raises InputError where a conversation, or the text of a question, is on both sides of the split."""
    conversations, questions = [names(data.train) & names(data.validation) for names in (_conversations, question_ids)]
    for what, shared in (("conversations", conversations), ("questions", questions)):
        if shared:
            raise InputError(
                f"{len(shared)} {what} stand in the training and in the validation file (such as {min(shared)}); "
                "split them again with `medjudge distill`"
            )


def _conversations(lines: Sequence[TrainingLine]) -> set[str]:
    return {line.question.group for line in lines}


def question_ids(lines: Sequence[TrainingLine]) -> set[str]:
    """The ids of the questions in lines, and of those that an answer was made from."""
    return {line.question.id for line in lines} | {name for line in lines for name in line.made_from}


def ordinal_dataset(
    lines: list[TrainingLine], tokenizer: PreTrainedTokenizerBase, max_length: int, most_windows: int
) -> Dataset:
    """Columns `windows`, `verdicts` (a target for each point; all 0 for none), `labels`, `level` and `weight`.

    Args:
        most_windows: The most windows of one text, as in judging.
    """
    rows = []
    for line in lines:
        points = points_of(line.question)
        targets = {(target.source, target.point): target for target in line.points}
        prompt = "\n".join([*line.earlier, line.question.prompt])
        encoded = encode(tokenizer, prompt, points, line.answer.text, max_length, most_windows)
        row = {
            "windows": [window._asdict() for window in encoded.windows],
            "verdicts": [_verdict(targets.get((point.source, point.text))) for point in points],
        }
        rows.append({**row, "labels": line.probabilities, "level": line.level, "weight": line.weight})
    return Dataset.from_list(rows)


def _verdict(target: PointVerdict | None) -> list[float]:
    return [0.0] * len(VERDICTS) if target is None else [getattr(target, name) for name in VERDICTS]


def encoded_row(row: dict[str, Any]) -> Encoded:
    """The windows of a row of `ordinal_dataset`."""
    return Encoded([Window(**window) for window in row["windows"]], 0, 0)


class _Reply(NamedTuple):
    """The tokens of a training line's reply: before its score, the score, and after it up to the end token."""

    before: list[int]
    score: int
    after: list[int]


def encoded_lines(
    lines: Sequence[TrainingLine],
    tokenizer: PreTrainedTokenizerBase,
    level_ids: list[int],
    max_length: int,
    style: Style,
    scheme: Scheme,
) -> list[EncodedLine | None]:
    """Lines as a generative judge learns them; None where the prompt leaves no room for the answer in the window.

    `labels` holds what the language loss is on: the reply without its score, which has a loss of its own, and -100
    elsewhere. A score-first reply is the level's token and, where the line has one, the rationale on the next line. A
    reason-first reply is the rationale and a last line "Score: N". Without a rationale, only the score is learnt: the
    end of the reply says nothing about the answer, and a judge that learnt to say "Score: " at once would stop
    reasoning. A rationale is cut off after `reason_tokens`, and where the window ends: the prompt is the one that the
    judge reads.

    Args:
        level_ids: From `score_token_ids`.
    """
    prompts = _prompts([line_assignment(line, scheme) for line in lines], tokenizer, max_length, style)
    replies = [_reply(line, tokenizer, level_ids, max_length, style, scheme) for line in lines]
    return [
        None if prompt is None else _encoded(line, prompt, reply, max_length)
        for line, prompt, reply in zip(lines, prompts, replies, strict=True)
    ]


def _encoded(line: TrainingLine, prompt: Prompt, parts: _Reply, max_length: int) -> EncodedLine:
    before, score, after = parts
    reply = [*before, score, *after]
    learnt = [*before, -100, *after] if line_rationale(line) else [-100] * len(reply)
    row = {
        "input_ids": [*prompt.input_ids, *reply][:max_length],
        "labels": [*[-100] * len(prompt.input_ids), *learnt][:max_length],
        "score_at": len(prompt.input_ids) + len(before),
        "probabilities": line.probabilities,
        "level": line.level,
        "weight": line.weight,
    }
    return EncodedLine(row, prompt.answer_tokens_cut)


def generative_dataset(lines: Sequence[EncodedLine]) -> Dataset:
    """Columns `input_ids`, `labels`, `score_at` (position of the score), `probabilities`, `level` and `weight`."""
    return Dataset.from_list([line.row for line in lines])


def line_rationale(line: TrainingLine) -> str:
    """What a judge learns to write of a line's rationale: its text up to a score that it states itself."""
    return before_score(line.rationale or "")


def _reply(
    line: TrainingLine,
    tokenizer: PreTrainedTokenizerBase,
    level_ids: list[int],
    max_length: int,
    style: Style,
    scheme: Scheme,
) -> _Reply:
    rationale, most = line_rationale(line), reason_tokens(max_length)
    score, end = level_ids[LABELS.index(str(line.level))], [tokenizer.eos_token_id]
    if style == "reason-first":
        last_line = score_line(line_assignment(line, scheme))
        return _Reply(before_score_ids(tokenizer, rationale, last_line, most), score, end)
    words = token_ids(tokenizer, f"\n{rationale}")[:most] if rationale else []
    return _Reply([], score, [*words, *end])


def data_with_room(
    judge: JudgeArguments, training: SFTConfig, tokenizer: PreTrainedTokenizerBase, data: TrainingData
) -> TrainingData:
    """Encodes lines, drops those whose prompt leaves no room for the answer, and reports them.

    Raises:
        InputError: No line of a file has room, the chat template cannot be rendered, or a language of the scheme has no
            prompts in this style.
    """
    assert training.max_length
    prompt_hashes(judge.style, data.scheme)  # the card's, after training: what is missing is said now
    with_chat_template(tokenizer)
    level_ids = score_token_ids(tokenizer)
    sides: list[tuple[list[TrainingLine], list[EncodedLine]]] = []
    for file, lines in ((judge.train_file, data.train), (judge.validation_file, data.validation)):
        rows = encoded_lines(lines, tokenizer, level_ids, training.max_length, judge.style, data.scheme)
        fitting = [line for line, row in zip(lines, rows, strict=True) if row is not None]
        encoded = [row for row in rows if row is not None]
        left_out = sorted({line.question.id for line in lines} - {line.question.id for line in fitting})
        reason = f"rubric, question and reference leave no room for the answer in max_length {training.max_length}"
        if not fitting:
            raise InputError(f"{file}: in all {len(lines)} lines, {reason}; raise max_length in the config")
        if len(fitting) < len(lines) and training.process_index == 0:
            dropped = f"{len(lines) - len(fitting)} of {len(lines)} lines dropped"
            notify(f"{file}: {dropped}: {reason} ({', '.join(left_out)})")
        sides.append((fitting, encoded))
    (train, encoded_train), (validation, encoded_validation) = sides
    return data._replace(train=train, validation=validation, encoded=(encoded_train, encoded_validation))


def line_assignment(line: TrainingLine, scheme: Scheme) -> Assignment:
    """A training line as a judge would get it."""
    return Assignment(line.question, tuple(line.earlier), line.answer, scheme=scheme)


def prompts_of(
    assignments: Sequence[Assignment], tokenizer: PreTrainedTokenizerBase, max_length: int, style: Style
) -> list[Prompt]:
    """The prompts of training lines, with the room that the judge gives them.

    Args:
        assignments: From `line_assignment`.

    Raises:
        InputError: Everything but the answer leaves one no room.
    """
    found: list[Prompt] = []
    for assignment, prompt in zip(assignments, _prompts(assignments, tokenizer, max_length, style), strict=True):
        if prompt is None:
            raise InputError(
                f"question {assignment.question.id}: rubric, question and reference leave no room for the answer in "
                f"max_length {max_length}; raise max_length in the config"
            )
        found.append(prompt)
    return found


def _prompts(
    assignments: Sequence[Assignment], tokenizer: PreTrainedTokenizerBase, max_length: int, style: Style
) -> list[Prompt | None]:
    written = reason_tokens(max_length) if style == "reason-first" else 0
    settings = GenerativeSettings(max_length, style=style, rationale_tokens=written)
    rooms = [prompt_room(tokenizer, settings, score_line(assignment)) for assignment in assignments]
    return encode_prompts(tokenizer, assignments, rooms, style)


def packed(dataset: Dataset, max_length: int) -> Dataset:
    """Puts rows together, up to `max_length` tokens a pack, best fit first; column `lines` holds the rows of a pack."""
    packs = _packs([len(row["input_ids"]) for row in dataset], max_length)
    return Dataset.from_list([{"lines": [dataset[index] for index in pack]} for pack in packs])


def packed_lengths(lengths: Sequence[int], max_length: int) -> list[int]:
    """The tokens of each pack that `packed` would make of rows of these lengths."""
    return [sum(lengths[index] for index in pack) for pack in _packs(lengths, max_length)]


def _packs(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    packs: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # of packs that are not full, ascending
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        fitting = bisect_left(rooms, (lengths[index], 0))
        room, pack = rooms.pop(fitting) if fitting < len(rooms) else (max_length, len(packs))
        if pack == len(packs):
            packs.append([])
        packs[pack].append(index)
        insort(rooms, (room - lengths[index], pack))
    return packs
