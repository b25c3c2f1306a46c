"""What the requests of a run cost so far, across restarts, and whether one more may be made.

`spending.jsonl` of a run has two lines a request: before it is sent, what it can cost at most, and after its reply the
true numbers of tokens. A request without its second line (the process was killed, the connection broke) counts with the
first: nobody knows what the server counted.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.chat_api.prices import price_of, read_prices
from medjudge.errors import InputError
from medjudge.files import json_lines
from medjudge.store import Run


class Used(NamedTuple):
    """Tokens of one request; `known` tells the server's own numbers from the most that it can be."""

    model: str
    tokens_in: int
    tokens_out: int
    known: bool
    batch: bool = False


class Limit(NamedTuple):
    """The most that a run may cost in all, USD, and the file of prices; None for no limit, and the shipped prices."""

    max_cost: float | None = None
    prices: Path | None = None


class Learnt(NamedTuple):
    """What the replies of a run took on average."""

    tokens_per_byte: float
    tokens_out: float


class Spending:
    """The account of a run.

    Args:
        run: Its folder; it must be locked while requests are made.
        limit: What it may cost.

    Raises:
        InputError: There is a limit, and a model that was asked already has no price.
    """

    def __init__(self, run: Run, limit: Limit = Limit()) -> None:
        self.run = run
        self.max_cost = limit.max_cost
        self.prices_file = limit.prices
        self.prices = read_prices(limit.prices)
        self.used: dict[str, Used] = {}
        self._replies: list[tuple[int, Used]] = []  # bytes sent, tokens
        for name, used in _read(run.spending_file) if run.spending_file.exists() else ():
            before = self.used.get(name)
            if used.known and used.tokens_in and before is not None and not before.known:
                self._replies.append((before.tokens_in, used))
            self.used[name] = used
        self.under_way: set[str] = set()
        self._next = sum(name.isdecimal() for name in self.used)
        # Kept as a sum, since it is asked for before each request.
        self.spent = 0.0 if self.max_cost is None else sum(self.cost(one) for one in self.used.values())

    def cost(self, used: Used) -> float:
        """USD; raises InputError where the model has no price."""
        price = price_of(used.model, self.prices, self.prices_file)
        return price.cost(used.tokens_in, used.tokens_out, used.batch)

    def fits(self, most: Used) -> bool:
        """Whether a request may be made, those under way counted with the most that they can cost."""
        return self.max_cost is None or self.spent + self.cost(most) <= self.max_cost

    def begin(self, most: Used) -> str:
        """Notes a request before it is sent; returns its name for `end` and `lose`."""
        name = str(self._next)
        self._next += 1
        self._note(name, most)
        self.under_way.add(name)
        return name

    def end(self, name: str, tokens_in: int, tokens_out: int) -> None:
        """Notes what a request really took; 0 where it was refused."""
        before = self.used[name]
        self._note(name, before._replace(tokens_in=tokens_in, tokens_out=tokens_out, known=True))
        self.under_way.discard(name)

    def lose(self, name: str) -> None:
        """Gives up a request whose end is not known; it counts with the most that it can have cost."""
        self.under_way.discard(name)

    def set(self, name: str, used: Used) -> None:
        """Notes a batch, or a line of one; the same again changes nothing."""
        if self.used.get(name) != used:
            self._note(name, used)

    def learnt(self) -> Learnt | None:
        """From the replies of earlier starts; None where there are fewer than 20."""
        if len(self._replies) < 20:
            return None
        tokens_in = sum(used.tokens_in for _, used in self._replies)
        tokens_out = sum(used.tokens_out for _, used in self._replies)
        return Learnt(tokens_in / sum(size for size, _ in self._replies), tokens_out / len(self._replies))

    def totals(self) -> dict[str, Any]:
        """What `run.json` says: tokens by model, the server's numbers and those only known from above apart."""
        models: dict[str, dict[str, int]] = {}
        for one in self.used.values():
            counts = models.setdefault(
                one.model, {"requests": 0, "tokens_in": 0, "tokens_out": 0, "unknown_at_most": 0}
            )
            counts["requests"] += one.tokens_in > 0
            if one.known:
                counts["tokens_in"] += one.tokens_in
                counts["tokens_out"] += one.tokens_out
            else:
                counts["unknown_at_most"] += one.tokens_in + one.tokens_out
        priced = all(model in self.prices for model in models)
        cost = sum(self.cost(one) for one in self.used.values()) if priced else None
        return {"models": models, "usd": None if cost is None else round(cost, 6)}

    def _note(self, name: str, used: Used) -> None:
        if self.max_cost is not None:
            before = self.used.get(name)
            self.spent += self.cost(used) - (self.cost(before) if before else 0.0)
        self.used[name] = used
        self.run.append(self.run.spending_file, json.dumps({"request": name, **used._asdict()}, ensure_ascii=False))


def _read(file: Path) -> Iterator[tuple[str, Used]]:
    for number, fields in json_lines(file, growing=True):
        try:
            name = fields.pop("request")
            yield name, Used(**fields)
        except (TypeError, KeyError, AttributeError):
            raise InputError(f"{file}, line {number}: no request and its tokens; restore the file") from None
