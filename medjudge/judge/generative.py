"""The `generative` judge: reads the score from the probabilities of five tokens; a rationale may follow it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.judge.prompts import Prompt, encode_prompts, label_ids
from medjudge.judge.protocol import Assignment, no_room, scored, split_empty
from medjudge.judge.shared_prefixes import read_ends, takes_tree_attention
from medjudge.models.batching import MemoryLimit, padded
from medjudge.models.chat import with_chat_template
from medjudge.records import Judgment
from medjudge.rubrics.render import Style
from medjudge.scale import median_level

LABELS = ("1", "2", "3", "4", "5")
_MIN_RATIONALE_TOKENS = 8
_BEGUN = 2
"""The tokens of a reply before its rationale: the score and a newline."""
_CHUNK = 1024
"""The number of answers that are tokenised at a time, while the previous ones are judged."""


class Reading(NamedTuple):
    """The logits of the five labels, shape (5,), and the rationale, if one was written."""

    logits: np.ndarray
    rationale: str | None


class GenerativeSettings(NamedTuple):
    """The settings by which a generative judge reads.

    Attributes:
        max_length: The context window, in tokens.
        temperature: Divides the logits of the five labels; calibrates the probabilities.
        style: The style that the judge was trained in.
        rationale_tokens: The most tokens of the rationale after the score; 0 for none.
        batch_tokens: The tokens, padding included, of the first batches; later ones grow to what memory holds.
    """

    max_length: int
    temperature: float = 1.0
    style: Style = "score-first"
    rationale_tokens: int = 0
    batch_tokens: int = 8192

    def probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Calibrated probabilities of the five levels, (..., 5) -> (..., 5)."""
        probabilities: np.ndarray = torch.tensor(logits / self.temperature).softmax(dim=-1).numpy()
        return probabilities


class GenerativeJudge:
    """Reads the score from a causal language model's next-token probabilities.

    That takes one forward pass, and the score is defined whatever the model would write (regression-aware inference,
    TRACT, arXiv 2503.04381). A rationale is generated greedily after the score.

    Args:
        name: The judge's name.
        model: The model, on its device, in evaluation mode.
        tokenizer: The model's tokenizer; one without a chat template gets a plain one.
        settings: Window, style, calibration and batching.

    Raises:
        InputError: The tokenizer has no five different digits, or the rationale does not fit.
    """

    def __init__(
        self, name: str, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, settings: GenerativeSettings
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = with_chat_template(tokenizer)
        most = settings.rationale_tokens
        if most and not _MIN_RATIONALE_TOKENS <= most <= settings.max_length // 2:
            raise InputError(
                f"--rationale {most}: must be 0, or from {_MIN_RATIONALE_TOKENS} tokens to half of the judge's window "
                f"of {settings.max_length}"
            )
        self.settings = settings
        # What a rationale is generated for stays in memory, and pays in large batches.
        large = bool(settings.rationale_tokens)
        tokens = 4 * settings.batch_tokens if large else settings.batch_tokens
        self.memory = MemoryLimit(model.device, tokens, most=1 << 20 if large else 65_536)
        # Prompts that begin alike are read as trees; a model with another attention reads each alone.
        if model.config._attn_implementation == "sdpa":
            takes_tree_attention(model)
        self.label_ids = label_ids(tokenizer, LABELS)
        # Padding is masked, so any token will do if the tokenizer has no padding token.
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        """As `Judge.judge`. Each chunk is tokenised in the background while the one before is judged."""
        settings = self.settings
        work, empty = split_empty(assignments, self.name)
        yield from empty
        # Shared prefixes are computed once per chunk: answers to one question and questions of one rubric are adjacent.
        work.sort(key=lambda item: (item.question.category, item.question.language, item.question.id))
        chunks = [work[start : start + _CHUNK] for start in range(0, len(work), _CHUNK)]
        # The background thread has its own tokenizer: a fast tokenizer changes its state while it encodes. A single
        # chunk is not prepared in advance, and a copy takes as long as several judgments.
        own = deepcopy(self.tokenizer) if len(chunks) > 1 else self.tokenizer
        room = settings.max_length - settings.rationale_tokens - 1  # the rest is for score and rationale

        def prompts_of(chunk: Sequence[Assignment]) -> list[Prompt | None]:
            return encode_prompts(own, chunk, [room] * len(chunk), settings.style)

        with ThreadPoolExecutor(1) as background:
            pending = [background.submit(prompts_of, chunk) for chunk in chunks[:1]]
            for number, chunk in enumerate(chunks, start=1):
                prompts = pending.pop().result()
                pending += [background.submit(prompts_of, following) for following in chunks[number : number + 1]]
                fitting = []
                for assignment, prompt in zip(chunk, prompts, strict=True):
                    if prompt is None:
                        yield no_room(assignment, self.name, settings.max_length)
                    else:
                        fitting.append((assignment, prompt))
                for index, reading in self._exact_readings([prompt for _, prompt in fitting]):
                    assignment, prompt = fitting[index]
                    yield scored(
                        assignment,
                        self.name,
                        settings.probabilities(reading.logits),
                        rationale=reading.rationale,
                        answer_tokens_cut=prompt.answer_tokens_cut,
                    )

    def read(self, prompts: Sequence[Prompt]) -> list[Reading]:
        """Reads the logits of the score after each prompt, before the temperature is applied."""
        readings = dict(self._exact_readings(prompts))
        return [readings[index] for index in range(len(prompts))]

    def _exact_readings(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reading]]:
        """The index of each prompt and its reading, in any order; the labels' logits are computed in float32."""
        sequences = [prompt.input_ids for prompt in prompts]
        with exact_label_logits(self.model, self.label_ids):
            ends = read_ends(self.model, sequences, self.pad_id, self.memory)
            logits_of = ((index, logits[self.label_ids].float().cpu().numpy()) for index, logits in ends)
            if not self.settings.rationale_tokens:
                yield from ((index, Reading(logits, None)) for index, logits in logits_of)
                return
            read = dict(logits_of)
            newline = self.tokenizer("\n", add_special_tokens=False)["input_ids"][-1:]
            scores = [median_level(self.settings.probabilities(read[index])) for index in range(len(sequences))]
            begun = [[*ids, self.label_ids[score - 1], *newline] for ids, score in zip(sequences, scores, strict=True)]
            for batch, texts in self._continued(begun):
                for index, text in zip(batch, texts, strict=True):
                    yield index, Reading(read[index], text.strip() or None)

    def _continued(self, sequences: Sequence[list[int]]) -> Iterator[tuple[list[int], list[str]]]:
        """Continues begun replies greedily, up to the end token or their limit: the indices of a batch, its texts."""
        most = self.settings.rationale_tokens - _BEGUN
        ends = self.model.generation_config.eos_token_id
        stops = set(ends if isinstance(ends, list) else [ends])

        def texts(batch: Sequence[int]) -> list[str]:
            ids, mask = padded([sequences[index] for index in batch], self.pad_id, "left", self.model.device)
            with torch.inference_mode():
                tokens = self.model.generate(
                    ids,
                    attention_mask=mask,
                    max_new_tokens=most,
                    do_sample=False,
                    repetition_penalty=1.0,  # the default of some base models would suppress a repeated digit
                    use_cache=True,  # gradient checkpointing turns it off in the config of a model in training
                    pad_token_id=self.pad_id,
                )
            rows = [
                list(takewhile(lambda token: token not in stops, row)) for row in tokens[:, ids.shape[1] :].tolist()
            ]
            written: list[str] = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
            return written

        yield from self.memory.run(range(len(sequences)), [len(ids) + most for ids in sequences], texts)


@contextmanager
def exact_label_logits(model: PreTrainedModel, label_ids: Sequence[int]) -> Iterator[None]:
    """Has the output layer of a model give float32, and compute it for the labels.

    In bfloat16, logits from 8 to 16 are multiples of 1/16: two labels are then often equal, and rounding decides
    between them. Five rows of the output layer cost nothing.

    Args:
        label_ids: The tokens whose logits are computed in float32; those of the others are rounded as before.
    """
    head = model.get_output_embeddings()
    # Under ZeRO-3 a process holds no whole weight outside of a pass.
    if type(head) is not nn.Linear or not head.weight.numel():
        yield
        return
    ids = torch.tensor(label_ids, device=head.weight.device)
    weight, bias = head.weight[ids].float(), None if head.bias is None else head.bias[ids].float()

    def exact(module: nn.Module, inputs: tuple[torch.Tensor, ...], logits: torch.Tensor) -> torch.Tensor:
        if logits.dtype not in (torch.bfloat16, torch.float16):
            return logits
        logits = logits.float()
        with torch.autocast(logits.device.type, enabled=False):
            logits[..., ids] = functional.linear(inputs[0].float(), weight, bias)
        return logits

    hook: Any = head.register_forward_hook(exact)
    try:
        yield
    finally:
        hook.remove()
