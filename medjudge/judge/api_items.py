"""The API judge of items: a chat model gets one answer and all items of its question in one request."""

import random
from collections.abc import Iterator, Sequence

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply
from medjudge.chat_api.spending import Spending
from medjudge.item_records import ItemJudgment
from medjudge.judge.api import AFTER_REMINDER, ReplyOptions, file_name, no_verdict
from medjudge.judge.items import ItemAssignment, judged_items, split_empty_answers, unjudged_items
from medjudge.languages.texts import languages_of
from medjudge.records import ErrorKind
from medjudge.rubrics.item_prompt import ITEM_SCHEMA, item_replies, read_item_reply, render_items

_TOKENS, _TOKENS_PER_ITEM = 256, 96
"""The most tokens of a reply: a fixed part, and what each item adds."""


class ApiItemJudge:
    """Asks a chat model at an OpenAI-compatible server for a verdict on every item of an answer, in one request.

    The items stand in an order that the seed draws for each answer. After an unreadable reply the model gets one
    reminder, as for scores.

    Args:
        model: The model's name at the server.
        server: The server, its limits and retries.
        spending: The account that the requests are charged to.
        seed: Draws the orders.
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
        self.replies = replies
        self.client = ChatClient(f"--judge openai:{model}", model, server, spending)
        self.seed = seed

    def judge_items(self, assignments: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        work, empty = split_empty_answers(assignments, self.name)
        yield from empty
        if work:
            yield from self.client.gather(work, self._judgment)

    async def _judgment(self, assignment: ItemAssignment) -> ItemJudgment:
        order = item_order(assignment, self.seed)
        request = self.replies.applied(items_request(assignment, order, self.seed))
        raw: str | None = None
        try:
            reply = await self.client.ask(request)
            judgment = self._read(assignment, order, reply)
            if judgment.error_kind is not ErrorKind.UNREADABLE_REPLY or not reply.text:
                return judgment
            raw = reply.text
            texts = item_replies(assignment.question.language, languages_of(assignment.scheme))
            reminder = texts.reminder.format(problem=judgment.error, count=len(order))
            messages = [{"role": "assistant", "content": raw}, {"role": "user", "content": reminder}]
            again = await self.client.ask(request._replace(messages=request.messages + messages))
        except RequestError as error:
            kind = ErrorKind.REFUSED if error.lasting else ErrorKind.REQUEST_FAILED
            what = "the server refused" if error.lasting else "the request failed"
            return unjudged_items(assignment, self.name, kind, f"{what}: {error}", raw)
        second = self._read(assignment, order, again)
        both = raw + AFTER_REMINDER + (again.text or "")
        error_text = None if second.error is None else f"{second.error}, after a reminder"
        return second.model_copy(update={"raw": both, "error": error_text})

    def _read(self, assignment: ItemAssignment, order: Sequence[int], reply: ChatReply) -> ItemJudgment:
        """Reads the verdicts from a reply; none where it lacks one."""
        if problem := no_verdict(reply):
            return unjudged_items(assignment, self.name, problem.kind, problem.reason, reply.text or None)
        assert reply.text is not None
        read = read_item_reply(reply.text, len(order))
        if read.met is None:
            reason = f"unreadable reply: {read.problem}"
            return unjudged_items(assignment, self.name, ErrorKind.UNREADABLE_REPLY, reason, reply.text)
        met = dict(zip(order, read.met, strict=True))
        return judged_items(assignment, self.name, (met[place] for place in range(len(order))), raw=reply.text)


def item_order(assignment: ItemAssignment, seed: int) -> list[int]:
    """The places of an assignment's items in the order in which they are shown, drawn for each answer."""
    places = list(range(len(assignment.items)))
    random.Random("\x1f".join(map(str, (seed, *assignment.answer.key)))).shuffle(places)
    return places


def items_request(assignment: ItemAssignment, order: Sequence[int], seed: int = 0) -> ChatRequest:
    """The request for verdicts on all items of an answer, in an order from `item_order`."""
    items = [assignment.items[place].text for place in order]
    prompt = render_items(
        assignment.question, assignment.earlier, assignment.answer.text, items, scheme=assignment.scheme
    )
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return ChatRequest(messages, seed, _TOKENS + _TOKENS_PER_ITEM * len(items), schema=ITEM_SCHEMA)
