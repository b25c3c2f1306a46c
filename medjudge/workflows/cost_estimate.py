"""`medjudge eval --dry-run`: calls, tokens and price of an API judge, without sending a request."""

from pydantic import BaseModel

from medjudge.chat_api.client import body_bytes, request_body
from medjudge.chat_api.spending import Limit, Price, Spending, example
from medjudge.errors import InputError
from medjudge.judge.items import item_assignments, item_judgments
from medjudge.judge.open import ApiRef, PanelRef
from medjudge.judge.protocol import assignments, split_empty
from medjudge.workflows.evaluate import EvaluationRequest, Prepared, prepare
from medjudge.workflows.judge import not_failed, not_judged

USUAL_REPLY = 250
"""Tokens of a reply with a score: a few sentences and the score."""
USUAL_ITEM = 35
"""Tokens of a reply for each item: its number, a few words, met or not, how sure."""


class Amount(BaseModel):
    """An estimate and an upper bound, both in tokens or both in USD."""

    about: int | float
    at_most: int | float


class AppliedPrice(Price):
    """A price, and the share of it that is taken: 1 without the Batch API."""

    applied_share: float


class CostEstimate(BaseModel):
    """Requests, tokens and price of an API judge; `--dry-run --json` prints the fields.

    Attributes:
        model: The judge's model at its server.
        calls: Requests; reminders after unreadable replies, and a second attempt where a judge thinks, come on top.
        tokens_in: Tokens of the requests.
        tokens_out: Tokens of the replies.
        usd: The price; None where the model's price is unknown.
        price: What the price was computed from.
        spent_usd: What was spent on the run before; None where a price is unknown.
    """

    model: str
    calls: int
    tokens_in: Amount
    tokens_out: Amount
    usd: Amount | None = None
    price: AppliedPrice | None = None
    spent_usd: float | None

    def summary_lines(self) -> list[str]:
        """The estimate for people."""
        lines = [
            f"{self.calls} calls to {self.model}, none of them made",
            f"input: about {self.tokens_in.about:,} tokens, at most {self.tokens_in.at_most:,}",
            f"output: about {self.tokens_out.about:,} tokens, at most {self.tokens_out.at_most:,}",
        ]
        if self.usd is None or self.price is None:
            line = example(self.model)
            return [*lines, f"price: unknown; write a line like {line} into a file and give --prices FILE"]
        taken = self.price.applied_share
        share = f", {taken:g} of it for the Batch API" if taken != 1 else ""
        lines.append(
            f"price: about {self.usd.about:.2f} USD, at most {self.usd.at_most:.2f} (in {self.price.input:g}, out "
            f"{self.price.output:g} USD per million tokens{share}; {self.price.date}, {self.price.source}: compare it)"
        )
        if self.spent_usd:
            lines.append(f"spent on this run so far: {self.spent_usd:.4f} USD")
        return lines


def estimate_cost(request: EvaluationRequest, batch_job: bool = False) -> CostEstimate | dict[str, CostEstimate]:
    """The cost of judging those answers of an evaluation that are not judged yet; nothing is written.

    Args:
        batch_job: Whether OpenAI's Batch API would be used.

    Returns:
        Of a panel, the cost of each member that is an API judge, by name; the other members cost nothing.

    Raises:
        InputError: The request is wrong, or neither its judge nor a member of its panel is an `openai:` judge.
    """
    if request.models:
        raise InputError("--dry-run: the answers of --model do not exist yet; run `medjudge answer` first")
    if batch_job and request.options.items:
        raise InputError("--batch: not with --items; estimate the two one at a time")
    prepared = prepare(request, sends_requests=False)
    judge_ref = prepared.judge_ref
    if isinstance(judge_ref, PanelRef):
        if batch_job:
            raise InputError("--batch: not with a panel; estimate its openai: member alone, as --judge")
        asked = [member for member in judge_ref.members if isinstance(member, ApiRef)]
        if not asked:
            raise InputError(f"--dry-run: all members of {request.judge} run on this machine and cost nothing")
        return {member.name: _of_judge(prepared, member, request) for member in asked}
    if not isinstance(judge_ref, ApiRef):
        raise InputError(f"--dry-run: for an openai: judge; {request.judge} runs on this machine and costs nothing")
    return _of_judge(prepared, judge_ref, request, batch_job)


def _of_judge(
    prepared: Prepared, judge_ref: ApiRef, request: EvaluationRequest, batch_job: bool = False
) -> CostEstimate:
    run, options = prepared.run, request.options.judging
    questions, scheme = prepared.benchmark.questions, prepared.benchmark.scheme
    answers = run.answers() if prepared.answers is None else prepared.answers
    recorded = run.manifest().get("judges", {}).get(judge_ref.name, {})
    judgments = not_failed(run.judgments(judge_ref.name), options, recorded)
    work = not_judged(assignments(questions, answers, options.rounds, scheme), judgments)
    limited = options.replies.applied
    requests = [(limited(one.request()), USUAL_REPLY) for one in split_empty(work, "")[0]]
    if request.options.items:
        recorded = run.manifest().get("item_judges", {}).get(judge_ref.name, {})
        done = {each.answer_key for each in not_failed(item_judgments(run, judge_ref.name), options, recorded)}
        to_check = [one for one in item_assignments(questions, answers, scheme) if one.answer.key not in done]
        requests += [(limited(one.request()), USUAL_ITEM * len(one.items)) for one in split_empty(to_check, "")[0]]
    # At most: a token for each byte of a request. About: a token for four ASCII bytes or two others.
    most_in = about_in = 0
    for one, _ in requests:
        body = request_body(judge_ref.model, one)
        size = body_bytes(body)
        not_ascii = size - sum(len(message["content"].encode("ascii", "ignore")) for message in body["messages"])
        most_in += size
        about_in += (size - not_ascii) // 4 + not_ascii // 2
    about_out, most_out = sum(usual for _, usual in requests), sum(one.max_tokens for one, _ in requests)
    spending = Spending(run, Limit(None, options.limit.prices))
    estimate = CostEstimate(
        model=judge_ref.model,
        calls=len(requests),
        tokens_in=Amount(about=about_in, at_most=most_in),
        tokens_out=Amount(about=about_out, at_most=most_out),
        spent_usd=spending.totals()["usd"],
    )
    if price := spending.prices.get(judge_ref.model):
        about, at_most = price.cost(about_in, about_out, batch_job), price.cost(most_in, most_out, batch_job)
        estimate.usd = Amount(about=round(about, 4), at_most=round(at_most, 4))
        estimate.price = AppliedPrice(**price.model_dump(), applied_share=price.batch if batch_job else 1.0)
    return estimate
