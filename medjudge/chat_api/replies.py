"""Parses a server's reply to one chat, from a response or from a line of batch results."""

import json
from typing import Any, NamedTuple


class ChatReply(NamedTuple):
    """One reply. `text` is None if the server returned none; `refusal` says why the model or a filter refused.

    `thinking` is the reasoning that a server returns apart, in `reasoning_content` (vLLM, DeepSeek) or `reasoning`.
    """

    text: str | None
    finish_reason: str
    refusal: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    thinking: str | None = None


class ReplyError(Exception):
    """The response is not a chat completion but, say, truncated; another attempt may help."""


class WebPageError(ReplyError):
    """The response is a web page: the address of another service, or a sign-in page of the network."""


MOST_TOKENS = 10_000_000
"""The most tokens that a reply can state; no model has such a context window."""


def parse_reply(text: str) -> ChatReply:
    """Parses the body of a response.

    Raises:
        WebPageError: It is HTML.
        ReplyError: It is something else than a chat completion.
    """
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        raise WebPageError(f"the server sent a web page, '{' '.join(text[:200].split())[:60]}'")
    try:
        return read_reply(json.loads(text))
    except (ValueError, RecursionError):
        raise ReplyError(f"the server did not send JSON, but '{' '.join(text.split())[:60]}'") from None


def read_reply(body: Any) -> ChatReply:
    """Reads a parsed chat completion. Token counts that cannot be true are unknown ones, so they lower no cost.

    Raises:
        ReplyError: It is not a chat completion.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content"), message.get("refusal")
        thinking = message.get("reasoning_content") or message.get("reasoning")
        usage = body.get("usage") or {}
        tokens = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    except (LookupError, TypeError, AttributeError):
        raise ReplyError("the server sent no choice to read a reply from") from None
    if not isinstance(text, str | None):
        raise ReplyError("the server sent a reply that is not text")
    if text is not None:
        text = _writable(text)
    finish_reason = str(choice.get("finish_reason") or "stop")
    if finish_reason == "content_filter" and not refusal:
        refusal = "content filter"
    # A server may send a list of summaries or an object there: only text is a thought.
    thought = _writable(thinking) if isinstance(thinking, str) else None
    return ChatReply(text, finish_reason, str(refusal) if refusal else None, *tokens, thought)


def _writable(text: str) -> str:
    """The text with a mark in place of a lone surrogate, which could not be written."""
    return text.encode("utf-8", "replace").decode()


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None
