"""Training lines -> token ids and targets, exactly as the judge will see them later."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from pydantic import ValidationError
from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.files import first_problem, json_lines
from medjudge.judge.generative import LABELS
from medjudge.judge.ordinal import VERDICTS
from medjudge.judge.ordinal_input import Encoded, Window, encode, points_of
from medjudge.judge.prompts import encode_prompts, label_ids, token_ids
from medjudge.judge.protocol import Assignment
from medjudge.records import TrainingLine
from medjudge.rubrics.render import Style
from medjudge.rubrics.verdict import before_score
from medjudge.scheme import LLMEVAL_MED, Scheme, scheme_beside
from medjudge.train.arguments import JudgeArguments

Row = dict[str, Any]
"""A row of a data set."""


class TrainingData(NamedTuple):
    """The files of `medjudge distill`, what a judge is trained on and what chooses its checkpoint; their scheme."""

    train: list[TrainingLine]
    validation: list[TrainingLine]
    scheme: Scheme = LLMEVAL_MED


class TrainingRows(NamedTuple):
    """The rows that a trainer reads, and the lines that it was made from: those with room in the judge's window."""

    train: Dataset
    validation: Dataset
    lines: TrainingData


def read_training_data(judge: JudgeArguments) -> TrainingData:
    """Reads the training and the validation file that a config names.

    Raises:
        InputError: One is missing, empty or of another kind.
    """
    train, validation = Path(judge.train_file), Path(judge.validation_file)
    return TrainingData(read_training_lines(train), read_training_lines(validation), scheme_beside(train))


def read_training_lines(path: Path) -> list[TrainingLine]:
    """Reads a file that `medjudge distill` wrote.

    Raises:
        InputError: The file is missing, empty or of another kind, or a question is outside the scheme next to it.
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


def require_disjoint(data: TrainingData) -> None:
    """Raises InputError where a conversation, or the text of a question, is on both sides of the split."""
    sides = (data.train, data.validation)
    conversations = set.intersection(*({line.question.group for line in side} for side in sides))
    questions = set.intersection(*map(question_ids, sides))
    for what, shared in (("conversations", conversations), ("questions", questions)):
        if shared:
            raise InputError(
                f"{len(shared)} {what} stand in the training and in the validation file (such as {min(shared)}); "
                "split them again with `medjudge distill`"
            )


def question_ids(lines: Sequence[TrainingLine]) -> set[str]:
    """The ids of the questions in lines, and of those that an answer was made from."""
    return {line.question.id for line in lines} | {name for line in lines for name in line.made_from}


def ordinal_dataset(
    lines: list[TrainingLine], tokenizer: PreTrainedTokenizerBase, max_length: int, most_windows: int
) -> Dataset:
    """Columns `windows`, `verdicts` (a target for each point; all 0 for none), `labels`, `level`, `weight` and `cut`.

    `windows` hold at most `most_windows` stretches of the answer; `cut` is how many of its tokens did not fit.
    """
    rows = []
    for line in lines:
        points = points_of(line.question)
        targets = {(each.source, each.point): [getattr(each, name) for name in VERDICTS] for each in line.points}
        prompt = "\n".join([*line.earlier, line.question.prompt])
        encoded = encode(tokenizer, prompt, points, line.answer.text, max_length, most_windows)
        rows.append(
            {
                "windows": [window._asdict() for window in encoded.windows],
                "verdicts": [targets.get((point.source, point.text), [0.0] * len(VERDICTS)) for point in points],
                "labels": line.probabilities,
                "level": line.level,
                "weight": line.weight,
                "cut": encoded.answer_tokens_cut,
            }
        )
    return Dataset.from_list(rows)


def encoded_row(row: dict[str, Any]) -> Encoded:
    """The windows of a row of `ordinal_dataset`."""
    return Encoded([Window(**window) for window in row["windows"]], 0, 0)


def encoded_lines(
    lines: Sequence[TrainingLine],
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    style: Style = "score-first",
    scheme: Scheme = LLMEVAL_MED,
) -> list[Row | None]:
    """Rows of lines for a generative judge; None where the prompt leaves no room for the answer in the window.

    A row has `input_ids`, `labels`, `score_at` (position of the score), `probabilities`, `level`, `weight`, and `cut`,
    the tokens of the answer that did not fit.

    A reply is the level's token and, where the line has one, the rationale on the next line. `labels` holds what the
    language loss is on: the rationale and the end of the reply, and -100 elsewhere. The score has a loss of its own.
    Without a rationale, only the score is learnt: the end of the reply says nothing about the answer. A rationale is
    cut off after 512 tokens or a quarter of the window, and where that ends: the prompt is that which the judge reads.
    """
    work = [Assignment(line.question, tuple(line.earlier), line.answer, scheme=scheme) for line in lines]
    prompts = encode_prompts(tokenizer, work, [max_length - 1] * len(work), style)
    level_ids, end = label_ids(tokenizer, LABELS), tokenizer.eos_token_id
    rows: list[Row | None] = []
    for line, prompt in zip(lines, prompts, strict=True):
        if prompt is None:
            rows.append(None)
            continue
        rationale = before_score(line.rationale or "")  # without a score that it states itself
        words = token_ids(tokenizer, f"\n{rationale}")[: min(512, max_length // 4)] if rationale else []
        learnt = [-100, *words, end] if rationale else [-100, -100]
        rows.append(
            {
                "input_ids": [*prompt.input_ids, level_ids[line.level - 1], *words, end][:max_length],
                "labels": [*[-100] * len(prompt.input_ids), *learnt][:max_length],
                "score_at": len(prompt.input_ids),
                "probabilities": line.probabilities,
                "level": line.level,
                "weight": line.weight,
                "cut": prompt.answer_tokens_cut,
            }
        )
    return rows
