"""What `medjudge eval --dry-run` says: calls, tokens and price of an API judge, with nothing asked."""

from collections.abc import Sequence
from typing import Any

from medjudge.chat_api.client import body_bytes, request_body
from medjudge.chat_api.prices import example
from medjudge.chat_api.spending import Spending
from medjudge.judge.api import MAX_TOKENS, judgment_request
from medjudge.judge.protocol import Assignment, split_empty

USUAL_REPLY = 250
"""Tokens of a reply where this run has none yet to learn from: a few sentences and a score."""


def estimate(work: Sequence[Assignment], model: str, spending: Spending, batch: bool) -> dict[str, Any]:
    """What judging `work` takes, about and at most.

    At most: a token for each byte of a request, and the full length of each reply. About: as the replies of this run
    were so far; before there are any, a token for four ASCII bytes or two others. Reminders come on top.
    """
    asked, _ = split_empty(work, "")
    most_in = about_in = 0
    learnt = spending.learnt()
    for one in asked:
        body = request_body(model, judgment_request(one))
        size = body_bytes(body)
        others = size - sum(len(message["content"].encode("ascii", "ignore")) for message in body["messages"])
        most_in += size
        about_in += round(size * learnt.tokens_per_byte) if learnt else (size - others) // 4 + others // 2
    most_out = len(asked) * MAX_TOKENS
    about_out = round(len(asked) * (learnt.tokens_out if learnt else USUAL_REPLY))
    price = spending.prices.get(model)
    share = price.batch if price and batch else 1.0
    return {
        "model": model,
        "calls": len(asked),
        "tokens_in": {"about": about_in, "at_most": most_in},
        "tokens_out": {"about": about_out, "at_most": most_out},
        "usd": price
        and {
            "about": round(share * price.cost(about_in, about_out), 4),
            "at_most": round(share * price.cost(most_in, most_out), 4),
        },
        "price": price and {**price.model_dump(mode="json"), "applied_share": share},
        "spent_usd": spending.totals()["usd"],
    }


def told(found: dict[str, Any]) -> list[str]:
    """The estimate for people."""
    tokens_in, tokens_out, usd, price = found["tokens_in"], found["tokens_out"], found["usd"], found["price"]
    lines = [
        f"{found['calls']} calls to {found['model']}, none of them made",
        f"input: about {tokens_in['about']:,} tokens, at most {tokens_in['at_most']:,}",
        f"output: about {tokens_out['about']:,} tokens, at most {tokens_out['at_most']:,}",
    ]
    if usd is None:
        return [
            *lines,
            f"price: unknown; write a line like {example(found['model'])} into a file and give --prices FILE",
        ]
    share = f", {price['applied_share']:g} of it for the Batch API" if price["applied_share"] != 1 else ""
    lines.append(
        f"price: about {usd['about']:.2f} USD, at most {usd['at_most']:.2f} (in {price['input']:g}, out "
        f"{price['output']:g} USD a million tokens{share}; {price['date']}, {price['source']}: compare it)"
    )
    return lines if not found["spent_usd"] else [*lines, f"spent on this run so far: {found['spent_usd']:.4f} USD"]
