"""The `generative` judge, score first: one forward pass, the verdict read from the probabilities of five tokens."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.judge.batching import batches_by_length, cut_middle
from medjudge.judge.protocol import Assignment, median_level, scored, split_empty, unscored
from medjudge.records import Judgment
from medjudge.rubrics.render import render

LABELS = ("1", "2", "3", "4", "5")
_LEAST_ANSWER = 32
_LEAST_RATIONALE = 8


class Prompt(NamedTuple):
    """A prompt up to the place where the score stands, and what of the answer did not fit."""

    input_ids: list[int]
    answer_tokens_cut: int


def score_token_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The token of each of the five labels.

    Raises:
        InputError: Two labels share their token, so that the judge could not tell them apart.
    """
    ids = [tokenizer(label, add_special_tokens=False)["input_ids"][-1] for label in LABELS]
    if len(set(ids)) != len(LABELS):
        raise InputError(
            f"{tokenizer.name_or_path}: the digits 1-5 are not five different tokens; take another base model"
        )
    return ids


def require_chat_template(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises InputError where the tokenizer has no chat template."""
    if not tokenizer.chat_template:
        raise InputError(
            f"{tokenizer.name_or_path}: the model has no chat template; take its instruction-tuned version, "
            "or add a chat_template.jinja to the model's folder"
        )


def encode_prompt(tokenizer: PreTrainedTokenizerBase, assignment: Assignment, max_length: int) -> Prompt | None:
    """Renders and tokenises the prompt of one answer, up to the score.

    Args:
        max_length: The most tokens of the prompt. An answer that does not fit loses its middle; rubric, question,
            reference and checklist are never cut.

    Returns:
        The prompt; None where everything but the answer already leaves it no room.
    """
    answer = assignment.answer.text
    ids = _prompt_ids(tokenizer, assignment, answer)
    if len(ids) <= max_length:
        return Prompt(ids, 0)
    tokens = tokenizer(answer, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    room = max_length - (len(ids) - len(tokens))
    while room >= _LEAST_ANSWER:
        kept, left_out = cut_middle(tokens, room)
        head = (room + 1) // 2
        shortened = (
            f"{tokenizer.decode(kept[:head])}\n[... {left_out} tokens left out ...]\n{tokenizer.decode(kept[head:])}"
        )
        ids = _prompt_ids(tokenizer, assignment, shortened)
        if len(ids) <= max_length:
            return Prompt(ids, left_out)
        # The note on what was left out and the seams of the decoded halves cost a few tokens: give way by as many.
        room -= len(ids) - max_length
    return None


def _prompt_ids(tokenizer: PreTrainedTokenizerBase, assignment: Assignment, answer: str) -> list[int]:
    prompt = render(assignment.question, assignment.earlier, answer, "score-first", _control_tokens(tokenizer))
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    # enable_thinking: templates of reasoning models (Qwen3) then close the thinking part, so that the score comes next.
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return [token.content for token in tokenizer.added_tokens_decoder.values()]


class GenerativeJudge:
    """Reads the score from a causal language model's next-token probabilities.

    Args:
        name: The judge's name.
        model: The model, on its device, in evaluation mode.
        tokenizer: Its tokenizer, with a chat template.
        max_length: The window in tokens.
        temperature: Divides the logits of the five labels, so that probabilities are calibrated.
        batch_tokens: The most tokens, padding included, in one forward pass.
        rationale_tokens: The most tokens of a rationale written after the score; 0 for none.

    Raises:
        InputError: The tokenizer has no chat template, or no five different digits.
    """

    def __init__(
        self,
        name: str,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        temperature: float = 1.0,
        batch_tokens: int = 8192,
        rationale_tokens: int = 0,
    ) -> None:
        require_chat_template(tokenizer)
        if rationale_tokens and not _LEAST_RATIONALE <= rationale_tokens <= max_length // 2:
            raise InputError(
                f"--rationale {rationale_tokens}: take 0, or from {_LEAST_RATIONALE} tokens to half of the judge's "
                f"window of {max_length}"
            )
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.temperature = temperature
        self.batch_tokens = batch_tokens
        self.rationale_tokens = rationale_tokens
        self.label_ids = score_token_ids(tokenizer)
        # Padding is masked, so that any token may stand for it where the tokenizer names none.
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        prompts: list[tuple[Assignment, Prompt]] = []
        for one in tqdm(work, desc="reading answers", unit="answer", disable=None, leave=False):
            prompt = encode_prompt(self.tokenizer, one, self.max_length - self.rationale_tokens - 1)
            if prompt is None:
                yield unscored(
                    one,
                    self.name,
                    f"rubric, question and reference leave no room in the window of {self.max_length} tokens",
                )
            else:
                prompts.append((one, prompt))
        with tqdm(total=len(prompts), desc=f"judging ({self.name})", unit="answer", disable=None) as bar:
            for batch in batches_by_length([len(prompt.input_ids) for _, prompt in prompts], self.batch_tokens):
                yield from self._judged([prompts[index] for index in batch])
                bar.update(len(batch))

    def _judged(self, batch: Sequence[tuple[Assignment, Prompt]]) -> Iterator[Judgment]:
        ids, mask = self._left_padded([prompt.input_ids for _, prompt in batch])
        levels = self._probabilities(ids, mask)
        rationales = self._rationales(ids, mask, levels) if self.rationale_tokens else [None] * len(batch)
        for (one, prompt), row, rationale in zip(batch, levels, rationales, strict=True):
            yield scored(one, self.name, row, rationale=rationale, answer_tokens_cut=prompt.answer_tokens_cut)

    def _left_padded(self, sequences: Sequence[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        longest = max(map(len, sequences))
        ids = torch.tensor([[self.pad_id] * (longest - len(one)) + one for one in sequences], device=self.model.device)
        mask = torch.tensor(
            [[0] * (longest - len(one)) + [1] * len(one) for one in sequences], device=self.model.device
        )
        return ids, mask

    def _probabilities(self, ids: torch.Tensor, mask: torch.Tensor) -> np.ndarray:
        """(batch, length) -> (batch, 5)."""
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        with torch.inference_mode():
            logits = self.model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1).logits[:, -1]
        chosen = logits[:, self.label_ids].float() / self.temperature
        return chosen.softmax(dim=-1).cpu().numpy()

    def _rationales(self, ids: torch.Tensor, mask: torch.Tensor, levels: np.ndarray) -> list[str | None]:
        picked = [median_level(row) - 1 for row in levels]
        newline = self.tokenizer("\n", add_special_tokens=False)["input_ids"][-1:]
        tail = torch.tensor([[self.label_ids[level], *newline] for level in picked], device=ids.device)
        started = torch.cat([ids, tail], dim=1)
        with torch.inference_mode():
            written = self.model.generate(
                started,
                attention_mask=torch.cat([mask, torch.ones_like(tail)], dim=1),
                max_new_tokens=self.rationale_tokens - tail.shape[1],
                do_sample=False,
                pad_token_id=self.pad_id,
            )
        texts = self.tokenizer.batch_decode(written[:, started.shape[1] :], skip_special_tokens=True)
        return [text.strip() or None for text in texts]
