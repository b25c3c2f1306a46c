"""The generative judge of pairs: reads the verdict from the probabilities of three tokens, in one forward pass."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.judge.generative import GenerativeJudge
from medjudge.judge.pairs import PairAssignment, pair_of_probabilities, split_empty_pairs, unjudged_pair
from medjudge.judge.prompts import control_texts, token_ids, tokenised
from medjudge.judge.shared_prefixes import Known, prefix_forest, read_to_the_end
from medjudge.models.batching import cut_middle
from medjudge.models.padding import pad_left
from medjudge.pair_records import PairJudgment
from medjudge.records import ErrorKind
from medjudge.rubrics.pair_prompt import render_pair

LABELS = ("A", "C", "B")
"""The answer shown first, a tie, the answer shown second."""
_MIN_ANSWER_TOKENS = 32


class PairPrompt(NamedTuple):
    """A prompt up to the verdict, and how many tokens of both answers together did not fit."""

    input_ids: list[int]
    answer_tokens_cut: int


class GenerativePairJudge:
    """Compares two answers with a generative judge, score first whatever its style.

    The letters' probabilities are the model's own: the judge's temperature was fitted on the five levels.

    Args:
        judge: The judge, in memory.

    Raises:
        InputError: The letters A, B and C are not three different tokens.
    """

    def __init__(self, judge: GenerativeJudge) -> None:
        self.name = judge.name
        self.judge = judge
        self.label_ids = _letter_ids(judge.tokenizer)

    def judge_pairs(self, assignments: Sequence[PairAssignment]) -> Iterator[PairJudgment]:
        work, empty = split_empty_pairs(assignments, self.name)
        yield from empty
        # What the pairs of a question and the questions of a rubric share is computed once.
        work.sort(key=lambda pair: (pair.question.category, pair.question.language, pair.question.id))
        window = self.judge.settings.max_length
        prompts = pair_prompts(self.judge.tokenizer, work, window - 1)
        fitting: list[tuple[PairAssignment, PairPrompt]] = []
        for pair, prompt in zip(work, prompts, strict=True):
            if prompt is None:
                reason = f"rubric, question and reference leave no room in the window of {window} tokens"
                yield unjudged_pair(pair, self.name, ErrorKind.WINDOW, reason)
            else:
                fitting.append((pair, prompt))
        for index, logits in self.read([prompt.input_ids for _, prompt in fitting]):
            pair, prompt = fitting[index]
            shares = torch.tensor(logits).softmax(dim=-1).numpy()
            yield pair_of_probabilities(pair, self.name, shares, prompt.answer_tokens_cut)

    def read(self, sequences: Sequence[list[int]]) -> Iterator[tuple[int, np.ndarray]]:
        """The logits of the three letters after each prompt, shape (3,), in any order."""
        judge = self.judge
        if judge.shares:

            def at_end(logits: torch.Tensor, known: Known, of: Sequence[int]) -> list[np.ndarray]:
                return list(self._letters(logits))

            yield from read_to_the_end(judge.model, prefix_forest(sequences), judge.pad_id, judge.memory, at_end, 0)
            return
        for batch, rows in judge.memory.run(
            range(len(sequences)),
            [len(ids) for ids in sequences],
            lambda batch: self._last_logits([sequences[index] for index in batch]),
        ):
            yield from zip(batch, rows, strict=True)

    def _last_logits(self, sequences: Sequence[list[int]]) -> list[np.ndarray]:
        ids, mask = pad_left(sequences, self.judge.pad_id, self.judge.model.device)
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        with torch.inference_mode():
            out = self.judge.model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)
        return list(self._letters(out.logits[:, -1]))

    def _letters(self, logits: torch.Tensor) -> np.ndarray:
        """Selects the logits of the three letters, (rows, vocabulary) -> (rows, 3)."""
        rows: np.ndarray = logits[:, self.label_ids].float().cpu().numpy()
        return rows


def pair_prompts(
    tokenizer: PreTrainedTokenizerBase, pairs: Sequence[PairAssignment], room: int
) -> list[PairPrompt | None]:
    """Renders and tokenises the prompts of pairs, up to the verdict.

    Args:
        room: The most tokens of a prompt. Answers that do not fit lose their middle, the longer one first.

    Returns:
        The prompts; None for one whose other parts leave no room for the answers.
    """
    control_tokens = control_texts(tokenizer)

    def text_of(pair: PairAssignment, first: str, second: str) -> str:
        prompt = render_pair(pair.question, pair.earlier, first, second, "score-first", control_tokens, pair.scheme)
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        text: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return text

    def shortened(pair: PairAssignment, length: int) -> PairPrompt | None:
        answers = [token_ids(tokenizer, answer.text) for answer in (pair.first, pair.second)]
        left = room - (length - sum(map(len, answers)))
        while left >= 2 * _MIN_ANSWER_TOKENS:
            shorter = min(map(len, answers))
            # The shorter answer keeps up to half, the longer one gets the rest.
            most = max(left - shorter, left // 2)
            texts, cut = [], 0
            for tokens in answers:
                text, left_out = _cut(tokenizer, tokens, most if len(tokens) > left // 2 else left // 2)
                texts.append(text)
                cut += left_out
            ids = tokenised(tokenizer, [text_of(pair, texts[0], texts[1])])[0]
            if len(ids) <= room:
                return PairPrompt(ids, cut)
            # The note and the edges of the decoded halves cost a few tokens: shorten the answers by as many.
            left -= len(ids) - room
        return None

    whole = tokenised(tokenizer, [text_of(pair, pair.first.text, pair.second.text) for pair in pairs])
    return [
        PairPrompt(ids, 0) if len(ids) <= room else shortened(pair, len(ids))
        for pair, ids in zip(pairs, whole, strict=True)
    ]


def _cut(tokenizer: PreTrainedTokenizerBase, tokens: list[int], most: int) -> tuple[str, int]:
    """An answer's text without its middle, and how many tokens were left out."""
    if len(tokens) <= most:
        return tokenizer.decode(tokens), 0
    remaining, left_out = cut_middle(tokens, most)
    middle = (most + 1) // 2
    head, tail = tokenizer.decode(remaining[:middle]), tokenizer.decode(remaining[middle:])
    return f"{head}\n[... {left_out} tokens left out ...]\n{tail}", left_out


def _letter_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    # The last token: some tokenizers put a word-boundary token before the letter.
    ids = [tokenizer(label, add_special_tokens=False)["input_ids"][-1] for label in LABELS]
    if [tokenizer.decode([token_id]).strip() for token_id in ids] != list(LABELS):
        raise InputError(
            f"{tokenizer.name_or_path}: the letters A, B and C are not three different tokens; use another judge"
        )
    return ids
