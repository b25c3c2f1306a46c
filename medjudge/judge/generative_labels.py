"""A generative judge of items and pairs: the verdict is read from the probabilities of a few letters.

The prompt holds question, reference and answers. A unit continues it by one line for each verdict: an item, or nothing
for a pair, and the next token is the verdict. The lines of a prompt follow each other in one sequence; a mask lets each
of them see the prompt and itself, and all begin at the same position. Each is therefore read as if it were alone.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import torch

from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.prompts import control_texts, encode_prompts, label_ids, token_ids
from medjudge.judge.protocol import Made, Unit, split_empty, unscored
from medjudge.judge.shared_prefixes import CACHE, Known, prefix_forest, read_to_the_end
from medjudge.models.padding import pad_left
from medjudge.models.tree_attention import TREE_ATTENTION
from medjudge.records import ErrorKind

_MASKED_ATTENTION = ("sdpa", "eager", TREE_ATTENTION)
"""The kinds of attention that take a mask per pair of tokens."""


class LabelUnit(Unit[Made], Protocol[Made]):
    """A unit of a task whose verdicts are letters."""

    @property
    def context(self) -> str:
        """What the window must hold with the answers, for messages."""
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
    """Judges items or pairs with a generative judge, score first whatever its style.

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
        longest = max((sum(map(len, prompt.lines)) for prompt in prompts), default=0)
        if not base.shares or (longest and base.model.config._attn_implementation not in _MASKED_ATTENTION):
            yield from self._read_apart(prompts)
            return

        def at_end(logits: torch.Tensor, known: Known, of: Sequence[int]) -> list[np.ndarray]:
            if not longest:
                return list(self._letters(logits)[:, None])
            return self._side_by_side(known, [prompts[index].lines for index in of])

        forest = prefix_forest([prompt.input_ids for prompt in prompts])
        first: dict[tuple[int, ...], int] = {}
        same = [first.setdefault(tuple(prompt.input_ids), index) for index, prompt in enumerate(prompts)]
        for index, rows in read_to_the_end(base.model, forest, base.pad_id, base.memory, at_end, longest):
            # Equal prompts end together, and were read with the lines of the first of them.
            if prompts[index].lines == prompts[same[index]].lines:
                yield index, rows
            else:
                yield from ((index, other) for _, other in self._read_apart([prompts[index]]))

    def _side_by_side(self, known: Known, lines: Sequence[Sequence[list[int]]]) -> list[np.ndarray]:
        """Reads the lines of prompts that are in the cache.

        Args:
            known: The cache, with a row for each prompt.
            lines: The tokens of each line, by row.
        """
        model = self.base.model
        packed = [[token for line in row for token in line] for row in lines]
        ids = pad_left(packed, self.base.pad_id, model.device).ids
        width = ids.shape[1]
        owner = torch.full_like(ids, -1)  # the line of each token; -1 for padding
        place = torch.zeros_like(ids)  # its place within the line
        ends: list[list[int]] = []
        for row, of_row in enumerate(lines):
            at = width - len(packed[row])
            ends.append([])
            for number, line in enumerate(of_row):
                owner[row, at : at + len(line)] = number
                place[row, at : at + len(line)] = torch.arange(len(line), device=ids.device)
                at += len(line)
                ends[row].append(at - 1)
        same = (owner[:, :, None] == owner[:, None, :]) & (place[:, None, :] <= place[:, :, None])
        before = known.mask.bool()[:, None, :].expand(-1, width, -1)
        visible = torch.cat([before, same], dim=2)[:, None]
        mask = torch.zeros(visible.shape, dtype=model.dtype, device=ids.device)
        mask.masked_fill_(~visible, torch.finfo(model.dtype).min)
        columns = sorted({column for row in ends for column in row})
        with torch.inference_mode():
            out = model(
                ids,
                attention_mask=mask,
                position_ids=known.mask.sum(dim=1, keepdim=True) + place,
                use_cache=True,
                logits_to_keep=torch.tensor(columns, device=ids.device),
                **{CACHE: known.cache},
            )
        letters = self._letters(out.logits)
        at_column = {column: number for number, column in enumerate(columns)}
        return [letters[row, [at_column[column] for column in of_row]] for row, of_row in enumerate(ends)]

    def _read_apart(self, prompts: Sequence[LabelPrompt]) -> Iterator[tuple[int, np.ndarray]]:
        """As `read`, each line behind a copy of its prompt: for models that cannot share, or take no such mask."""
        places = [(index, number) for index, prompt in enumerate(prompts) for number in range(len(prompt.lines))]
        sequences = [[*prompts[index].input_ids, *prompts[index].lines[number]] for index, number in places]
        rows: dict[int, dict[int, np.ndarray]] = {}
        for batch, letters in self.base.memory.run(
            range(len(sequences)),
            [len(ids) for ids in sequences],
            lambda batch: self._last_letters([sequences[index] for index in batch]),
        ):
            for (index, number), row in zip([places[at] for at in batch], letters, strict=True):
                of_prompt = rows.setdefault(index, {})
                of_prompt[number] = row
                if len(of_prompt) == len(prompts[index].lines):
                    yield index, np.stack([of_prompt[number] for number in sorted(of_prompt)])

    def _last_letters(self, sequences: Sequence[list[int]]) -> list[np.ndarray]:
        ids, mask = pad_left(sequences, self.base.pad_id, self.base.model.device)
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        with torch.inference_mode():
            out = self.base.model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)
        return list(self._letters(out.logits[:, -1]))

    def _letters(self, logits: torch.Tensor) -> np.ndarray:
        """Selects the logits of the letters, (..., vocabulary) -> (..., letters)."""
        letters: np.ndarray = logits[..., self.label_ids].float().cpu().numpy()
        return letters
