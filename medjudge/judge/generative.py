"""The `generative` judge: reads the score from the probabilities of five tokens, directly or after a rationale."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.judge.label_logits import exact_label_logits
from medjudge.judge.prompt_packs import read_in_packs, takes_tree_attention
from medjudge.judge.prompts import Prompt, encode_prompts, label_ids, token_ids
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.judge.shared_prefixes import CACHE, Known, can_share, prefix_forest, read_to_the_end
from medjudge.languages.texts import languages_of
from medjudge.models.batching import MemoryLimit
from medjudge.models.chat import with_chat_template
from medjudge.models.padding import pad_left
from medjudge.models.tree_attention import TREE_ATTENTION
from medjudge.records import ErrorKind, Judgment
from medjudge.rubrics.render import Style
from medjudge.rubrics.verdict import before_score, judge_replies
from medjudge.scale import median_level

LABELS = ("1", "2", "3", "4", "5")
_MIN_RATIONALE_TOKENS = 8
_REASON_TOKENS = 512
_CHUNK = 1024
"""How many answers are tokenised at a time, while the previous ones are judged."""


def reason_tokens(max_length: int) -> int:
    """The most tokens of a rationale before the score: in training, and by default in judging."""
    return min(_REASON_TOKENS, max_length // 4)


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


def before_score_ids(tokenizer: PreTrainedTokenizerBase, rationale: str, last_line: str, most: int) -> list[int]:
    """The tokens between a reason-first prompt and its score: the rationale, and "Score: " on a line of its own.

    Args:
        rationale: Empty for a score without reasons.
        last_line: The line from `score_line`.
        most: The most tokens of the rationale; the rest is dropped.
    """
    if not rationale:
        return token_ids(tokenizer, last_line)
    return [*token_ids(tokenizer, rationale)[:most], *token_ids(tokenizer, f"\n{last_line}")]


class GenerativeSettings(NamedTuple):
    """How a generative judge reads.

    Attributes:
        max_length: The context window, in tokens.
        temperature: Divides the logits of the five labels; calibrates the probabilities.
        style: The style that the judge was trained in.
        rationale_tokens: The most tokens of the rationale. Score first, a rationale is written after the score, and
            only if this is not 0; reason first, 0 means `reason_tokens(max_length)`.
        batch_tokens: The tokens, padding included, of the first batches; later ones grow to what memory holds.
    """

    max_length: int
    temperature: float = 1.0
    style: Style = "score-first"
    rationale_tokens: int = 0
    batch_tokens: int = 8192


def with_rationale_tokens(settings: GenerativeSettings) -> GenerativeSettings:
    """The settings with the default length of a reason-first judge's rationales.

    Raises:
        InputError: A rationale does not fit in the window.
    """
    max_length, rationale_tokens = settings.max_length, settings.rationale_tokens
    if rationale_tokens and not _MIN_RATIONALE_TOKENS <= rationale_tokens <= max_length // 2:
        raise InputError(
            f"--rationale {rationale_tokens}: must be 0, or from {_MIN_RATIONALE_TOKENS} tokens to half of the "
            f"judge's window of {max_length}"
        )
    if settings.style == "reason-first" and not rationale_tokens:
        return settings._replace(rationale_tokens=reason_tokens(max_length))
    return settings


class GenerativeJudge:
    """Reads the score from a causal language model's next-token probabilities.

    A score-first judge needs one forward pass. A reason-first judge generates its rationale greedily, after which it
    reads "Score: " and the score. The score is therefore defined even if the rationale has no end, or states no score
    that can be parsed (regression-aware inference, TRACT, arXiv 2503.04381).

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
        self.settings = settings = with_rationale_tokens(settings)
        self.memory = memory_of(model, settings)
        self.shares = can_share(model)
        # Where windows keep a cache from being continued, texts of a tree are read in one pass instead.
        on_its_own = model.config._attn_implementation == "sdpa" and not self.shares
        self.packs = model.config._attn_implementation == TREE_ATTENTION or (on_its_own and takes_tree_attention(model))
        self.label_ids = score_token_ids(tokenizer)
        # Padding is masked, so any token will do if the tokenizer has no padding token.
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        for chunk in prompts_ahead(self.name, self.tokenizer, self.settings, assignments, _CHUNK):
            if not isinstance(chunk, list):
                yield chunk
                continue
            score_lines = [score_line(assignment) for assignment, _ in chunk]
            for index, reading in self._exact_readings([prompt for _, prompt in chunk], score_lines):
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

    def read(self, prompts: Sequence[Prompt], score_lines: Sequence[str]) -> list[Reading]:
        """Reads the logits of the score after each prompt, before the temperature is applied.

        Args:
            prompts: Prompts from `encode_prompt`.
            score_lines: The line from `score_line` for each prompt.
        """
        readings = dict(self._exact_readings(prompts, score_lines))
        return [readings[index] for index in range(len(prompts))]

    def _exact_readings(self, prompts: Sequence[Prompt], score_lines: Sequence[str]) -> Iterator[tuple[int, Reading]]:
        """As `_readings`, with the labels' logits in float32."""
        with exact_label_logits(self.model, self.label_ids):
            yield from self._readings(prompts, score_lines)

    def _readings(self, prompts: Sequence[Prompt], score_lines: Sequence[str]) -> Iterator[tuple[int, Reading]]:
        """Yields (index of the prompt, its reading), in any order."""
        sequences = [prompt.input_ids for prompt in prompts]
        reasons_first = self.settings.style == "reason-first"

        def at_end(logits: torch.Tensor, known: Known, of: Sequence[int]) -> list[Reading]:
            if reasons_first:
                return self._read_after_reasons(logits, known, [score_lines[index] for index in of])
            return self._read_scores(logits, known)

        if self.packs and not self.settings.rationale_tokens:
            for index, logits in read_in_packs(self.model, sequences, self.memory):
                yield index, Reading(self._score_logits(logits[None])[0], None)
            return
        if self.shares:
            # "Score: " is read after the rationale, and takes a few tokens more.
            new_tokens = self.settings.rationale_tokens + _MIN_RATIONALE_TOKENS * reasons_first
            forest = prefix_forest(sequences)
            yield from read_to_the_end(self.model, forest, self.pad_id, self.memory, at_end, new_tokens)
            return
        new_tokens = self.settings.rationale_tokens if reasons_first else 0
        for batch, readings in self.memory.run(
            range(len(prompts)),
            [len(ids) + new_tokens for ids in sequences],
            lambda batch: self._read([sequences[index] for index in batch], [score_lines[index] for index in batch]),
        ):
            yield from zip(batch, readings, strict=True)

    def _read(self, sequences: Sequence[list[int]], score_lines: Sequence[str]) -> list[Reading]:
        """Reads one batch without shared prefixes; a reason-first judge generates the rationales first."""
        rationales: list[str] = [""] * len(sequences)
        if self.settings.style == "reason-first":
            rationales = [before_score(text) for text in self._continued(sequences, self.settings.rationale_tokens)]
            sequences = [
                ids + before_score_ids(self.tokenizer, rationale, line, self.settings.rationale_tokens)
                for ids, rationale, line in zip(sequences, rationales, score_lines, strict=True)
            ]
        ids, mask = pad_left(sequences, self.pad_id, self.model.device)
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        with torch.inference_mode():
            out = self.model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)
        rows = self._score_logits(out.logits[:, -1])
        if self.settings.style != "reason-first" and self.settings.rationale_tokens:
            with_scores = [[*ids, *self._score_ids(row)] for ids, row in zip(sequences, rows, strict=True)]
            rationales = self._continued(with_scores, self.settings.rationale_tokens - len(self._score_ids(rows[0])))
        return [Reading(row, text.strip() or None) for row, text in zip(rows, rationales, strict=True)]

    def _read_scores(self, logits: torch.Tensor, known: Known) -> list[Reading]:
        """Score first: reads the scores of prompts that are in the cache, and generates the rationales after them.

        Args:
            logits: The logits of the next token, shape (rows, vocabulary).
            known: The cache of the prompts.
        """
        rows = self._score_logits(logits)
        if not self.settings.rationale_tokens:
            return [Reading(row, None) for row in rows]
        scores = torch.tensor([self._score_ids(row) for row in rows], device=self.model.device)
        written, _ = self._generated_after(known, scores, self.settings.rationale_tokens - scores.shape[1])
        return [Reading(row, text.strip() or None) for row, text in zip(rows, self._texts(written), strict=True)]

    def _read_after_reasons(self, logits: torch.Tensor, known: Known, lines: Sequence[str]) -> list[Reading]:
        """Reason first: generates the rationales of prompts that are in the cache, and reads the scores after them.

        What the cache holds of a rationale is not read again: only "Score: ", and what does not have the same tokens
        when the rationale is tokenised as in training.

        Args:
            logits: The logits of the next token, shape (rows, vocabulary).
            known: The cache of the prompts.
            lines: The line from `score_line` for each row.
        """
        most = self.settings.rationale_tokens
        first = logits.argmax(dim=-1, keepdim=True)
        written, known = self._generated_after(known, first, most - 1)
        written = torch.cat([first, written], dim=1)
        rationales = [before_score(text) for text in self._texts(written)]
        replies = [
            before_score_ids(self.tokenizer, rationale, line, most)
            for rationale, line in zip(rationales, lines, strict=True)
        ]
        columns = known.mask.shape[1]
        in_cache = known.cache.get_seq_length() - columns  # of what was written
        same = [_same(row, reply, in_cache) for row, reply in zip(written.tolist(), replies, strict=True)]
        ids, new = pad_left([reply[n:] for n, reply in zip(same, replies, strict=True)], self.pad_id, logits.device)
        kept = torch.arange(in_cache, device=logits.device) < torch.tensor(same, device=logits.device)[:, None]
        mask = torch.cat([known.mask, kept.long(), new], dim=1)
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)[:, -ids.shape[1] :]
        with torch.inference_mode():
            out = self.model(
                ids,
                attention_mask=mask,
                position_ids=positions,
                use_cache=True,
                logits_to_keep=1,
                **{CACHE: known.cache},
            )
        rows = self._score_logits(out.logits[:, -1])
        return [Reading(row, text.strip() or None) for row, text in zip(rows, rationales, strict=True)]

    def _score_logits(self, logits: torch.Tensor) -> np.ndarray:
        """Selects the logits of the five labels, (rows, vocabulary) -> (rows, 5)."""
        rows: np.ndarray = logits[:, self.label_ids].float().cpu().numpy()
        return rows

    def _score_ids(self, logits: np.ndarray) -> list[int]:
        """The first tokens of a score-first reply: the score and a newline, after which the rationale follows."""
        newline = self.tokenizer("\n", add_special_tokens=False)["input_ids"][-1:]
        return [self.label_ids[median_level(self._probabilities(logits)) - 1], *newline]

    def _continued(self, sequences: Sequence[list[int]], most: int) -> list[str]:
        """Continues each sequence greedily, up to the end token or for `most` tokens."""
        ids, mask = pad_left(sequences, self.pad_id, self.model.device)
        return self._texts(self._generated(ids, mask, most).sequences[:, ids.shape[1] :])

    def _generated_after(self, known: Known, start: torch.Tensor, most: int) -> tuple[torch.Tensor, Known]:
        """Continues prompts that are in the cache greedily, each after the tokens `start`, shape (rows, n).

        Returns:
            The tokens after `start`, and the prompts with a cache that goes on to the last token but one.
        """
        # generate() counts columns, so the ids need one for each cached token. Their values are not used.
        cached = torch.full_like(known.mask, self.pad_id)
        ids, mask = torch.cat([cached, start], dim=1), torch.cat([known.mask, torch.ones_like(start)], dim=1)
        out = self._generated(ids, mask, most, **{CACHE: known.cache})
        return out.sequences[:, ids.shape[1] :], Known(out[CACHE], known.mask)

    def _texts(self, ids: torch.Tensor) -> list[str]:
        """What generated tokens say up to the one that ends a text, shape (rows, n)."""
        config = self.model.generation_config
        ends = None if config is None else config.eos_token_id
        stops = set(ends if isinstance(ends, list) else [ends])
        rows = [list(takewhile(lambda token: token not in stops, row)) for row in ids.tolist()]
        texts: list[str] = self.tokenizer.batch_decode(rows, skip_special_tokens=True)
        return texts

    def _generated(self, ids: torch.Tensor, mask: torch.Tensor, most: int, **known: DynamicCache) -> Any:
        with torch.inference_mode():
            return self.model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=most,
                do_sample=False,
                repetition_penalty=1.0,  # the default of some base models would suppress a repeated digit
                use_cache=True,  # gradient checkpointing turns it off in the config of a model in training
                pad_token_id=self.pad_id,
                return_dict_in_generate=True,
                **known,
            )


def _same(written: Sequence[int], reply: Sequence[int], most: int) -> int:
    """How many tokens two sequences share at their beginnings, at most `most`; one of `reply` is left."""
    most = min(most, len(written), len(reply) - 1)
    return next((place for place in range(most) if written[place] != reply[place]), most)


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
    """What keys and values of one token take in the cache."""
    text = config.get_text_config()
    heads = text.num_attention_heads
    head_dim = getattr(text, "head_dim", None) or text.hidden_size // heads
    key_heads = getattr(text, "num_key_value_heads", None) or heads
    return int(2 * text.num_hidden_layers * key_heads * head_dim * dtype.itemsize)


def score_line(assignment: Assignment) -> str:
    """The beginning of the last line of a reason-first reply ("Score: "), in the language of the question."""
    return judge_replies(assignment.question.language, languages_of(assignment.scheme)).score_line


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
        lines = [score_line(assignment) for assignment in chunk]
        rooms = {line: prompt_room(own, settings, line) for line in set(lines)}
        return encode_prompts(own, chunk, [rooms[line] for line in lines], settings.style)

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


def prompt_room(tokenizer: PreTrainedTokenizerBase, settings: GenerativeSettings, last_line: str) -> int:
    """How many tokens of the window the prompt may use; the others are for rationale and score.

    Args:
        last_line: The line from `score_line`.
    """
    room = settings.max_length - settings.rationale_tokens - 1
    if settings.style != "reason-first":
        return room
    return room - len(token_ids(tokenizer, f"\n{last_line}"))
