"""The `generative` judge: the verdict is read from the probabilities of five tokens, at once or after a rationale."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.judge.shared_prefixes import Known, can_share, prefix_forest, read_to_the_end
from medjudge.languages.texts import languages_of
from medjudge.models.batching import MemoryLimit, cut_middle
from medjudge.models.padding import pad_left
from medjudge.records import ErrorKind, Judgment
from medjudge.rubrics.render import Style, render
from medjudge.rubrics.verdict import before_score, judge_replies
from medjudge.scale import median_level

LABELS = ("1", "2", "3", "4", "5")
_LEAST_ANSWER = 32
_LEAST_RATIONALE = 8
_REASON_TOKENS = 512
_CHUNK = 1024
"""How many answers are tokenised at a time, while those before them are judged."""


def reason_tokens(max_length: int) -> int:
    """The most tokens of a rationale before the score, in training and, unless told otherwise, in judging."""
    return min(_REASON_TOKENS, max_length // 4)


class Prompt(NamedTuple):
    """A prompt up to the place where the score stands, and what of the answer did not fit."""

    input_ids: list[int]
    answer_tokens_cut: int


class Reading(NamedTuple):
    """The logits of the five labels, shape (5,), and the rationale that stands before them."""

    logits: np.ndarray
    rationale: str | None


def score_token_ids(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The token of each of the five labels.

    Raises:
        InputError: A label is no token of its own, so that the judge could not be read, or could not tell two apart.
    """
    ids = [tokenizer(label, add_special_tokens=False)["input_ids"][-1] for label in LABELS]
    # The last token: some tokenizers put a mark for the beginning of a word before it.
    if [tokenizer.decode([one]).strip() for one in ids] != list(LABELS):
        raise InputError(
            f"{tokenizer.name_or_path}: the digits 1-5 are not five different tokens; take another base model"
        )
    return ids


def before_score_ids(tokenizer: PreTrainedTokenizerBase, rationale: str, last_line: str, most: int) -> list[int]:
    """The tokens between a reason-first prompt and its score: the rationale, and "Score: " on a line of its own.

    Args:
        rationale: Empty for a score without reasons.
        last_line: From `score_line`.
        most: The most tokens of the rationale; the rest is cut off.
    """
    if not rationale:
        return token_ids(tokenizer, last_line)
    return [*token_ids(tokenizer, rationale)[:most], *token_ids(tokenizer, f"\n{last_line}")]


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """The tokens of a text, without any that the tokenizer adds; one that spells a control token is not one."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return ids


def require_chat_template(tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises InputError where the tokenizer has no chat template."""
    if not tokenizer.chat_template:
        raise InputError(
            f"{tokenizer.name_or_path}: the model has no chat template; take its instruction-tuned version, "
            "or add a chat_template.jinja to the model's folder"
        )


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase, assignment: Assignment, max_length: int, style: Style = "score-first"
) -> Prompt | None:
    """Renders and tokenises the prompt of one answer, up to the reply.

    Args:
        max_length: The most tokens of the prompt. An answer that does not fit loses its middle; rubric, question,
            reference and checklist are never cut.
        style: Whether the reply begins with the score or ends with it.

    Returns:
        The prompt; None where everything but the answer already leaves it no room.
    """
    answer = assignment.answer.text
    ids = _prompt_ids(tokenizer, assignment, answer, style)
    if len(ids) <= max_length:
        return Prompt(ids, 0)
    tokens = token_ids(tokenizer, answer)
    room = max_length - (len(ids) - len(tokens))
    while room >= _LEAST_ANSWER:
        kept, left_out = cut_middle(tokens, room)
        head = (room + 1) // 2
        shortened = (
            f"{tokenizer.decode(kept[:head])}\n[... {left_out} tokens left out ...]\n{tokenizer.decode(kept[head:])}"
        )
        ids = _prompt_ids(tokenizer, assignment, shortened, style)
        if len(ids) <= max_length:
            return Prompt(ids, left_out)
        # The note on what was left out and the seams of the decoded halves cost a few tokens: give way by as many.
        room -= len(ids) - max_length
    return None


def _prompt_ids(tokenizer: PreTrainedTokenizerBase, assignment: Assignment, answer: str, style: Style) -> list[int]:
    control_tokens = _control_tokens(tokenizer)
    prompt = render(assignment.question, assignment.earlier, answer, style, control_tokens, assignment.scheme)
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    # enable_thinking: templates of reasoning models (Qwen3) then close the thinking part, so that the reply comes next.
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, enable_thinking=False)
    ids: list[int] = tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
    return ids


def _control_tokens(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    return [token.content for token in tokenizer.added_tokens_decoder.values()]


class GenerativeJudge:
    """Reads the score from a causal language model's next-token probabilities.

    A score-first judge needs one forward pass. A reason-first judge writes its rationale, greedily, and is read in one
    more pass over prompt, rationale and "Score: " - so that a rationale without an end, or with a score that no pattern
    finds, is read like any other (regression-aware inference, TRACT, arXiv 2503.04381).

    Args:
        name: The judge's name.
        model: The model, on its device, in evaluation mode.
        tokenizer: Its tokenizer, with a chat template.
        max_length: The window in tokens.
        temperature: Divides the logits of the five labels, so that probabilities are calibrated.
        batch_tokens: The tokens, padding included, of the first forward passes; later ones find what memory holds.
        rationale_tokens: The most tokens of the rationale: score first, one is written after the score only where this
            is not 0; reason first, 0 stands for `reason_tokens(max_length)`.
        style: The style that the judge was trained in.

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
        style: Style = "score-first",
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
        self.memory = MemoryLimit(model.device, batch_tokens)
        self.shares = can_share(model)
        self.rationale_tokens = rationale_tokens
        self.style = style
        if style == "reason-first" and not rationale_tokens:
            self.rationale_tokens = reason_tokens(max_length)
        self.label_ids = score_token_ids(tokenizer)
        # Padding is masked, so that any token may stand for it where the tokenizer names none.
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        # What answers share is read once a chunk: answers to one question, questions of one rubric stand together.
        work.sort(key=lambda one: (one.question.category, one.question.language, one.question.id))
        chunks = [work[start : start + _CHUNK] for start in range(0, len(work), _CHUNK)]
        # The thread that works ahead has a tokenizer of its own: a fast one changes its state while it encodes. Of one
        # chunk nothing is done ahead, and a copy takes as long as some judgments.
        reader = deepcopy(self.tokenizer) if len(chunks) > 1 else self.tokenizer
        with (
            tqdm(total=len(work), desc=f"judging ({self.name})", unit="answer", disable=None) as bar,
            ThreadPoolExecutor(1) as ahead,
        ):
            waiting = ahead.submit(self._prompts, reader, chunks[0]) if chunks else None
            for number, chunk in enumerate(chunks, start=1):
                assert waiting is not None
                prompts = waiting.result()
                if number < len(chunks):
                    waiting = ahead.submit(self._prompts, reader, chunks[number])
                for judgment in self._judged(chunk, prompts):
                    yield judgment
                    bar.update()

    def _prompts(self, tokenizer: PreTrainedTokenizerBase, work: Sequence[Assignment]) -> list[Prompt | None]:
        rooms = [
            prompt_room(tokenizer, self.max_length, self.style, self.rationale_tokens, score_line(one)) for one in work
        ]
        return [encode_prompt(tokenizer, one, room, self.style) for one, room in zip(work, rooms, strict=True)]

    def _judged(self, work: Sequence[Assignment], prompts: Sequence[Prompt | None]) -> Iterator[Judgment]:
        fitting: list[tuple[Assignment, Prompt]] = []
        for one, prompt in zip(work, prompts, strict=True):
            if prompt is None:
                reason = f"rubric, question and reference leave no room in the window of {self.max_length} tokens"
                yield unscored(one, self.name, ErrorKind.WINDOW, reason)
            else:
                fitting.append((one, prompt))
        score_lines = [score_line(one) for one, _ in fitting]
        for index, reading in self._readings([prompt for _, prompt in fitting], score_lines):
            one, prompt = fitting[index]
            row = self._levels(reading.logits)
            yield scored(one, self.name, row, rationale=reading.rationale, answer_tokens_cut=prompt.answer_tokens_cut)

    def _levels(self, logits: np.ndarray) -> np.ndarray:
        """Calibrated probabilities of the five levels; logits and they are of shape (..., 5)."""
        levels: np.ndarray = torch.tensor(logits / self.temperature).softmax(dim=-1).numpy()
        return levels

    def read(self, prompts: Sequence[Prompt], score_lines: Sequence[str]) -> list[Reading]:
        """Reads the score's logits, not yet divided by the temperature, after each prompt."""
        readings = dict(self._readings(prompts, score_lines))
        return [readings[index] for index in range(len(prompts))]

    def _readings(self, prompts: Sequence[Prompt], score_lines: Sequence[str]) -> Iterator[tuple[int, Reading]]:
        """Reads each prompt; yields its place with what was read."""
        sequences = [prompt.input_ids for prompt in prompts]
        if self.style == "score-first" and self.shares:
            forest = prefix_forest(sequences)
            yield from read_to_the_end(
                self.model, forest, self.pad_id, self.memory, self._read_scores, bool(self.rationale_tokens)
            )
            return
        written = self.rationale_tokens if self.style == "reason-first" else 0
        for batch, found in self.memory.run(
            range(len(prompts)),
            [len(ids) + written for ids in sequences],
            lambda batch: self._read([sequences[index] for index in batch], [score_lines[index] for index in batch]),
        ):
            yield from zip(batch, found, strict=True)

    def _read(self, sequences: Sequence[list[int]], score_lines: Sequence[str]) -> list[Reading]:
        """One batch whose prompts share nothing; reason first, the rationales are written before."""
        rationales: list[str] = [""] * len(sequences)
        if self.style == "reason-first":
            rationales = [before_score(text) for text in self._written(sequences, self.rationale_tokens)]
            sequences = [
                ids + before_score_ids(self.tokenizer, rationale, line, self.rationale_tokens)
                for ids, rationale, line in zip(sequences, rationales, score_lines, strict=True)
            ]
        ids, mask = pad_left(sequences, self.pad_id, self.model.device)
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        with torch.inference_mode():
            out = self.model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)
        rows = self._score_logits(out.logits[:, -1])
        if self.style == "score-first" and self.rationale_tokens:
            started = [[*ids, *self._score_ids(row)] for ids, row in zip(sequences, rows, strict=True)]
            rationales = self._written(started, self.rationale_tokens - len(self._score_ids(rows[0])))
        return [Reading(row, text.strip() or None) for row, text in zip(rows, rationales, strict=True)]

    def _read_scores(self, logits: torch.Tensor, known: Known) -> list[Reading]:
        """Score first: the scores of prompts that have been read, and the rationales that go on from there."""
        rows = self._score_logits(logits)
        if not self.rationale_tokens:
            return [Reading(row, None) for row in rows]
        started = torch.tensor([self._score_ids(row) for row in rows], device=self.model.device)
        # generate() counts columns: those that have been read stand in the ids, too; what they hold is not looked at.
        read = torch.full_like(known.mask, self.pad_id)
        ids, mask = torch.cat([read, started], dim=1), torch.cat([known.mask, torch.ones_like(started)], dim=1)
        texts = self._generated(ids, mask, self.rationale_tokens - started.shape[1], past_key_values=known.cache)
        return [Reading(row, text.strip() or None) for row, text in zip(rows, texts, strict=True)]

    def _score_logits(self, logits: torch.Tensor) -> np.ndarray:
        """Those of the five labels: (rows, vocabulary) -> (rows, 5)."""
        rows: np.ndarray = logits[:, self.label_ids].float().cpu().numpy()
        return rows

    def _score_ids(self, logits: np.ndarray) -> list[int]:
        """What a reply begins with: the score and a new line, on which the rationale stands."""
        newline = self.tokenizer("\n", add_special_tokens=False)["input_ids"][-1:]
        return [self.label_ids[median_level(self._levels(logits)) - 1], *newline]

    def _written(self, sequences: Sequence[list[int]], most: int) -> list[str]:
        """Goes on from each sequence, greedily, to its end or for `most` tokens."""
        return self._generated(*pad_left(sequences, self.pad_id, self.model.device), most)

    def _generated(self, ids: torch.Tensor, mask: torch.Tensor, most: int, **known: DynamicCache) -> list[str]:
        with torch.inference_mode():
            written = self.model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=most,
                do_sample=False,
                repetition_penalty=1.0,  # some base models set another, which would keep a digit from coming again
                use_cache=True,  # off in the config of a model that is being trained with gradient checkpointing
                pad_token_id=self.pad_id,
                **known,
            )
        texts: list[str] = self.tokenizer.batch_decode(written[:, ids.shape[1] :], skip_special_tokens=True)
        return texts


def score_line(assignment: Assignment) -> str:
    """How the last line of a reason-first reply begins, in the language of the question."""
    return judge_replies(assignment.question.language, languages_of(assignment.scheme)).score_line


def prompt_room(
    tokenizer: PreTrainedTokenizerBase, max_length: int, style: Style, rationale_tokens: int, last_line: str
) -> int:
    """The tokens of the window that are left for a prompt, beside rationale and score.

    Args:
        last_line: From `score_line`.
    """
    if style == "score-first":
        return max_length - rationale_tokens - 1
    return max_length - rationale_tokens - len(token_ids(tokenizer, f"\n{last_line}")) - 1
