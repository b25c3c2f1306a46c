"""Training lines -> token ids and targets, exactly as the judge will see them later."""

from pathlib import Path

from datasets import Dataset
from pydantic import ValidationError
from transformers import PreTrainedTokenizerBase

from medjudge.distill.training_set import TrainingLine
from medjudge.errors import InputError
from medjudge.judge.generative import LABELS, encode_prompt, score_token_ids
from medjudge.judge.ordinal import encode
from medjudge.judge.protocol import Assignment
from medjudge.store import read_text


def read_training_lines(path: Path) -> list[TrainingLine]:
    """Reads a file that `medjudge distill` wrote.

    Raises:
        InputError: The file is missing, empty or of another kind.
    """
    lines = []
    for number, text in enumerate(read_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        try:
            lines.append(TrainingLine.model_validate_json(text))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise InputError(
                f"{path}, line {number}: {place}: {first['msg']}; write it with `medjudge distill`"
            ) from None
    if not lines:
        raise InputError(f"{path}: no training line in it")
    return lines


def require_apart(train: list[TrainingLine], validation: list[TrainingLine]) -> None:
    """Raises InputError where a conversation stands on both sides of the split."""
    shared = {line.question.group for line in train} & {line.question.group for line in validation}
    if shared:
        raise InputError(
            f"{len(shared)} conversations stand in the training and in the validation file (such as {min(shared)}); "
            "split them again with `medjudge distill`"
        )


def ordinal_dataset(lines: list[TrainingLine], tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
    """Columns `parts` and `answer` (token ids), `labels` (five probabilities, level 1 first) and `weight`."""
    rows = []
    for line in lines:
        encoded = encode(tokenizer, line.question, line.earlier, line.answer.text, max_length)
        rows.append(
            {
                "parts": list(encoded.parts),
                "answer": encoded.answer,
                "labels": line.probabilities,
                "weight": line.weight,
            }
        )
    return Dataset.from_list(rows)


def generative_dataset(lines: list[TrainingLine], tokenizer: PreTrainedTokenizerBase, max_length: int) -> Dataset:
    """Columns `input_ids` and `labels`: the prompt is -100 in `labels`, the loss is on the reply alone.

    The reply is the level's token and, where the line has one, the rationale on the next line.

    Raises:
        InputError: A prompt leaves no room for its answer in the window.
    """
    level_ids = score_token_ids(tokenizer)
    rows = []
    for line in lines:
        rationale = f"\n{line.rationale}" if line.rationale else ""
        reply = [
            level_ids[LABELS.index(str(line.level))],
            *tokenizer(rationale, add_special_tokens=False)["input_ids"],
            tokenizer.eos_token_id,
        ]
        work = Assignment(line.question, tuple(line.earlier), line.answer)
        prompt = encode_prompt(tokenizer, work, max_length - len(reply))
        if prompt is None:
            raise InputError(
                f"question {line.question.id}: rubric, question and reference leave no room for the answer in "
                f"max_length {max_length}; raise max_length in the config"
            )
        rows.append({"input_ids": prompt.input_ids + reply, "labels": [-100] * len(prompt.input_ids) + reply})
    return Dataset.from_list(rows)
