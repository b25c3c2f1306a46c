"""Parses a server's reply to one chat, from a response or from a line of batch results."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from medjudge.chat_api.faults import ServerError, stated_error
from medjudge.text.blocks import THOUGHT_MARKS

_COMPLETE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "stop_token", "complete", "completed"}
_AT_THE_LIMIT = {
    "length",
    "max_tokens",
    "max_length",
    "max_output_tokens",
    "max_completion_tokens",
    "model_length",
    "model_context_window_exceeded",
    "error_limit",
}
_FILTERED = {
    "content_filter",
    "content_filtered",
    "sensitive",
    "safety",
    "refusal",
    "recitation",
    "blocklist",
    "prohibited_content",
    "spii",
    "guardrail_intervened",
    "error_toxic",
}
"""The three known endings in the words of OpenAI, vLLM, TGI, Mistral, Anthropic, Bedrock, Google, Zhipu and Cohere."""


class ChatReply(NamedTuple):
    """One reply. `text` is None if the server returned none; `refusal` says why the model or a filter refused.

    `finish_reason` is `stop` (complete), `length` (at the token limit), `content_filter`, or, where the reply broke
    off, the server's own word and what it says about it. `thinking` is the reasoning that a server returns apart, in
    `reasoning_content` (vLLM, DeepSeek), `reasoning` or parts of the content.
    """

    text: str | None
    finish_reason: str
    refusal: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    thinking: str | None = None

    @property
    def broke_off(self) -> bool:
        """True if the reply has no ending that is known to be complete, at the limit, or by a filter."""
        return self.finish_reason not in ("stop", "length", "content_filter")

    @property
    def without_answer(self) -> bool:
        """True if the text is empty, or a thought that never ends."""
        text = (self.text or "").lstrip()
        return not text or any(text.startswith(begin) and end not in text for begin, end in THOUGHT_MARKS)

    @property
    def all_thought(self) -> bool:
        """True if the token limit was reached within a thought, or soon after one."""
        return self.finish_reason == "length" and (self.without_answer or self.thinking is not None)


class ReplyError(Exception):
    """The response is not a chat completion but, say, truncated; another attempt may help."""


class WebPageError(ReplyError):
    """The response is a web page: the address of another service, or a sign-in page of the network."""


MOST_TOKENS = 10_000_000
"""The most tokens that a reply can state; no model has such a context window."""


def parse_reply(text: str, headers: Mapping[str, str] | None = None) -> ChatReply:
    """Parse the body of a response.

    Raises:
        ServerError: It states an error in place of a completion.
        WebPageError: It is HTML.
        ReplyError: It is something else than a chat completion.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        raise WebPageError(f"the server sent a web page, '{' '.join(text[:200].split())[:60]}'")
    try:
        return read_reply(json.loads(text), headers)
    except (ValueError, RecursionError):
        raise ReplyError(f"the server did not send JSON, but '{' '.join(text.split())[:60]}'") from None


def read_reply(body: Any, headers: Mapping[str, str] | None = None) -> ChatReply:
    """Read a parsed chat completion. Token counts that cannot be true are unknown ones, so they lower no cost.

    Raises:
        ServerError: The body states an error in place of a completion.
        ReplyError: It is not a chat completion.
    """
    if error := stated_error(body, headers):
        raise error
    try:
        choice = body["choices"][0]
        finish_reason = _ending(choice.get("finish_reason"))
        message = choice.get("message") or {}
        if not message and finish_reason != "content_filter":
            raise LookupError
        content, refusal = message.get("content"), message.get("refusal")
        thinking = message.get("reasoning_content") or message.get("reasoning")
        usage = body.get("usage") or {}
        tokens = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    except (LookupError, TypeError, AttributeError):
        raise ReplyError("the server sent no choice to read a reply from") from None
    if isinstance(content, list):
        text, thought = _joined(content, thinking=False), _joined(content, thinking=True)
    elif isinstance(content, str | None):
        text, thought = content, None
    else:
        raise ReplyError("the server sent a reply that is not text")
    if finish_reason == "content_filter":
        refusal = refusal or "content filter"
    if isinstance(choice.get("error"), dict | str) and choice["error"]:
        problem = ServerError(200, {"error": choice["error"]})
        finish_reason = f"error: {problem.message or problem}"[:200]
        refusal = refusal or (problem.message if problem.of_the_chat else None)
    # A server may send a list of summaries or an object there: only text is a thought.
    thought = thinking if isinstance(thinking, str) else thought
    return ChatReply(
        None if text is None else _writable(text),
        finish_reason,
        _writable(str(refusal)) if refusal else None,
        *tokens,
        None if thought is None else _writable(thought),
    )


def _ending(stated: object) -> str:
    """A server's word for how a reply ended, as one of `stop`, `length`, `content_filter`; any other as it is."""
    if not isinstance(stated, str) or not stated.strip():
        return "no finish_reason"
    word = stated.partition(":")[0].rpartition(".")[2].strip().lower().replace(" ", "_").replace("-", "_")
    if word in _COMPLETE:
        return "stop"
    if word in _AT_THE_LIMIT:
        return "length"
    return "content_filter" if word in _FILTERED else _writable(stated.strip())[:100]


def _joined(parts: list[Any], thinking: bool) -> str | None:
    """The text of a content that comes as a list of parts, or the thought in it; None where there is none."""
    texts = []
    for part in parts:
        fields = part if isinstance(part, dict) else {"type": "text", "text": part}
        kind, inner = fields.get("type", "text"), None
        if thinking and kind in ("thinking", "reasoning"):
            inner = fields.get("thinking", fields.get("text"))
        elif not thinking and kind in ("text", "output_text"):
            inner = fields.get("text")
        if isinstance(inner, list):  # Mistral: the thought is a list of parts itself
            inner = "".join(str(each["text"]) for each in inner if isinstance(each, dict) and "text" in each)
        if isinstance(inner, str):
            texts.append(inner)
    return "".join(texts) if texts else None


def _writable(text: str) -> str:
    """The text with a mark in place of a lone surrogate, which could not be written."""
    return text.encode("utf-8", "replace").decode()


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None
