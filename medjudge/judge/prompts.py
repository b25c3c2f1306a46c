"""The prompts of generative judges as token ids. What many prompts begin with is tokenised once.

A prompt is cut after the last newline of what it shares with another, where a character other than white space follows.
Byte-level tokenizers never join two tokens there, as their pre-tokenizers end a word there. Whether a tokenizer does is
checked on whole prompts of every call; where it does not, all prompts are tokenised whole.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from transformers import PreTrainedTokenizerBase

from medjudge.judge.protocol import Assignment
from medjudge.models.batching import cut_middle
from medjudge.models.chat import PLAIN_MARKS, is_plain
from medjudge.rubrics.render import Style, neutralise, render

_MIN_ANSWER_TOKENS = 32
_CHECKED = 4
"""How many prompts of a call are also tokenised whole, to check that cutting changes nothing."""
_WORTH_CUTTING = 200
"""The fewest characters that a shared beginning must have."""


class Prompt(NamedTuple):
    """A prompt up to the score, and how many tokens of the answer did not fit."""

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


def encode_prompt(
    tokenizer: PreTrainedTokenizerBase, assignment: Assignment, max_length: int, style: Style = "score-first"
) -> Prompt | None:
    """Renders and tokenises the prompt of one answer, as `encode_prompts` does for many."""
    return encode_prompts(tokenizer, [assignment], [max_length], style)[0]


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase,
    assignments: Sequence[Assignment],
    rooms: Sequence[int],
    style: Style = "score-first",
) -> list[Prompt | None]:
    """Renders and tokenises the prompts of answers, up to the reply.

    Args:
        rooms: The most tokens of each prompt. An answer that does not fit loses its middle; rubric, question,
            reference and checklist are never cut.
        style: Whether the reply begins or ends with the score.

    Returns:
        The prompts; None for one whose other parts leave no room for the answer.
    """
    control_tokens = control_texts(tokenizer)

    def text_of(assignment: Assignment, answer: str) -> str:
        prompt = render(assignment.question, assignment.earlier, answer, style, control_tokens, assignment.scheme)
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        # enable_thinking=False: the templates of reasoning models (Qwen3) then close the thinking part.
        text: str = tokenizer.apply_chat_template(
            messages, tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        return text

    def shortened(assignment: Assignment, most: int, length: int) -> Prompt | None:
        """The prompt without the middle of its answer; `length` is that of the whole prompt, in tokens."""
        tokens = token_ids(tokenizer, assignment.answer.text)
        room = most - (length - len(tokens))
        while room >= _MIN_ANSWER_TOKENS:
            remaining, left_out = cut_middle(tokens, room)
            middle = (room + 1) // 2
            head, tail = tokenizer.decode(remaining[:middle]), tokenizer.decode(remaining[middle:])
            ids = _batch(tokenizer, [text_of(assignment, f"{head}\n[... {left_out} tokens left out ...]\n{tail}")])[0]
            if len(ids) <= most:
                return Prompt(ids, left_out)
            # The note and the edges of the decoded halves cost a few tokens: shorten the answer by as many.
            room -= len(ids) - most
        return None

    texts = [text_of(assignment, assignment.answer.text) for assignment in assignments]
    return [
        Prompt(ids, 0) if len(ids) <= room else shortened(assignment, room, len(ids))
        for assignment, ids, room in zip(assignments, tokenised(tokenizer, texts), rooms, strict=True)
    ]


def tokenised(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    """The token ids of texts, as the tokenizer gives them for each text alone; shared beginnings are tokenised once."""
    ends = shared_beginnings(texts)
    beginnings = [text[:end] for text, end in zip(texts, ends, strict=True)]
    uses = Counter(beginnings)
    if len(texts) - len(uses) <= _CHECKED:  # too little is shared to pay for the check
        return _batch(tokenizer, texts)
    distinct = list(uses)
    checked = [beginnings.index(beginning) for beginning in distinct[:_CHECKED]]
    rests = [text[end:] for text, end in zip(texts, ends, strict=True)]
    # One call: a fast tokenizer spreads it over all cores.
    ids = _batch(tokenizer, [*distinct, *rests, *(texts[index] for index in checked)])
    first = dict(zip(distinct, ids, strict=False))
    after = ids[len(distinct) : len(distinct) + len(texts)]
    joined = [[*first[beginning], *rest] for beginning, rest in zip(beginnings, after, strict=True)]
    whole = ids[len(distinct) + len(texts) :]
    if any(joined[index] != expected for index, expected in zip(checked, whole, strict=True)):
        return _batch(tokenizer, texts)
    return joined


def shared_beginnings(texts: Sequence[str]) -> list[int]:
    """Where each text can be cut, so that many of the beginnings are equal.

    Returns:
        The length of each beginning, which another text has too; 0 where too little is shared.
    """
    order = sorted(range(len(texts)), key=lambda index: texts[index])
    # In sorted order the text that shares most with one is its neighbour.
    shared = [0] * (len(order) + 1)
    for place in range(1, len(order)):
        shared[place] = _common(texts[order[place - 1]], texts[order[place]])
    ends = [0] * len(texts)
    for place, index in enumerate(order):
        ends[index] = _last_cut(texts[index], max(shared[place], shared[place + 1]))
    return ends


def _common(left: str, right: str) -> int:
    """The number of characters that two texts share at their beginnings."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _last_cut(text: str, shared: int) -> int:
    """The last place among the first `shared` characters after a newline and before a character that is no space."""
    end = shared
    while (end := text.rfind("\n", 0, end)) >= _WORTH_CUTTING:
        if end + 1 < shared and not text[end + 1].isspace():
            return end + 1
    return 0


def _batch(tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> list[list[int]]:
    if not texts:
        return []
    ids: list[list[int]] = tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)[
        "input_ids"
    ]
    return ids
