"""A generative judge of items and pairs: the verdict is read from the probabilities of a few letters.

The prompt holds question, reference and answers. A unit continues it by one line for each verdict: an item, or nothing
for a pair, and the next token is the verdict. Lines are read as sequences that begin alike: the prompt once, and each
line as if it were alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import torch

from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.prompts import control_texts, encode_prompts, label_ids, token_ids
from medjudge.judge.protocol import Made, Unit, no_room, split_empty
from medjudge.judge.shared_prefixes import read_ends


class LabelUnit(Unit[Made], Protocol[Made]):
    """A unit of a task whose verdicts are letters."""

    def lines(self, control_tokens: Iterable[str]) -> list[str]:
        """The line that the prompt goes on with before each verdict."""
        ...

    def of_labels(self, judge_name: str, probabilities: np.ndarray, answer_tokens_cut: int) -> Made:
        """The judgment from the probabilities of the letters, shape (lines, letters)."""
        ...


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
        base, tokenizer, window = self.base, self.base.tokenizer, self.base.settings.max_length
        control_tokens = control_texts(tokenizer)
        lines = [[token_ids(tokenizer, line) for line in unit.lines(control_tokens)] for unit in work]
        rooms = [window - 1 - max(map(len, of_unit)) for of_unit in lines]
        prompts = encode_prompts(tokenizer, work, rooms)
        places: list[tuple[int, int]] = []
        sequences: list[list[int]] = []
        for number, prompt in enumerate(prompts):
            if prompt is None:
                yield no_room(work[number], self.name, window)
                continue
            places += [(number, place) for place in range(len(lines[number]))]
            sequences += [prompt.input_ids + line for line in lines[number]]
        logits_of: dict[int, dict[int, torch.Tensor]] = {}
        for index, logits in read_ends(base.model, sequences, base.pad_id, base.memory):
            number, place = places[index]
            prompt, of_unit = prompts[number], logits_of.setdefault(number, {})
            of_unit[place] = logits[self.label_ids].float().cpu()
            if prompt is not None and len(of_unit) == len(lines[number]):
                shares = torch.stack([of_unit[place] for place in sorted(of_unit)]).softmax(dim=-1).numpy()
                yield work[number].of_labels(self.name, shares, prompt.answer_tokens_cut)
