"""The API judge of pairs: a chat model compares two answers, reasons first and the verdict at the end."""

from collections.abc import Iterator, Sequence

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply
from medjudge.chat_api.spending import Spending
from medjudge.judge.api import AFTER_REMINDER, MAX_TOKENS, ReplyOptions, file_name, no_verdict
from medjudge.judge.pairs import PairAssignment, judged_pair, split_empty_pairs, unjudged_pair
from medjudge.languages.texts import languages_of
from medjudge.pair_records import PairJudgment
from medjudge.records import ErrorKind
from medjudge.rubrics.pair_prompt import PAIR_SCHEMA, pair_replies, read_pair_reply, render_pair


class ApiPairJudge:
    """Asks a chat model at an OpenAI-compatible server which of two answers is better.

    After an unreadable reply the model gets one reminder, as for single answers.

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
        self.replies = replies
        self.client = ChatClient(f"--judge openai:{model}", model, server, spending)

    def judge_pairs(self, assignments: Sequence[PairAssignment]) -> Iterator[PairJudgment]:
        work, empty = split_empty_pairs(assignments, self.name)
        yield from empty
        if work:
            yield from self.client.gather(work, self._judgment)

    async def _judgment(self, assignment: PairAssignment) -> PairJudgment:
        request = self.replies.applied(_request(assignment))
        raw: str | None = None
        try:
            reply = await self.client.ask(request)
            judgment = _read(assignment, self.name, reply)
            if judgment.error_kind is not ErrorKind.UNREADABLE_REPLY or not reply.text:
                return judgment
            raw = reply.text
            reminder = pair_replies(assignment.question.language, languages_of(assignment.scheme)).reminder
            messages = [{"role": "assistant", "content": raw}, {"role": "user", "content": reminder}]
            again = await self.client.ask(request._replace(messages=request.messages + messages))
        except RequestError as error:
            kind = ErrorKind.REFUSED if error.lasting else ErrorKind.REQUEST_FAILED
            what = "the server refused" if error.lasting else "the request failed"
            return unjudged_pair(assignment, self.name, kind, f"{what}: {error}", raw)
        second = _read(assignment, self.name, again)
        both = raw + AFTER_REMINDER + (again.text or "")
        error_text = None if second.error is None else f"{second.error}, after a reminder"
        return second.model_copy(update={"raw": both, "error": error_text})


def _request(assignment: PairAssignment) -> ChatRequest:
    prompt = render_pair(
        assignment.question,
        assignment.earlier,
        assignment.first.text,
        assignment.second.text,
        "reason-first",
        scheme=assignment.scheme,
    )
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return ChatRequest(messages, 0, MAX_TOKENS, schema=PAIR_SCHEMA)


def _read(assignment: PairAssignment, judge_name: str, reply: ChatReply) -> PairJudgment:
    """Reads the verdict from a reply; none where the reply states none."""
    if problem := no_verdict(reply):
        return unjudged_pair(assignment, judge_name, problem.kind, problem.reason, reply.text or None)
    assert reply.text is not None
    verdict = read_pair_reply(reply.text)
    if verdict.preferred is None:
        reason = f"unreadable reply: {verdict.problem}"
        return unjudged_pair(assignment, judge_name, ErrorKind.UNREADABLE_REPLY, reason, reply.text)
    return judged_pair(assignment, judge_name, verdict.preferred, rationale=verdict.rationale or None, raw=reply.text)
