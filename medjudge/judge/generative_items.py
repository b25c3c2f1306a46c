"""The generative judge of items: one pass over the prompt, and one over all its items side by side.

The prompt holds question, reference and answer. Each item continues it as the first line of a reply, and the next token
says whether the answer meets it. The items of an answer stand behind each other in one sequence; a mask lets each of
them see the prompt and itself, and all begin at the same position. Each is therefore read as if it stood alone.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.item_records import ItemJudgment
from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.items import ItemAssignment, judged_items, split_empty_answers, unjudged_items
from medjudge.judge.prompts import control_texts, token_ids, tokenised
from medjudge.judge.shared_prefixes import CACHE, Known, prefix_forest, read_to_the_end
from medjudge.models.batching import cut_middle
from medjudge.models.padding import pad_left
from medjudge.models.tree_attention import TREE_ATTENTION
from medjudge.records import ErrorKind
from medjudge.rubrics.item_prompt import one_line, render_items

LABELS = ("N", "Y")
"""Not met, met."""
_MIN_ANSWER_TOKENS = 32
_MASKED_ATTENTION = ("sdpa", "eager", TREE_ATTENTION)
"""The kinds of attention that take a mask per pair of tokens."""


class ItemPrompt(NamedTuple):
    """A prompt up to the reply, how the reply begins for each item, and how many tokens of the answer did not fit."""

    input_ids: list[int]
    items: list[list[int]]
    answer_tokens_cut: int


class GenerativeItemJudge:
    """Checks answers against items with a generative judge, score first whatever its style.

    The letters' probabilities are the model's own: the judge's temperature was fitted on the five levels.

    Args:
        judge: The judge, in memory.

    Raises:
        InputError: The letters N and Y are not two different tokens.
    """

    def __init__(self, judge: GenerativeJudge) -> None:
        self.name = judge.name
        self.judge = judge
        self.label_ids = _letter_ids(judge.tokenizer)

    def judge_items(self, assignments: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        work, empty = split_empty_answers(assignments, self.name)
        yield from empty
        # What the answers to a question and the questions of a language share is computed once.
        work.sort(key=lambda item: (item.question.language, item.question.id))
        window = self.judge.settings.max_length
        prompts = item_prompts(self.judge.tokenizer, work, window - 1)
        fitting: list[tuple[ItemAssignment, ItemPrompt]] = []
        for assignment, prompt in zip(work, prompts, strict=True):
            if prompt is None:
                reason = f"question, reference and an item leave no room in the window of {window} tokens"
                yield unjudged_items(assignment, self.name, ErrorKind.WINDOW, reason)
            else:
                fitting.append((assignment, prompt))
        for index, logits in self.read([prompt for _, prompt in fitting]):
            assignment, prompt = fitting[index]
            met = torch.tensor(logits).softmax(dim=-1).numpy()[:, 1]
            yield judged_items(assignment, self.name, met, answer_tokens_cut=prompt.answer_tokens_cut)

    def read(self, prompts: Sequence[ItemPrompt]) -> Iterator[tuple[int, np.ndarray]]:
        """The logits of the letters after each item of each prompt, shape (items, 2), in any order."""
        judge = self.judge
        if not judge.shares or judge.model.config._attn_implementation not in _MASKED_ATTENTION:
            yield from self._read_apart(prompts)
            return

        def at_end(logits: torch.Tensor, known: Known, of: Sequence[int]) -> list[np.ndarray]:
            return self._side_by_side(known, [prompts[index].items for index in of])

        forest = prefix_forest([prompt.input_ids for prompt in prompts])
        longest = max((sum(map(len, prompt.items)) for prompt in prompts), default=0)
        by_ids = _equal_prompts(prompts)
        for index, rows in read_to_the_end(judge.model, forest, judge.pad_id, judge.memory, at_end, longest):
            # Equal prompts end together, and were read with the items of the first of them.
            if by_ids[index] == index or prompts[index].items == prompts[by_ids[index]].items:
                yield index, rows
            else:
                yield from ((index, other) for _, other in self._read_apart([prompts[index]]))

    def _side_by_side(self, known: Known, items: Sequence[Sequence[list[int]]]) -> list[np.ndarray]:
        """Reads the items of prompts that are in the cache.

        Args:
            known: The cache, with a row for each prompt.
            items: The tokens of each item, by row.
        """
        model = self.judge.model
        packed = [[token for item in row for token in item] for row in items]
        ids = pad_left(packed, self.judge.pad_id, model.device).ids
        width = ids.shape[1]
        owner = torch.full_like(ids, -1)  # the item of each token; -1 for padding
        place = torch.zeros_like(ids)  # its place within the item
        ends: list[list[int]] = []
        for row, of_row in enumerate(items):
            at = width - len(packed[row])
            ends.append([])
            for number, item in enumerate(of_row):
                owner[row, at : at + len(item)] = number
                place[row, at : at + len(item)] = torch.arange(len(item), device=ids.device)
                at += len(item)
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
        letters: np.ndarray = out.logits[:, :, self.label_ids].float().cpu().numpy()
        at_column = {column: number for number, column in enumerate(columns)}
        return [letters[row, [at_column[column] for column in of_row]] for row, of_row in enumerate(ends)]

    def _read_apart(self, prompts: Sequence[ItemPrompt]) -> Iterator[tuple[int, np.ndarray]]:
        """As `read`, each item behind a copy of its prompt: for models whose attention takes no such mask."""
        sequences = [[*prompt.input_ids, *item] for prompt in prompts for item in prompt.items]
        rows: dict[int, np.ndarray] = {}
        for batch, letters in self.judge.memory.run(
            range(len(sequences)),
            [len(ids) for ids in sequences],
            lambda batch: self._last_letters([sequences[index] for index in batch]),
        ):
            rows.update(zip(batch, letters, strict=True))
        at = 0
        for index, prompt in enumerate(prompts):
            yield index, np.stack([rows[at + number] for number in range(len(prompt.items))])
            at += len(prompt.items)

    def _last_letters(self, sequences: Sequence[list[int]]) -> list[np.ndarray]:
        ids, mask = pad_left(sequences, self.judge.pad_id, self.judge.model.device)
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        with torch.inference_mode():
            out = self.judge.model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)
        letters: np.ndarray = out.logits[:, -1, self.label_ids].float().cpu().numpy()
        return list(letters)


def item_prompts(
    tokenizer: PreTrainedTokenizerBase, assignments: Sequence[ItemAssignment], room: int
) -> list[ItemPrompt | None]:
    """Renders and tokenises the prompts of answers and the items behind them.

    Args:
        room: The most tokens of a prompt with its longest item. An answer that does not fit loses its middle.

    Returns:
        The prompts; None for one whose other parts leave no room for the answer.
    """
    control_tokens = control_texts(tokenizer)

    def text_of(assignment: ItemAssignment, answer: str) -> str:
        prompt = render_items(
            assignment.question, assignment.earlier, answer, (), control_tokens, scheme=assignment.scheme
        )
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        text: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return text

    def shortened(assignment: ItemAssignment, items: list[list[int]], most: int, length: int) -> ItemPrompt | None:
        tokens = token_ids(tokenizer, assignment.answer.text)
        left = most - (length - len(tokens))
        while left >= _MIN_ANSWER_TOKENS:
            remaining, left_out = cut_middle(tokens, left)
            middle = (left + 1) // 2
            head, tail = tokenizer.decode(remaining[:middle]), tokenizer.decode(remaining[middle:])
            answer = f"{head}\n[... {left_out} tokens left out ...]\n{tail}"
            ids = tokenised(tokenizer, [text_of(assignment, answer)])[0]
            if len(ids) <= most:
                return ItemPrompt(ids, items, left_out)
            # The note and the edges of the decoded halves cost a few tokens: shorten the answer by as many.
            left -= len(ids) - most
        return None

    whole = tokenised(tokenizer, [text_of(assignment, assignment.answer.text) for assignment in assignments])
    prompts: list[ItemPrompt | None] = []
    for assignment, ids in zip(assignments, whole, strict=True):
        items = [token_ids(tokenizer, f"{one_line(item.text, control_tokens)}\n") for item in assignment.items]
        most = room - max(map(len, items))
        fits = len(ids) <= most
        prompts.append(ItemPrompt(ids, items, 0) if fits else shortened(assignment, items, most, len(ids)))
    return prompts


def _equal_prompts(prompts: Sequence[ItemPrompt]) -> list[int]:
    """For each prompt the first one with the same tokens."""
    first: dict[tuple[int, ...], int] = {}
    return [first.setdefault(tuple(prompt.input_ids), index) for index, prompt in enumerate(prompts)]


def _letter_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    # The last token: some tokenizers put a word-boundary token before the letter.
    ids = [tokenizer(label, add_special_tokens=False)["input_ids"][-1] for label in LABELS]
    if [tokenizer.decode([token_id]).strip() for token_id in ids] != list(LABELS):
        raise InputError(
            f"{tokenizer.name_or_path}: the letters Y and N are not two different tokens; use another judge"
        )
    return ids
