"""The API judge: a chat model at an OpenAI-compatible server gives reasons first, and the verdict at the end."""

from collections.abc import Iterator, Sequence

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply
from medjudge.chat_api.spending import Spending
from medjudge.judge.protocol import Assignment, split_empty, unscored
from medjudge.languages.texts import languages_of
from medjudge.records import ErrorKind, Judgment
from medjudge.rubrics.render import render
from medjudge.rubrics.verdict import VERDICT_SCHEMA, judge_replies, read_reasoned

MAX_TOKENS = 1024
"""The most tokens of a reply."""
AFTER_REMINDER = "\n\n[asked again]\n\n"
"""Separates, in `raw`, an unreadable reply from the reply to the reminder."""


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
        max_tokens: The most tokens of a reply.

    Raises:
        InputError: There is no key in the environment, or a limit on costs and no price.
    """

    def __init__(
        self,
        model: str,
        server: Server = Server(),
        spending: Spending | None = None,
        seed: int = 0,
        max_tokens: int = MAX_TOKENS,
    ) -> None:
        self.name = file_name(model)
        self.client = ChatClient(f"--judge openai:{model}", model, server, spending)
        self.seed = seed
        self.max_tokens = max_tokens

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        if not work:
            return
        yield from self.client.gather(work, self._judgment)

    async def _judgment(self, assignment: Assignment) -> Judgment:
        request = judgment_request(assignment, self.seed, self.max_tokens)
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


def judgment_request(assignment: Assignment, seed: int = 0, max_tokens: int = MAX_TOKENS) -> ChatRequest:
    """The request for one judgment."""
    prompt = render(
        assignment.question, assignment.earlier, assignment.answer.text, "reason-first", scheme=assignment.scheme
    )
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return ChatRequest(messages, seed + assignment.round - 1, max_tokens, schema=VERDICT_SCHEMA)


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
    if reply.refusal:
        return failed_request(assignment, judge_name, reply.refusal[:200], lasting=True, raw=reply.text)
    cut_off = reply.finish_reason == "length"
    if not reply.text:
        reason = f"the server returned no text{' within the token limit' if cut_off else ''}"
        return unscored(assignment, judge_name, ErrorKind.EMPTY_REPLY, reason)
    # A truncated reply may end with a level that the model was only considering.
    if cut_off:
        return _unreadable(assignment, judge_name, "cut off at the token limit", reply.text)
    verdict, rationale = read_reasoned(reply.text)
    if verdict.score is None:
        return _unreadable(assignment, judge_name, verdict.problem, reply.text)
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


def _unreadable(assignment: Assignment, judge_name: str, problem: str | None, raw: str) -> Judgment:
    return unscored(assignment, judge_name, ErrorKind.UNREADABLE_REPLY, f"unreadable reply: {problem}", raw)
