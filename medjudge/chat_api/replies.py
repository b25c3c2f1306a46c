"""A server's response to one chat: a reply, or an error that is about the chat, a parameter, the account or a fault.

Servers state errors in the HTTP status, in the body of a reply with status 200, or inside a choice. Codes come first:
the words of a message are read only where no code tells, and never the fields that may quote a prompt.
"""

import json
import re
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, NamedTuple

from medjudge.chat_api.transport import without_key
from medjudge.text.blocks import THOUGHT_MARKS

_COMPLETE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence", "stop_token", "complete", "completed"}
_AT_THE_LIMIT = {
    *("length", "max_tokens", "max_length", "max_output_tokens", "max_completion_tokens", "model_length"),
    *("model_context_window_exceeded", "error_limit"),
}
_FILTERED = {
    *("content_filter", "content_filtered", "sensitive", "safety", "refusal", "recitation", "blocklist"),
    *("prohibited_content", "spii", "guardrail_intervened", "error_toxic"),
}
"""The three known endings in the words of OpenAI, vLLM, TGI, Mistral, Anthropic, Bedrock, Google, Zhipu and Cohere."""


class ChatReply(NamedTuple):
    """One reply. `text` is None if the server returned none; `refusal` says why the model or a filter refused.

    `finish_reason` is `stop` (complete), `length` (at the token limit), `content_filter`, or, where the reply broke
    off, the server's own word and what it says about it. `thinking` is the reasoning that a server returns separately,
    in `reasoning_content` (vLLM, DeepSeek), `reasoning` or parts of the content.
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
        raise WebPageError(f"the server sent a web page, '{_beginning(text)}'")
    try:
        return read_reply(json.loads(text), headers)
    except (ValueError, RecursionError):
        raise ReplyError(f"the server did not send JSON, but '{_beginning(text)}'") from None


def _beginning(text: str) -> str:
    return " ".join(without_key(text).split())[:60]


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
    text, thought = _parts(content) if isinstance(content, list) else (content, None)
    if not isinstance(text, str | None):
        raise ReplyError("the server sent a reply that is not text")
    if finish_reason == "content_filter":
        refusal = refusal or "content filter"
    if isinstance(choice.get("error"), dict | str) and choice["error"]:
        problem = ServerError(200, {"error": choice["error"]})
        finish_reason = _writable(f"error: {problem.message or problem}")[:200]
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


def _parts(content: list[Any]) -> tuple[str | None, str | None]:
    """The text of a content that comes as a list of parts, and the thought in it; None for what is not there."""
    said: dict[str, list[str]] = {"text": [], "thinking": []}
    kinds = {"text": "text", "output_text": "text", "thinking": "thinking", "reasoning": "thinking"}
    for part in content:
        fields = part if isinstance(part, dict) else {"text": part}
        kind = kinds.get(str(fields.get("type", "text")), "")
        inner = fields.get(kind, fields.get("text"))
        if isinstance(inner, list):  # Mistral: the thought is a list of parts itself
            inner = "".join(str(each["text"]) for each in inner if isinstance(each, dict) and "text" in each)
        if kind and isinstance(inner, str):
            said[kind].append(inner)
    text, thought = ("".join(words) if words else None for words in said.values())
    return text, thought


def _writable(text: str) -> str:
    """The text without the API key, and with a mark in place of a lone surrogate, which could not be written."""
    return without_key(text.encode("utf-8", "replace").decode())


def _count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MOST_TOKENS else None


REFUSABLE = ("response_format", "max_tokens", "temperature", "seed", "chat_template_kwargs", "enable_thinking")
"""Parameters that some servers or models reject; once rejected, they are left out of all requests."""
NO_THINKING = "thinking"
"""In place of a parameter: the server takes no request (without streaming) in which the model thinks."""
_PASSING = {408, 409, 425, 429}
"""Statuses below 500 that say nothing about the request."""

_CHAT_CODES = re.compile(
    r"content_?(?:filter|policy|moderation|violation)|data_?inspection|moderat|policy_?violation|responsible_?ai|"
    r"sensitive|illegal_?(?:text|content)|text_?illegal|invalid_prompt|guardrail|prohibited_content|safety|"
    r"context_length_exceeded|context_window_exceeded|string_above_max_length|request_too_large"
)
"""Codes and types by which a server refuses one chat: OpenAI, Azure, Alibaba, Moonshot, Volcengine, Tencent, Google."""
_OF_THE_ACCOUNT = re.compile(
    r"\baccounts?\b|\bapi[ _-]?keys?\b|\bapi[ _-]?secret\b|credential|\bauthenticat|billing|subscri(?:be|ption)|"
    r"\bquota\b|insufficient[ _]|\b(?:your|unsupported)[ _](?:country|region|organi[sz]ation|project|plan|ip\b)|"
    r"账[户号]|密钥|欠费|余额|实名",
    re.IGNORECASE,
)
_NO_FUNDS = re.compile(
    r"insufficient[ _](?:account[ _])?(?:quota|balance|credits?|funds?)|欠费|余额不足|arrear", re.IGNORECASE
)
_OF_THE_CHAT = re.compile(
    r"content[ _](?:management[ _]?)?(?:filter|polic|moderation)|contentpolicy|responsible ai|"
    r"usage (?:polic|guideline)|"
    r"(?:violat|against)\w*\b.{0,40}\b(?:polic|guideline|terms|rules)|safety (?:polic|system|filter|setting|check)|"
    r"safety_check|due to safety|inappropriate|moderation|\bflagged\b|high[ -]risk|content exists risk|sensitive|"
    r"guardrail|prohibited (?:use|content)|harmful|unsafe|敏感|违规|不安全|不合规|审核|不当内容|风险|"
    r"context[ _](?:length|window)|(?:prompt|input|request|conversation) (?:is|was) too (?:long|large)|"
    r"maximum (?:prompt|input) length|exceeds? the (?:model'?s )?maximum (?:number of )?(?:input )?tokens|上下文长度",
    re.IGNORECASE,
)

_FORBIDS_THINKING = re.compile(
    r"enable_thinking['\"`]?\s*(?:must|should|has to|only|needs? to)\b.{0,30}false", re.IGNORECASE
)
_REFUSING = (
    r"(?:invalid|unsupported|unknown|unrecogni[sz]ed|unexpected|illegal|extra|not\s+support|n[o']t\s+support|"
    r"(?:not|un)\s?supported|not\s+permitted|support(?:s|ed)?|param(?:eter)?s?|arguments?|fields?|keys?)"
)
_NOT_TAKEN = (
    r"(?:not\s+(?:currently\s+|yet\s+)?|un|in|only\s+)(?:support|allow|accept|permit|valid|available|recogni|implement)"
)
_IN_OTHER_WORDS = {
    "response_format": (
        r"response[ _]?format|json[ _-]?(?:mode|schema|object)|structured[ _-]?output|guided[ _](?:json|decoding)"
    ),
    "chat_template_kwargs": "chat_template_kwargs",
    "enable_thinking": "enable_thinking",
}
"""Names that no prompt has in it by chance, so that any mention of them in an error is about the parameter."""


class ServerError(Exception):
    """An error that a server stated.

    Attributes:
        status: The HTTP status, or the one that the body of a reply with status 200 states.
        message: The server's own words, without the fields that may quote a prompt.
        codes: Its codes and types, in lower case and with underscores.
        parameter: The parameter that it names in a field of its own.
        headers: The headers of the response.
    """

    def __init__(self, status: int, body: Any, headers: Mapping[str, str] | None = None) -> None:
        body = body[0] if isinstance(body, list) and body else body
        outer = body if isinstance(body, dict) else {}
        error = outer.get("error") or outer.get("base_resp") or outer
        fields = error if isinstance(error, dict) else {"message": error, "code": outer.get("code")}
        inner = fields.get("innererror")
        self.message = _message(fields) or (body if isinstance(body, str) else "")
        stated = [fields.get(name) for name in ("code", "type", "status", "status_code")]
        stated.append(inner.get("code") if isinstance(inner, dict) else None)
        self.codes = frozenset(_code(value) for value in stated if isinstance(value, str | int))
        self.parameter = fields["param"] if isinstance(fields.get("param"), str) else None
        self.headers: Mapping[str, str] = headers or {}
        self.status = status
        if status == 200:
            numbers = [int(code) for code in self.codes if re.fullmatch("[45][0-9][0-9]", code)]
            limited = any("rate_limit" in code or "too_many" in code for code in self.codes)
            self.status = max(numbers, default=429 if limited else 400 if self.of_the_chat else 500)
        content = {name: value for name, value in outer.items() if value is not None} or body
        if 300 <= status < 400 and "location" in self.headers:
            content = f"it sends requests on to {self.headers['location']}; if that is right, give it as --base-url"
        shown = f"Error code: {self.status}" + (f" - {content}" if content else "")
        super().__init__(one_line(shown))

    @property
    def passing(self) -> bool:
        """True if another attempt may help."""
        return self.status in _PASSING or self.status >= 500

    @property
    def of_the_chat(self) -> bool:
        """True if the server refuses this chat, so that another attempt would fail in the same way."""
        refusing = not self.passing and self.status not in (401, 402, 404)
        return refusing and (self.status == 413 or self._refuses_the_chat())

    def _refuses_the_chat(self) -> bool:
        """True if it concerns the chat itself: a filter refuses it, or it exceeds the model's window."""
        if any(_CHAT_CODES.search(code) for code in self.codes):
            return True
        return _OF_THE_ACCOUNT.search(self.message) is None and _OF_THE_CHAT.search(self.message) is not None

    def of_the_account(self, known: bool) -> bool:
        """True if no request can succeed: wrong key, model or address, or nothing left to pay with.

        Args:
            known: Whether the server has replied with this key before.
        """
        words = f"{self.message} {' '.join(self.codes)}"
        if self.status < 400 or self.status in (401, 402, 404) or _NO_FUNDS.search(words):
            return True
        if self.status != 403 or self.of_the_chat:
            return False
        return not known or _OF_THE_ACCOUNT.search(words) is not None

    def refused_parameter(self, sent: Collection[str] = REFUSABLE) -> str | None:
        """The parameter, of `REFUSABLE`, that it rejects; None for any other error.

        `NO_THINKING` where the server demands that the model does not think. A message may quote the prompt, and
        "temperature" is a medical word: it counts only in quotes, or next to a word that refuses it.

        Args:
            sent: The parameters of the request.
        """
        if self.status not in (400, 422):
            return None
        if _FORBIDS_THINKING.search(self.message):
            return NO_THINKING
        if self.parameter not in REFUSABLE and self._refuses_the_chat():
            return None
        # "max_tokens is too large" is a similar message, but leaving the limit out would not help.
        renamed = "max_completion_tokens" in self.message and "too large" not in self.message
        possible = (name for name in REFUSABLE if name in sent and (name != "max_tokens" or renamed))
        return next((name for name in possible if self.parameter == name or _is_about(name, self.message)), None)


def read_error(status: int, text: str, headers: Mapping[str, str]) -> ServerError:
    """The error of a response with an HTTP status of 400 or more."""
    try:
        return ServerError(status, json.loads(text), headers)
    except (ValueError, RecursionError):
        return ServerError(status, text.strip(), headers)  # a page, or plain words


def stated_error(body: Any, headers: Mapping[str, str] | None = None) -> ServerError | None:
    """The error that the parsed body of a reply with status 200 states; None where it states none."""
    fields = body[0] if isinstance(body, list) and body else body
    if not isinstance(fields, dict):
        return None
    in_words = isinstance(fields.get("message") or fields.get("msg") or fields.get("detail"), str | list)
    without_choice = not fields.get("choices") and (in_words or isinstance(fields.get("base_resp"), dict))
    return ServerError(200, fields, headers) if fields.get("error") or without_choice else None


def _message(fields: dict[str, Any]) -> str:
    parts = [fields.get(name) for name in ("message", "msg", "status_msg", "detail", "title")]
    metadata = fields.get("metadata")
    parts.append(metadata.get("raw") if isinstance(metadata, dict) else None)  # OpenRouter: what its provider said
    words = []
    for part in parts:
        for each in part if isinstance(part, list) else [part]:
            if isinstance(each, dict):  # FastAPI: {"loc": ["body", "seed"], "msg": "..."}
                where = each.get("loc")
                place = ".".join(map(str, where)) if isinstance(where, list) else ""
                words.append(f"{place}: {each.get('msg')}")
            elif isinstance(each, str):
                words.append(each)
    return "; ".join(words)


def _code(value: str | int) -> str:
    """A code in one spelling: `DataInspectionFailed`, `data-inspection-failed` and `data_inspection_failed` are one."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", str(value))
    return re.sub(r"[\s.\-]+", "_", words).lower()


def _is_about(name: str, message: str) -> bool:
    if name in _IN_OTHER_WORDS:
        return re.search(_IN_OTHER_WORDS[name], message, re.IGNORECASE) is not None
    alone = rf"(?<![A-Za-z_]){name}(?![A-Za-z_])"
    forms = (
        rf"['\"`]{name}['\"`]|\bbody\.{name}\b",
        rf"\b{_REFUSING}(?:\s+(?:value|supplied|provided|for|parameter|argument|of)){{0,2}}\W{{1,4}}{alone}",
        rf"\bonly\s+{alone}\s*=",
        rf"{alone}(?:\s*=\s*[\w.]+)?\s+(?:parameter\s+|values?\s+)?(?:is\s+|are\s+)?{_NOT_TAKEN}",
        rf"(?:^|[:.;\]]\s*){alone}(?:\s*=\s*[\w.]+)?\s+(?:must|should|has to|can only|may only|cannot)\s+be\b",
        rf"参数\W{{0,3}}{alone}|{alone}\W{{0,3}}(?:参数|不支持|非法|无效)",
    )
    return any(re.search(form, message, re.IGNORECASE) for form in forms)


def retry_after(milliseconds: str | None, header: str | None) -> float | None:
    """The seconds of a `retry-after-ms` or `Retry-After` header (a number or a date); None if there is neither."""
    for value, unit in ((milliseconds, 1000.0), (header, 1.0)):
        with suppress(ValueError):
            if (seconds := float(value or "") / unit) > 0:  # also false for NaN
                return seconds
    with suppress(ValueError, TypeError, OverflowError):
        if (seconds := parsedate_to_datetime(header or "").timestamp() - time.time()) > 0:
            return seconds
    return None


def one_line(error: Exception | str) -> str:
    """An error's message on one line, without the API key and cut to 300 characters."""
    return " ".join(without_key(str(error)).split())[:300] or type(error).__name__
