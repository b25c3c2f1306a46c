"""The `generative` judge: reads the score from the probabilities of five tokens; a rationale may follow it."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import takewhile
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.judge.label_logits import exact_label_logits
from medjudge.judge.prompts import Prompt, encode_prompts, label_ids
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.judge.shared_prefixes import read_ends, takes_tree_attention
from medjudge.models.batching import MemoryLimit, pad_left
from medjudge.models.chat import with_chat_template
from medjudge.records import ErrorKind, Judgment
from medjudge.rubrics.render import Style
from medjudge.scale import median_level

LABELS = ("1", "2", "3", "4", "5")
_MIN_RATIONALE_TOKENS = 8
_CHUNK = 1024
"""The number of answers that are tokenised at a time, while the previous ones are judged."""


class Reading(NamedTuple):
    """The logits of the five labels, shape (5,), and the rationale, if one was written."""

    logits: np.ndarray
    rationale: str | None


def score_token_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The token id of each of the five labels.

    Raises:
        InputError: The labels are not five different tokens, so the score cannot be read.
    """
    return label_ids(tokenizer, LABELS)


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


def require_room_for_rationale(settings: GenerativeSettings) -> None:
    """Raises InputError where a rationale does not fit in the window."""
    if settings.rationale_tokens and not _MIN_RATIONALE_TOKENS <= settings.rationale_tokens <= settings.max_length // 2:
        raise InputError(
            f"--rationale {settings.rationale_tokens}: must be 0, or from {_MIN_RATIONALE_TOKENS} tokens to half of "
            f"the judge's window of {settings.max_length}"
        )


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
        require_room_for_rationale(settings)
        self.settings = settings
        self.memory = memory_of(model, settings)
        # Prompts that begin alike are read as trees; a model with another attention reads each alone.
        if model.config._attn_implementation == "sdpa":
            takes_tree_attention(model)
        self.label_ids = score_token_ids(tokenizer)
        # Padding is masked, so any token will do if the tokenizer has no padding token.
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        for chunk in prompts_ahead(self.name, self.tokenizer, self.settings, assignments, _CHUNK):
            if not isinstance(chunk, list):
                yield chunk
                continue
            for index, reading in self._exact_readings([prompt for _, prompt in chunk]):
                assignment, prompt = chunk[index]
                yield scored(
                    assignment,
                    self.name,
                    self._probabilities(reading.logits),
                    rationale=reading.rationale,
                    answer_tokens_cut=prompt.answer_tokens_cut,
                )

    def _probabilities(self, logits: np.ndarray) -> np.ndarray:
        """Calibrated probabilities of the five levels, (..., 5) -> (..., 5)."""
        probabilities: np.ndarray = torch.tensor(logits / self.settings.temperature).softmax(dim=-1).numpy()
        return probabilities

    def read(self, prompts: Sequence[Prompt]) -> list[Reading]:
        """Reads the logits of the score after each prompt, before the temperature is applied."""
        readings = dict(self._exact_readings(prompts))
        return [readings[index] for index in range(len(prompts))]

    def _exact_readings(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reading]]:
        """As `_readings`, with the labels' logits in float32."""
        with exact_label_logits(self.model, self.label_ids):
            yield from self._readings(prompts)

    def _readings(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reading]]:
        """Yields (index of the prompt, its reading), in any order."""
        sequences = [prompt.input_ids for prompt in prompts]
        most = self.settings.rationale_tokens
        if most:
            read = dict(self._ends(sequences))
            with_scores = [[*ids, *self._score_ids(read[index])] for index, ids in enumerate(sequences)]
            for batch, texts in self._continued(with_scores, most - len(self._score_ids(read[0])) if read else 0):
                for index, text in zip(batch, texts, strict=True):
                    yield index, Reading(read[index], text.strip() or None)
        else:
            yield from ((index, Reading(logits, None)) for index, logits in self._ends(sequences))

    def _ends(self, sequences: Sequence[list[int]]) -> Iterator[tuple[int, np.ndarray]]:
        """The logits of the five labels after each sequence, in any order."""
        for index, logits in read_ends(self.model, sequences, self.pad_id, self.memory):
            yield index, self._score_logits(logits[None])[0]

    def _score_logits(self, logits: torch.Tensor) -> np.ndarray:
        """Selects the logits of the five labels, (rows, vocabulary) -> (rows, 5)."""
        rows: np.ndarray = logits[:, self.label_ids].float().cpu().numpy()
        return rows

    def _score_ids(self, logits: np.ndarray) -> list[int]:
        """The first tokens of a score-first reply: the score and a newline, after which the rationale follows."""
        newline = self.tokenizer("\n", add_special_tokens=False)["input_ids"][-1:]
        return [self.label_ids[median_level(self._probabilities(logits)) - 1], *newline]

    def _continued(self, sequences: Sequence[list[int]], most: int) -> Iterator[tuple[list[int], list[str]]]:
        """Continues sequences greedily, up to the end token or for `most` tokens: the indices of a batch, its texts."""

        def texts(batch: Sequence[int]) -> list[str]:
            ids, mask = pad_left([sequences[index] for index in batch], self.pad_id, self.model.device)
            return self._texts(self._generated(ids, mask, most)[:, ids.shape[1] :])

        lengths = [len(ids) + most for ids in sequences]
        yield from self.memory.run(range(len(sequences)), lengths, texts)

    def _texts(self, ids: torch.Tensor) -> list[str]:
        """The text of generated tokens up to the one that ends it, shape (rows, n)."""
        config = self.model.generation_config
        ends = None if config is None else config.eos_token_id
        stops = set(ends if isinstance(ends, list) else [ends])
        rows = [list(takewhile(lambda token: token not in stops, row)) for row in ids.tolist()]
        texts: list[str] = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        return texts

    def _generated(self, ids: torch.Tensor, mask: torch.Tensor, most: int) -> torch.Tensor:
        with torch.inference_mode():
            tokens: torch.Tensor = self.model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=most,
                do_sample=False,
                repetition_penalty=1.0,  # the default of some base models would suppress a repeated digit
                use_cache=True,  # gradient checkpointing turns it off in the config of a model in training
                pad_token_id=self.pad_id,
            )
        return tokens


def memory_of(model: PreTrainedModel, settings: GenerativeSettings) -> MemoryLimit:
    """The limit of a judge's batches. What a rationale is generated for stays in memory, and pays in large batches.

    On a GPU such batches start with what fits in two fifths of the free memory, on a CPU with four times the tokens.
    """
    if not settings.rationale_tokens:
        return MemoryLimit(model.device, settings.batch_tokens)
    tokens = 4 * settings.batch_tokens
    if model.device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(model.device)
        tokens = max(settings.batch_tokens, int(0.4 * free / cache_bytes(model.config, model.dtype)))
    return MemoryLimit(model.device, tokens, most=max(tokens, 1 << 20))


def cache_bytes(config: PreTrainedConfig, dtype: torch.dtype) -> int:
    """The bytes of one token's keys and values in the cache."""
    text = config.get_text_config()
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    key_heads = getattr(text, "num_key_value_heads", None) or heads
    return int(2 * text.num_hidden_layers * key_heads * head_dim * dtype.itemsize)


def prompts_ahead(
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    settings: GenerativeSettings,
    assignments: Sequence[Assignment],
    size: int,
) -> Iterator[Judgment | list[tuple[Assignment, Prompt]]]:
    """Chunks of answers with their prompts, tokenised in the background while the chunk before is judged.

    Args:
        size: The most answers of a chunk.

    Yields:
        The judgments of answers that are empty or do not fit, and lists of the others.
    """
    work, empty = split_empty(assignments, name)
    yield from empty
    # Shared prefixes are computed once per chunk: answers to one question and questions of one rubric are adjacent.
    work.sort(key=lambda item: (item.question.category, item.question.language, item.question.id))
    chunks = [work[start : start + size] for start in range(0, len(work), size)]
    # The background thread has its own tokenizer: a fast tokenizer changes its state while it encodes. A single chunk
    # is not prepared in advance, and a copy takes as long as several judgments.
    own = deepcopy(tokenizer) if len(chunks) > 1 else tokenizer

    def prompts_of(chunk: Sequence[Assignment]) -> list[Prompt | None]:
        return encode_prompts(own, chunk, [prompt_room(settings)] * len(chunk), settings.style)

    with ThreadPoolExecutor(1) as background:
        pending = [background.submit(prompts_of, chunk) for chunk in chunks[:1]]
        for number, chunk in enumerate(chunks, start=1):
            prompts = pending.pop().result()
            pending += [background.submit(prompts_of, following) for following in chunks[number : number + 1]]
            fitting = []
            for assignment, prompt in zip(chunk, prompts, strict=True):
                if prompt is None:
                    window = f"the window of {settings.max_length} tokens"
                    reason = f"rubric, question and reference leave no room in {window}"
                    yield unscored(assignment, name, ErrorKind.WINDOW, reason)
                else:
                    fitting.append((assignment, prompt))
            yield fitting


def prompt_room(settings: GenerativeSettings) -> int:
    """The number of the window's tokens that the prompt may use; the others are for score and rationale."""
    return settings.max_length - settings.rationale_tokens - 1
