"""Models that think before they answer: what is passed to their template, and where the answer begins."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from transformers import PreTrainedTokenizerBase

from medjudge.answer.conversation import Message, Reply
from medjudge.errors import InputError
from medjudge.models.chat import ROLE_MARK, is_plain
from medjudge.text.blocks import THOUGHT_MARKS

Thinking = Literal["on", "off", "default"]
_SWITCHES = ("enable_thinking", "thinking")
"""Variables of chat templates: Qwen3, GLM and others; DeepSeek-V3.1, Granite."""
_SWITCH = re.compile(r"\benable_thinking\b|\bthinking\s+is\b|\bif\s+(?:not\s+)?thinking\b")
NO_ANSWER = "no_answer"
"""The `finish_reason` where the thought took all tokens."""


class ThinkingOptions(NamedTuple):
    """Settings of a model that may think before it answers.

    Attributes:
        mode: `on` and `off` go to the chat template; `default` leaves it to the template.
        tokens: The most tokens of the thought, in addition to those of the answer.
    """

    mode: Thinking = "default"
    tokens: int = 8192

    @property
    def enabled(self) -> bool | None:
        """Value for a chat template; None for none."""
        return None if self.mode == "default" else self.mode == "on"


class ChatPrompt(NamedTuple):
    """A chat as its model reads it, and whether the reply begins within a thought."""

    ids: list[int]
    within_thought: bool


class ChatTemplate:
    """A tokenizer's chat template, and what the replies to it hold.

    Raises:
        InputError: Thinking is to be switched, and the template has no switch for it.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, max_new_tokens: int, options: ThinkingOptions = ThinkingOptions()
    ) -> None:
        self.tokenizer = tokenizer
        self.max_new_tokens = max_new_tokens
        template = str(tokenizer.chat_template)
        if options.enabled is not None and not _SWITCH.search(template):
            raise InputError(
                f"--thinking {options.mode}: the chat template of {tokenizer.name_or_path} has no switch "
                f"({' or '.join(_SWITCHES)}); leave the option out"
            )
        self.switches = {} if options.enabled is None else dict.fromkeys(_SWITCHES, options.enabled)
        may_think = options.mode != "off" and any(mark in template for pair in THOUGHT_MARKS for mark in pair)
        self.most_tokens = max_new_tokens + (options.tokens if may_think else 0)
        """The most tokens of thought and answer together."""
        self.special = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
        # Where the marks of a thought are special tokens, a text without these does not show where the answer begins.
        self.marks_are_special = any(mark in self.special for pair in THOUGHT_MARKS for mark in pair)
        self.stop = f"\n{ROLE_MARK}" if is_plain(tokenizer) else None
        """Text that a base model writes after its answer, the next turn; None where an end token ends the answer."""

    def prompt(self, messages: Sequence[Message]) -> ChatPrompt:
        """Render and tokenise a chat, up to the reply."""
        text = self.tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, tokenize=False, **self.switches
        )
        ids: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return ChatPrompt(ids, any(str(text).rstrip().endswith(begin) for begin, _ in THOUGHT_MARKS))

    def too_long(self, prompt: ChatPrompt, window: int) -> Reply:
        """The reply to a prompt that leaves no room for an answer in the model's window."""
        reason = f"prompt of {len(prompt.ids)} tokens does not fit the window of {window}"
        return Reply("", reason, tokens_in=len(prompt.ids), tokens_out=0)

    def reply(self, prompt: ChatPrompt, tokens: Sequence[int], ended: bool) -> Reply:
        """The answer that the generated tokens hold, and the thought before it.

        Args:
            tokens: What the model wrote, without its end token.
            ended: Whether it wrote an end token.
        """
        text = self.tokenizer.decode(list(tokens), skip_special_tokens=not self.marks_are_special)
        if self.stop is not None and self.stop in f"\n{text}":
            text, ended = f"\n{text}"[: f"\n{text}".index(self.stop)], True
        thinking, answer = split_thought(text, prompt.within_thought)
        if self.marks_are_special:
            for token in self.special:
                answer = answer.replace(token, "")
        if thinking is not None and not answer:
            return Reply("", NO_ANSWER, len(prompt.ids), len(tokens), thinking)
        if thinking is not None:
            # What the thought left of its tokens is not the answer's.
            words = self.tokenizer(answer, add_special_tokens=False, verbose=False)["input_ids"]
            if len(words) > self.max_new_tokens:
                answer, ended = self.tokenizer.decode(words[: self.max_new_tokens]), False
        return Reply(answer.strip(), "stop" if ended else "length", len(prompt.ids), len(tokens), thinking or None)


class Parts(NamedTuple):
    """The thought, None where there is none, and the answer after it."""

    thinking: str | None
    answer: str


def split_thought(text: str, within: bool = False) -> Parts:
    """Part a reply into thought and answer. A thought that never ends leaves no answer.

    Args:
        within: Whether the prompt has begun the thought, so that its first mark is not in the text.
    """
    text = text.strip()
    for begin, end in THOUGHT_MARKS:
        if text.startswith(begin) or (within and end in text):
            thought, _, answer = text.removeprefix(begin).partition(end)
            return Parts(thought.strip(), answer.strip())
    return Parts(text, "") if within else Parts(None, text)
