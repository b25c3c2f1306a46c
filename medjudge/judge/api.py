"""The API judge: any OpenAI-compatible server, reasons first, the verdict read from the end of the reply."""

from collections.abc import Iterator, Sequence

from tqdm import tqdm

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
ASKED_AGAIN = "\n\n[asked again]\n\n"
"""Stands in `raw` between a reply that could not be read and the second one."""


def file_name(model: str) -> str:
    """A model's name as it can stand in a file name, in this folder and no other."""
    return model.strip("/.").replace("/", "--").replace("\\", "--")


class ApiJudge:
    """Asks a chat model behind an OpenAI-compatible API.

    The reply is held to a JSON schema where the server can do that, and read strictly in any case. A reply that cannot
    be read is answered with one reminder.

    Args:
        model: The model's name at the server.
        server: Where it is, and how patiently it is asked.
        spending: The account that the requests go to.
        seed: Sent with every request, plus the round, so that rounds may differ and runs do not.
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
        with tqdm(total=len(work), desc=f"judging ({self.name})", unit="answer", disable=None) as bar:
            for judgment in self.client.gather(work, self._judgment):
                yield judgment
                bar.update()

    async def _judgment(self, one: Assignment) -> Judgment:
        request = judgment_request(one, self.seed, self.max_tokens)
        first = None
        try:
            first = read_judgment(one, self.name, await self.client.ask(request))
            if first.raw is None or first.error_kind is not ErrorKind.UNREADABLE_REPLY:
                return first
            reminder = [
                {"role": "assistant", "content": first.raw},
                {"role": "user", "content": judge_replies(one.question.language, languages_of(one.scheme)).reminder},
            ]
            again = request._replace(messages=request.messages + reminder)
            second = read_judgment(one, self.name, await self.client.ask(again))
        except RequestError as error:
            return failed_request(one, self.name, str(error), error.lasting, raw=first.raw if first else None)
        raw = first.raw + ASKED_AGAIN + (second.raw or "")
        if second.error is None:
            return second.model_copy(update={"raw": raw})
        return second.model_copy(update={"raw": raw, "error": f"{second.error}, after a reminder"})


def judgment_request(one: Assignment, seed: int = 0, max_tokens: int = MAX_TOKENS) -> ChatRequest:
    """What is asked for one judgment."""
    prompt = render(one.question, one.earlier, one.answer.text, "reason-first", scheme=one.scheme)
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return ChatRequest(messages, seed + one.round - 1, max_tokens, schema=VERDICT_SCHEMA)


def failed_request(one: Assignment, judge: str, problem: str, lasting: bool, raw: str | None = None) -> Judgment:
    """The judgment of a request that got no reply.

    Args:
        problem: What the server said, or what happened to the connection.
        lasting: Whether another attempt would fail in the same way.
        raw: An earlier reply to the same assignment.
    """
    if lasting:
        return unscored(one, judge, ErrorKind.REFUSED, f"the server refused: {problem}", raw)
    return unscored(one, judge, ErrorKind.REQUEST_FAILED, f"the request failed: {problem}", raw)


def read_judgment(one: Assignment, judge: str, reply: ChatReply) -> Judgment:
    """The judgment in a reply, or an unscored one that says why there is none in it."""
    if reply.refusal:
        return failed_request(one, judge, reply.refusal[:200], lasting=True, raw=reply.text)
    cut_off = reply.finish_reason == "length"
    if not reply.text:
        reason = f"the server returned no text{' within the token limit' if cut_off else ''}"
        return unscored(one, judge, ErrorKind.EMPTY_REPLY, reason)
    # What is cut off may end in a level that it was only weighing.
    if cut_off:
        return _unreadable(one, judge, "cut off at the token limit", reply.text)
    verdict, rationale = read_reasoned(reply.text)
    if verdict.score is None:
        return _unreadable(one, judge, verdict.problem, reply.text)
    return Judgment(
        question_id=one.answer.question_id,
        model=one.answer.model,
        sample=one.answer.sample,
        judge=judge,
        round=one.round,
        score=verdict.score,
        expected=float(verdict.score),
        rationale=rationale or None,
        raw=reply.text,
    )


def _unreadable(assignment: Assignment, judge: str, problem: str | None, raw: str) -> Judgment:
    return unscored(assignment, judge, ErrorKind.UNREADABLE_REPLY, f"unreadable reply: {problem}", raw)
