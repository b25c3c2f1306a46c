"""A generative judge of items and pairs: the verdict is read from the probabilities of a few letters.

The prompt holds question, reference and answers. A unit continues it by one line for each verdict: an item, or nothing
for a pair, and the next token is the verdict. Lines are read as sequences that begin alike: the prompt once, and each
line as if it were alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch

from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.prompts import control_texts, encode_prompts, label_ids, token_ids
from medjudge.judge.protocol import Made, Unit, split_empty, unscored
from medjudge.judge.shared_prefixes import read_ends
from medjudge.records import ErrorKind


class LabelUnit(Unit[Made], Protocol[Made]):
    """A unit of a task whose verdicts are letters."""

    @property
    def context(self) -> str:
        """The rest of the window's content, for messages."""
        ...

    def lines(self, control_tokens: Iterable[str]) -> list[str]:
        """The line that the prompt goes on with before each verdict."""
        ...

    def of_labels(self, judge_name: str, probabilities: np.ndarray, answer_tokens_cut: int) -> Made:
        """The judgment from the probabilities of the letters, shape (lines, letters)."""
        ...


class LabelPrompt(NamedTuple):
    """A prompt up to the reply, how the reply begins for each verdict, and the answer tokens that did not fit."""

    input_ids: list[int]
    lines: list[list[int]]
    answer_tokens_cut: int


class GenerativeLabels:
    """Judges items or pairs with a generative judge, score first.

    The letters' probabilities are the model's own: the judge's temperature was fitted on the five levels.

    Args:
        judge: The judge, in memory.
        labels: The letters of the task: `ITEM_LABELS` or `PAIR_LABELS`.

    Raises:
        InputError: The letters are not different tokens.
    """

    def __init__(self, judge: GenerativeJudge, labels: Sequence[str]) -> None:
        self.name = judge.name
        self.base = judge
        self.label_ids = label_ids(judge.tokenizer, labels)

    def judge(self, assignments: Sequence[LabelUnit[Made]]) -> Iterator[Made]:
        """Yields one judgment for each unit, in any order, as soon as it is made."""
        work, empty = split_empty(assignments, self.name)
        yield from empty
        window = self.base.settings.max_length
        fitting: list[tuple[LabelUnit[Made], LabelPrompt]] = []
        for unit, prompt in zip(work, self.prompts(work, window - 1), strict=True):
            if prompt is None:
                reason = f"{unit.context} leave no room in the window of {window} tokens"
                yield unscored(unit, self.name, ErrorKind.WINDOW, reason)
            else:
                fitting.append((unit, prompt))
        for index, logits in self.read([prompt for _, prompt in fitting]):
            unit, prompt = fitting[index]
            shares = torch.tensor(logits).softmax(dim=-1).numpy()
            yield unit.of_labels(self.name, shares, prompt.answer_tokens_cut)

    def prompts(self, units: Sequence[LabelUnit[Made]], room: int) -> list[LabelPrompt | None]:
        """The prompts of units; None for one without room for its answers.

        Args:
            room: The most tokens of a prompt with its longest line.
        """
        tokenizer = self.base.tokenizer
        control_tokens = control_texts(tokenizer)
        lines = [[token_ids(tokenizer, line) for line in unit.lines(control_tokens)] for unit in units]
        rooms = [room - max(map(len, of_unit)) for of_unit in lines]
        return [
            prompt and LabelPrompt(prompt.input_ids, of_unit, prompt.answer_tokens_cut)
            for prompt, of_unit in zip(encode_prompts(tokenizer, units, rooms), lines, strict=True)
        ]

    def read(self, prompts: Sequence[LabelPrompt]) -> Iterator[tuple[int, np.ndarray]]:
        """The logits of the letters after each line of each prompt, shape (lines, letters), in any order."""
        base = self.base
        places = [(index, number) for index, prompt in enumerate(prompts) for number in range(len(prompt.lines))]
        sequences = [[*prompts[index].input_ids, *prompts[index].lines[number]] for index, number in places]
        rows: dict[int, dict[int, np.ndarray]] = {}
        for at, logits in read_ends(base.model, sequences, base.pad_id, base.memory):
            index, number = places[at]
            of_prompt = rows.setdefault(index, {})
            of_prompt[number] = logits[self.label_ids].float().cpu().numpy()
            if len(of_prompt) == len(prompts[index].lines):
                yield index, np.stack([of_prompt[number] for number in sorted(of_prompt)])
