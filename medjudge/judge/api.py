"""The API judge: any OpenAI-compatible server, reasons first, the verdict read from the end of the reply."""

from collections.abc import Iterator, Mapping, Sequence

from tqdm import tqdm

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply
from medjudge.chat_api.spending import Spending
from medjudge.judge.protocol import Assignment, split_empty, unscored
from medjudge.records import Judgment
from medjudge.rubrics.render import render
from medjudge.rubrics.verdict import VERDICT_SCHEMA, judge_replies, read_reasoned

REQUEST_FAILED = "the request failed:"
"""Begins the error of a judgment that another try may yet bring; the next run asks again."""
REFUSED = "the server refused:"
"""Begins the error of a judgment that no other try would bring."""
MAX_TOKENS = 1024
"""The most tokens of a reply."""
ASKED_AGAIN = "\n\n[asked again]\n\n"
"""Stands in `raw` between a reply that could not be read and the second one."""
_UNREADABLE = "unreadable reply:"


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
        rubrics: Rubrics that stand in for those of the package, by `CATEGORY.language`.

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
        rubrics: Mapping[str, str] | None = None,
    ) -> None:
        self.name = file_name(model)
        self.client = ChatClient(f"--judge openai:{model}", model, server, spending)
        self.seed = seed
        self.max_tokens = max_tokens
        self.rubrics = rubrics

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
        request = judgment_request(one, self.seed, self.max_tokens, self.rubrics)
        first = None
        try:
            first = read_judgment(one, self.name, await self.client.ask(request))
            if first.raw is None or not (first.error or "").startswith(_UNREADABLE):
                return first
            reminder = [
                {"role": "assistant", "content": first.raw},
                {"role": "user", "content": judge_replies(one.question.language).reminder},
            ]
            again = request._replace(messages=request.messages + reminder)
            second = read_judgment(one, self.name, await self.client.ask(again))
        except RequestError as error:
            begins = REFUSED if error.lasting else REQUEST_FAILED
            return unscored(one, self.name, f"{begins} {error}", raw=first.raw if first else None)
        raw = first.raw + ASKED_AGAIN + (second.raw or "")
        if second.score is None:
            return unscored(one, self.name, f"{second.error}, after a reminder", raw=raw)
        return second.model_copy(update={"raw": raw})


def judgment_request(
    one: Assignment, seed: int = 0, max_tokens: int = MAX_TOKENS, rubrics: Mapping[str, str] | None = None
) -> ChatRequest:
    """What is asked for one judgment."""
    prompt = render(one.question, one.earlier, one.answer.text, "reason-first", rubrics=rubrics)
    messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
    return ChatRequest(messages, seed + one.round - 1, max_tokens, schema=VERDICT_SCHEMA)


def read_judgment(one: Assignment, judge: str, reply: ChatReply) -> Judgment:
    """The judgment in a reply, or an unscored one that says why there is none in it."""
    if reply.refusal:
        return unscored(one, judge, f"{REFUSED} {reply.refusal[:200]}", raw=reply.text)
    cut_off = reply.finish_reason == "length"
    if not reply.text:
        return unscored(one, judge, f"the server returned no text{' within the token limit' if cut_off else ''}")
    # What is cut off may end in a level that it was only weighing.
    if cut_off:
        return unscored(one, judge, f"{_UNREADABLE} cut off at the token limit", raw=reply.text)
    verdict, rationale = read_reasoned(reply.text)
    if verdict.score is None:
        return unscored(one, judge, f"{_UNREADABLE} {verdict.problem}", raw=reply.text)
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
