"""`medjudge eval --dry-run`: calls, tokens and price of an API judge, without sending a request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from medjudge.chat_api.client import ChatRequest, body_bytes, request_body
from medjudge.chat_api.spending import Limit, Price, Spending, example
from medjudge.errors import InputError
from medjudge.judge.items import item_assignments, item_judgments
from medjudge.judge.open import ApiRef, PanelRef
from medjudge.judge.protocol import assignments, split_empty
from medjudge.workflows.evaluate import EvaluationRequest, Prepared, prepare
from medjudge.workflows.judge import not_failed, not_judged

USUAL_REPLY = 250
"""Tokens of a reply where this run has none yet to learn from: a few sentences and a score."""
USUAL_ITEM = 35
"""Tokens of a reply for each item: its number, a few words, met or not, how sure."""


class Amount(NamedTuple):
    """An estimate and an upper bound, both in tokens or both in USD."""

    about: float
    at_most: float


@dataclass(frozen=True)
class CostEstimate:
    """Requests, tokens and price of an API judge.

    Attributes:
        model: The judge's model at its server.
        calls: Requests; reminders after unreadable replies, and a second attempt where a judge thinks, come on top.
        tokens_in: Tokens of the requests.
        tokens_out: Tokens of the replies.
        usd: The price; None where the model's price is unknown.
        price: What the price was computed from.
        applied_share: The share of the price that the Batch API takes; 1 without it.
        spent_usd: What was spent on the run before; None where a price is unknown.
    """

    model: str
    calls: int
    tokens_in: Amount
    tokens_out: Amount
    usd: Amount | None
    price: Price | None
    applied_share: float
    spent_usd: float | None

    def as_json(self) -> dict[str, Any]:
        """The object that `--dry-run --json` prints."""
        return {
            "model": self.model,
            "calls": self.calls,
            "tokens_in": self.tokens_in._asdict(),
            "tokens_out": self.tokens_out._asdict(),
            "usd": self.usd and self.usd._asdict(),
            "price": self.price and {**self.price.model_dump(mode="json"), "applied_share": self.applied_share},
            "spent_usd": self.spent_usd,
        }

    def summary_lines(self) -> list[str]:
        """The estimate for people."""
        lines = [
            f"{self.calls} calls to {self.model}, none of them made",
            f"input: about {self.tokens_in.about:,} tokens, at most {self.tokens_in.at_most:,}",
            f"output: about {self.tokens_out.about:,} tokens, at most {self.tokens_out.at_most:,}",
        ]
        if self.usd is None or self.price is None:
            return [
                *lines,
                f"price: unknown; write a line like {example(self.model)} into a file and give --prices FILE",
            ]
        share = f", {self.applied_share:g} of it for the Batch API" if self.applied_share != 1 else ""
        lines.append(
            f"price: about {self.usd.about:.2f} USD, at most {self.usd.at_most:.2f} (in {self.price.input:g}, out "
            f"{self.price.output:g} USD per million tokens{share}; {self.price.date}, {self.price.source}: compare it)"
        )
        if self.spent_usd:
            lines.append(f"spent on this run so far: {self.spent_usd:.4f} USD")
        return lines


@dataclass(frozen=True)
class PanelCostEstimate:
    """The cost of a panel's members that are API judges; the other members cost nothing."""

    members: dict[str, CostEstimate]

    def as_json(self) -> dict[str, Any]:
        """The object that `--dry-run --json` prints."""
        return {"members": {name: estimate.as_json() for name, estimate in self.members.items()}}

    def summary_lines(self) -> list[str]:
        """The estimates for people."""
        lines = []
        for name, estimate in self.members.items():
            lines += [f"member {name}:", *(f"  {line}" for line in estimate.summary_lines())]
        return lines


def estimate_cost(request: EvaluationRequest, batch_job: bool = False) -> CostEstimate | PanelCostEstimate:
    """The cost of judging those answers of an evaluation that are not judged yet; nothing is written.

    Args:
        batch_job: Whether OpenAI's Batch API would be used.

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
        return PanelCostEstimate({member.name: _of_judge(prepared, member, request) for member in asked})
    if not isinstance(judge_ref, ApiRef):
        raise InputError(f"--dry-run: for an openai: judge; {request.judge} runs on this machine and costs nothing")
    return _of_judge(prepared, judge_ref, request, batch_job)


def _of_judge(
    prepared: Prepared, judge_ref: ApiRef, request: EvaluationRequest, batch_job: bool = False
) -> CostEstimate:
    run, options = prepared.run, request.options.judging
    answers = run.answers() if prepared.answers is None else prepared.answers
    recorded = run.manifest().get("judges", {}).get(judge_ref.name, {})
    judgments = not_failed(run.judgments(judge_ref.name), options, recorded)
    work = not_judged(
        assignments(prepared.benchmark.questions, answers, options.rounds, prepared.benchmark.scheme), judgments
    )
    limited = options.replies.applied
    requests = [_Request(limited(one.request()), None) for one in split_empty(work, "")[0]]
    if request.options.items:
        recorded = run.manifest().get("item_judges", {}).get(judge_ref.name, {})
        judged = not_failed(item_judgments(run, judge_ref.name), options, recorded)
        done = {judgment.answer_key for judgment in judged}
        to_check = [
            one
            for one in item_assignments(prepared.benchmark.questions, answers, prepared.benchmark.scheme)
            if one.answer.key not in done
        ]
        requests += [
            _Request(limited(one.request()), USUAL_ITEM * len(one.items)) for one in split_empty(to_check, "")[0]
        ]
    return _estimate(requests, judge_ref.model, Spending(run, Limit(None, options.limit.prices)), batch_job)


class _Request(NamedTuple):
    """A request, and the usual tokens of its reply; None for a score, which the run's replies so far tell."""

    request: ChatRequest
    usual: int | None


def _estimate(requests: Sequence[_Request], model: str, spending: Spending, batch_job: bool) -> CostEstimate:
    """The tokens and the price of the requests, about and at most.

    At most: a token for each byte of a request, and the full length of each reply. About: as the replies of this run
    were so far; before there are any, a token for four ASCII bytes or two others. Reminders come on top.
    """
    most_in = about_in = most_out = about_out = 0
    learnt = spending.learnt()
    for request, usual in requests:
        body = request_body(model, request)
        size = body_bytes(body)
        not_ascii = size - sum(len(message["content"].encode("ascii", "ignore")) for message in body["messages"])
        most_in += size
        about_in += round(size * learnt.tokens_per_byte) if learnt else (size - not_ascii) // 4 + not_ascii // 2
        most_out += request.max_tokens
        about_out += round(usual or (learnt.tokens_out if learnt else USUAL_REPLY))
    price = spending.prices.get(model)
    share = price.batch if price and batch_job else 1.0
    usd = None
    if price is not None:
        about, at_most = price.cost(about_in, about_out), price.cost(most_in, most_out)
        usd = Amount(round(share * about, 4), round(share * at_most, 4))
    return CostEstimate(
        model=model,
        calls=len(requests),
        tokens_in=Amount(about_in, most_in),
        tokens_out=Amount(about_out, most_out),
        usd=usd,
        price=price,
        applied_share=share,
        spent_usd=spending.totals()["usd"],
    )
