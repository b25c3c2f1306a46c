"""The API judge: a chat model at an OpenAI-compatible server gives reasons first, and the verdict at the end."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from medjudge.answer.thinking import check_thinking
from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply
from medjudge.chat_api.spending import Spending
from medjudge.judge.protocol import Assignment, split_empty, unscored
from medjudge.languages.texts import languages_of
from medjudge.records import ErrorKind, Judgment
from medjudge.rubrics.render import render
from medjudge.rubrics.verdict import VERDICT_SCHEMA, judge_replies, read_reasoned

MAX_TOKENS = 1024
"""The most tokens of a reply, without a thought."""
AFTER_REMINDER = "\n\n[asked again]\n\n"
"""Separates, in `raw`, an unreadable reply from the reply to the reminder."""


class ReplyOptions(NamedTuple):
    """How an API judge may reply.

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


def reply_options(tokens: int | None, thinking: str, thought: int = ReplyOptions().thought) -> ReplyOptions:
    """Reads `--judge-tokens` and `--thinking` (`on`, `off` or `default`).

    Raises:
        InputError: There is no such mode.
    """
    check_thinking(thinking)
    return ReplyOptions(tokens, None if thinking == "default" else thinking == "on", thought)


class NoVerdict(NamedTuple):
    """Why nothing is read from a reply, whatever it says."""

    kind: ErrorKind
    reason: str


def no_verdict(reply: ChatReply) -> NoVerdict | None:
    """Says why a reply is not read: refused, broken off, without a text, or cut off; None where it is complete."""
    if reply.refusal:
        return NoVerdict(ErrorKind.REFUSED, f"the server refused: {reply.refusal[:200]}")
    if reply.broke_off:
        return NoVerdict(ErrorKind.REQUEST_FAILED, f"the request failed: the reply broke off ({reply.finish_reason})")
    if reply.finish_reason == "length" and reply.without_answer:
        return NoVerdict(
            ErrorKind.EMPTY_REPLY, "the server returned no text within the token limit; raise --judge-tokens"
        )
    if not (reply.text or "").strip():
        thought = ", only a thought" if reply.thinking else ""
        return NoVerdict(ErrorKind.EMPTY_REPLY, f"the server returned no text{thought}")
    # A truncated reply may end with a level that the model was only considering.
    if reply.finish_reason == "length":
        return NoVerdict(ErrorKind.UNREADABLE_REPLY, "unreadable reply: cut off at the token limit")
    return None


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
        seed: Sent with every request, plus the round: rounds may differ, repeated runs should not.
        replies: How long the replies may be, and whether the model thinks first.

    Raises:
        InputError: There is no key in the environment, or a limit on costs and no price.
    """

    def __init__(
        self,
        model: str,
        server: Server = Server(),
        spending: Spending | None = None,
        seed: int = 0,
        replies: ReplyOptions = ReplyOptions(),
    ) -> None:
        self.name = file_name(model)
        self.client = ChatClient(f"--judge openai:{model}", model, server, spending)
        self.seed = seed
        self.replies = replies

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        if not work:
            return
        yield from self.client.gather(work, self._judgment)

    async def _judgment(self, assignment: Assignment) -> Judgment:
        request = self.replies.applied(judgment_request(assignment, self.seed))
        first = None
        try:
            first = read_judgment(assignment, self.name, await self.client.ask(request))
            if first.raw is None or first.error_kind is not ErrorKind.UNREADABLE_REPLY:
                return first
            reminder = [
                {"role": "assistant", "content": first.raw},
                {
                    "role": "user",
                    "content": judge_replies(assignment.question.language, languages_of(assignment.scheme)).reminder,
                },
            ]
            again = request._replace(messages=request.messages + reminder)
            second = read_judgment(assignment, self.name, await self.client.ask(again))
        except RequestError as error:
            return failed_request(assignment, self.name, str(error), error.lasting, raw=first.raw if first else None)
        raw = first.raw + AFTER_REMINDER + (second.raw or "")
        if second.error is None:
            return second.model_copy(update={"raw": raw})
        return second.model_copy(update={"raw": raw, "error": f"{second.error}, after a reminder"})


def judgment_request(assignment: Assignment, seed: int = 0) -> ChatRequest:
    """The request for one judgment."""
    prompt = render(
        assignment.question, assignment.earlier, assignment.answer.text, "reason-first", scheme=assignment.scheme
    )
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return ChatRequest(messages, seed + assignment.round - 1, MAX_TOKENS, schema=VERDICT_SCHEMA)


def failed_request(
    assignment: Assignment, judge_name: str, problem: str, lasting: bool, raw: str | None = None
) -> Judgment:
    """The unscored judgment of a request without a reply.

    Args:
        problem: The server's message, or what happened to the connection.
        lasting: Whether another attempt would fail in the same way.
        raw: An earlier reply to the same assignment.
    """
    if lasting:
        return unscored(assignment, judge_name, ErrorKind.REFUSED, f"the server refused: {problem}", raw)
    return unscored(assignment, judge_name, ErrorKind.REQUEST_FAILED, f"the request failed: {problem}", raw)


def read_judgment(assignment: Assignment, judge_name: str, reply: ChatReply) -> Judgment:
    """Reads the judgment from a reply; unscored if the reply contains none."""
    if problem := no_verdict(reply):
        return unscored(assignment, judge_name, problem.kind, problem.reason, reply.text or None)
    assert reply.text is not None
    verdict, rationale = read_reasoned(reply.text)
    if verdict.score is None:
        reason = f"unreadable reply: {verdict.problem}"
        return unscored(assignment, judge_name, ErrorKind.UNREADABLE_REPLY, reason, reply.text)
    return Judgment(
        question_id=assignment.answer.question_id,
        model=assignment.answer.model,
        sample=assignment.answer.sample,
        judge=judge_name,
        round=assignment.round,
        score=verdict.score,
        expected=float(verdict.score),
        rationale=rationale or None,
        raw=reply.text,
    )
