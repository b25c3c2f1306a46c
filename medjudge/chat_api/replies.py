"""Parses a server's reply to one chat, from a response or from a line of batch results."""

import json
from typing import Any, NamedTuple


class ChatReply(NamedTuple):
    """One reply. `text` is None if the server returned none; `refusal` says why the model or a filter refused."""

    text: str | None
    finish_reason: str
    refusal: str | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None


class ReplyError(Exception):
    """The response is not a chat completion but, say, an error page or truncated; another attempt may help."""


def parse_reply(text: str) -> ChatReply:
    """Parses the body of a response.

    Raises:
        ReplyError: It is not a chat completion.
    """
    try:
        return read_reply(json.loads(text))
    except (ValueError, RecursionError):
        raise ReplyError(f"the server did not send JSON, but '{' '.join(text.split())[:60]}'") from None


def read_reply(body: Any) -> ChatReply:
    """Reads a parsed chat completion.

    Raises:
        ReplyError: It is not a chat completion.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text, refusal = message.get("content"), message.get("refusal")
        usage = body.get("usage") or {}
        tokens = usage.get("prompt_tokens"), usage.get("completion_tokens")
    except (LookupError, TypeError, AttributeError):
        raise ReplyError("the server sent no choice to read a reply from") from None
    if not isinstance(text, str | None) or not all(isinstance(count, int | None) for count in tokens):
        raise ReplyError("the server sent a reply that is not text")
    if text is not None:
        text = text.encode("utf-8", "replace").decode()  # a lone surrogate could not be written
    finish_reason = str(choice.get("finish_reason") or "stop")
    if finish_reason == "content_filter" and not refusal:
        refusal = "content filter"
    return ChatReply(text, finish_reason, str(refusal) if refusal else None, *tokens)
