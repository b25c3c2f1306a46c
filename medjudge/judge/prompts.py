"""The prompts of generative judges as token ids."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.judge.protocol import Unit
from medjudge.models.batching import cut_middle
from medjudge.models.chat import PLAIN_MARKS, is_plain
from medjudge.rubrics.render import Style, neutralise

_MIN_ANSWER_TOKENS = 32


class Prompt(NamedTuple):
    """A prompt up to the reply, and how many tokens of its answers did not fit."""

    input_ids: list[int]
    answer_tokens_cut: int


def token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    """Tokenises a text without adding tokens. Text that spells a control token is tokenised as plain text."""
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return ids


def control_texts(tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The special tokens that `neutralise` does not know, and the marks of turns where the plain template is used.

    Added tokens that are not special are ordinary text: Gemma's are line breaks, runs of spaces and HTML tags.
    """
    special = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return [text for text in (*special, *(PLAIN_MARKS if is_plain(tokenizer) else ())) if neutralise(text) == text]


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, units: Sequence[Unit[Any]], rooms: Sequence[int], style: Style = "score-first"
) -> list[Prompt | None]:
    """Renders and tokenises the prompts of any task, up to the reply.

    Args:
        rooms: The most tokens of each prompt. Answers that do not fit lose their middle, the longest first; rubric,
            question, reference and checklist are never cut.
        style: Whether the reply begins or ends with the score.

    Returns:
        The prompts; None for one whose other parts leave no room for the answers.
    """
    control_tokens = control_texts(tokenizer)

    def text_of(unit: Unit[Any], answers: Sequence[str]) -> str:
        messages = unit.prompt(answers, style, control_tokens).messages
        # enable_thinking=False: the templates of reasoning models (Qwen3) then close the thinking part.
        text: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return text

    def ids_of(texts: list[str]) -> list[list[int]]:
        # In one call: a fast tokenizer spreads it over all cores.
        ids: list[list[int]] = tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"] if texts else []
        return ids

    def shortened(unit: Unit[Any], most: int, length: int) -> Prompt | None:
        """The prompt without the middle of its answers; `length` is that of the whole prompt, in tokens."""
        answers = [token_ids(tokenizer, answer.text) for answer in unit.answers]
        room = most - (length - sum(map(len, answers)))
        while room >= _MIN_ANSWER_TOKENS * len(answers):
            # An answer keeps up to an equal share; the longer ones get what the others leave.
            share = room // len(answers)
            longer = [tokens for tokens in answers if len(tokens) > share]
            rest = room - sum(len(tokens) for tokens in answers if len(tokens) <= share)
            cut = [_cut(tokenizer, tokens, rest // len(longer) if longer else share) for tokens in answers]
            (ids,) = ids_of([text_of(unit, [text for text, _ in cut])])
            if len(ids) <= most:
                return Prompt(ids, sum(left_out for _, left_out in cut))
            # The note and the edges of the decoded halves cost a few tokens: shorten the answers by as many.
            room -= len(ids) - most
        return None

    texts = [text_of(unit, [answer.text for answer in unit.answers]) for unit in units]
    return [
        Prompt(ids, 0) if len(ids) <= room else shortened(unit, room, len(ids))
        for unit, ids, room in zip(units, ids_of(texts), rooms, strict=True)
    ]


def _cut(tokenizer: PreTrainedTokenizerBase, tokens: list[int], most: int) -> tuple[str, int]:
    """An answer's text without its middle, and how many tokens were left out."""
    if len(tokens) <= most:
        return tokenizer.decode(tokens), 0
    remaining, left_out = cut_middle(tokens, most)
    middle = (most + 1) // 2
    head, tail = tokenizer.decode(remaining[:middle]), tokenizer.decode(remaining[middle:])
    return f"{head}\n[... {left_out} tokens left out ...]\n{tail}", left_out


def label_ids(tokenizer: PreTrainedTokenizerBase, labels: Sequence[str]) -> list[int]:
    """The token id of each label.

    Raises:
        InputError: The labels are not different tokens, so a verdict cannot be read.
    """
    # The last token: some tokenizers put a word-boundary token before the label.
    ids = [tokenizer(label, add_special_tokens=False)["input_ids"][-1] for label in labels]
    if [tokenizer.decode([token_id]).strip() for token_id in ids] != list(labels):
        few = f"{', '.join(labels)} are not {len(labels)} different tokens"
        raise InputError(f"{tokenizer.name_or_path}: {few}; use another base model")
    return ids
