"""The API judge of every task: a chat model at an OpenAI-compatible server, reasons first, the verdict at the end."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from medjudge.answer.thinking import Thinking
from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply
from medjudge.chat_api.spending import Spending
from medjudge.judge.protocol import Made, Unit, split_empty, unscored
from medjudge.records import ErrorKind
from medjudge.rubrics.verdict import UnreadableError

AFTER_REMINDER = "\n\n[asked again]\n\n"
"""Separates, in `raw`, an unreadable reply from the reply to the reminder."""


class ReplyOptions(NamedTuple):
    """The ways in which an API judge may reply.

    Attributes:
        tokens: The most tokens of a reply, its thought included; None for what the task usually takes.
        thinking: Whether the model thinks first; None leaves it to the server.
        thought: The most tokens of a thought. Unless `tokens` is given, they are added for a model that thinks: from
            the start if `thinking` is true, else once a thought has taken all tokens of a reply.
    """

    tokens: int | None = None
    thinking: bool | None = None
    thought: int = 8192

    def applied(self, request: ChatRequest) -> ChatRequest:
        """A request for the usual number of tokens, with these options."""
        if self.tokens is not None:
            return request._replace(max_tokens=self.tokens, thinking=self.thinking)
        if self.thinking:
            return request._replace(max_tokens=request.max_tokens + self.thought, thinking=True)
        return request._replace(thinking=self.thinking, more_tokens=self.thought)


def reply_options(tokens: int | None, thinking: Thinking, thought: int = ReplyOptions().thought) -> ReplyOptions:
    """Reads `--judge-tokens` and `--thinking` (`on`, `off` or `default`)."""
    return ReplyOptions(tokens, None if thinking == "default" else thinking == "on", thought)


def file_name(model: str) -> str:
    """A model's name made safe for use as a file name."""
    return model.strip("/.").replace("/", "--").replace("\\", "--")


class ApiJudge:
    """Asks a chat model at an OpenAI-compatible server.

    If the server supports it, the reply is constrained to a JSON schema; it is parsed strictly in any case. After an
    unreadable reply the model gets one reminder.

    Args:
        model: The model's name at the server.
        server: The server, its limits and retries.
        spending: The account that the requests are charged to.
        replies: How long the replies may be, and whether the model thinks first.

    Raises:
        InputError: There is no key in the environment, or a limit on costs and no price.
    """

    def __init__(
        self,
        model: str,
        server: Server = Server(),
        spending: Spending | None = None,
        replies: ReplyOptions = ReplyOptions(),
    ) -> None:
        self.name = file_name(model)
        self.client = ChatClient(f"--judge openai:{model}", model, server, spending)
        self.replies = replies

    def judge(self, assignments: Sequence[Unit[Made]]) -> Iterator[Made]:
        """Yields one judgment for each unit of a task as its reply arrives."""
        work, empty = split_empty(assignments, self.name)
        yield from empty
        if work:
            yield from self.client.gather(work, self._judgment)

    async def _judgment(self, unit: Unit[Made]) -> Made:
        request = self.replies.applied(unit.request())
        raw = None
        try:
            first = read_judgment(unit, self.name, await self.client.ask(request))
            if first.raw is None or first.error_kind is not ErrorKind.UNREADABLE_REPLY:
                return first
            raw = first.raw
            reminder = [
                {"role": "assistant", "content": raw},
                {"role": "user", "content": unit.reminder(str(first.error))},
            ]
            again = request._replace(messages=request.messages + reminder)
            second = read_judgment(unit, self.name, await self.client.ask(again))
        except RequestError as error:
            return failed_request(unit, self.name, str(error), error.lasting, raw)
        problem = None if second.error is None else f"{second.error}, after a reminder"
        return second.model_copy(update={"raw": raw + AFTER_REMINDER + (second.raw or ""), "error": problem})


def failed_request(unit: Unit[Made], judge_name: str, problem: str, lasting: bool, raw: str | None = None) -> Made:
    """The judgment without a verdict of a request without a reply.

    Args:
        problem: The server's message, or what happened to the connection.
        lasting: Whether another attempt would fail in the same way.
        raw: An earlier reply to the same unit.
    """
    kind, what = (ErrorKind.REFUSED, "server refused") if lasting else (ErrorKind.REQUEST_FAILED, "request failed")
    return unscored(unit, judge_name, kind, f"the {what}: {problem}", raw)


def read_judgment(unit: Unit[Made], judge_name: str, reply: ChatReply) -> Made:
    """Reads the judgment from a reply; one without a verdict if the reply contains none, or must not be read."""

    def none(kind: ErrorKind, reason: str) -> Made:
        return unscored(unit, judge_name, kind, reason, reply.text or None)

    if reply.refusal:
        return none(ErrorKind.REFUSED, f"the server refused: {reply.refusal[:200]}")
    if reply.broke_off:
        return none(ErrorKind.REQUEST_FAILED, f"the request failed: the reply broke off ({reply.finish_reason})")
    if reply.finish_reason == "length" and reply.without_answer:
        return none(ErrorKind.EMPTY_REPLY, "the server returned no text within the token limit; raise --judge-tokens")
    text = reply.text or ""
    if not text.strip():
        thought = ", only a thought" if reply.thinking else ""
        return none(ErrorKind.EMPTY_REPLY, f"the server returned no text{thought}")
    # A truncated reply may end with a level that the model was only considering.
    if reply.finish_reason == "length":
        return none(ErrorKind.UNREADABLE_REPLY, "unreadable reply: cut off at the token limit")
    try:
        return unit.read(text, judge_name)
    except UnreadableError as error:
        return none(ErrorKind.UNREADABLE_REPLY, f"unreadable reply: {error}")
