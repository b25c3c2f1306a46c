"""Training pairs -> token ids: the prompt of a comparison in both orders, as the judge will see it later."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError, notify
from medjudge.files import first_problem, json_lines
from medjudge.judge.generative_pairs import pair_prompts
from medjudge.judge.pairs import PairAssignment
from medjudge.records import TrainingPair
from medjudge.scheme import Scheme, scheme_beside


class EncodedPair(NamedTuple):
    """One order of a training pair as token ids, up to the verdict.

    Attributes:
        chosen_first: Whether the better answer is shown first, as A.
    """

    input_ids: list[int]
    chosen_first: bool


def read_training_pairs(path: Path) -> list[TrainingPair]:
    """Reads a file of pairs that `medjudge distill --pairs` wrote.

    Raises:
        InputError: The file is missing or of another kind, or a question is outside the scheme beside it.
    """
    scheme = scheme_beside(path)
    pairs = []
    for number, fields in json_lines(path):
        try:
            pairs.append(TrainingPair.model_validate(fields))
        except ValidationError as error:
            raise InputError(
                f"{path}, line {number}: {first_problem(error)}; write it with `medjudge distill --pairs`"
            ) from None
        question = pairs[-1].question
        if problem := scheme.problem_with(question.category, question.language):
            raise InputError(f"{path}, line {number}: question.{problem}")
    return pairs


def encoded_pairs(
    file: str, pairs: Sequence[TrainingPair], tokenizer: PreTrainedTokenizerBase, max_length: int, scheme: Scheme
) -> list[EncodedPair]:
    """Both orders of each pair; pairs whose prompt leaves no room for the answers are dropped with a message."""
    work = [assignment for pair in pairs for assignment in _both_orders(pair, scheme)]
    prompts = pair_prompts(tokenizer, work, max_length - 1)
    encoded: list[EncodedPair] = []
    for place in range(0, len(prompts), 2):
        forward, backward = prompts[place : place + 2]
        if forward is not None and backward is not None:
            encoded += [EncodedPair(forward.input_ids, True), EncodedPair(backward.input_ids, False)]
    if dropped := len(pairs) - len(encoded) // 2:
        notify(
            f"{file}: {dropped} of {len(pairs)} pairs dropped: rubric, question and reference leave no room for both "
            f"answers in max_length {max_length}"
        )
    return encoded


def _both_orders(pair: TrainingPair, scheme: Scheme) -> tuple[PairAssignment, PairAssignment]:
    shown = PairAssignment(pair.question, tuple(pair.earlier), pair.chosen, pair.rejected, scheme)
    return shown, shown.swapped()
