"""Limits of a run's requests: the cost, across restarts, by prices from a file, and the tokens per minute.

`spending.jsonl` of a run has two lines per request: the most tokens it can use, written before it is sent, and the true
numbers, written after the reply. A request without the second line (the process was killed, or the connection broke)
counts with the first, because it is unknown what the server billed.
"""

import asyncio
import datetime
import json
import time
from collections import deque
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, json_lines, read_yaml
from medjudge.store import Run


class Price(BaseModel):
    """The price of one model, in USD per million tokens; `batch` is the factor for the Batch API."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    input: Annotated[float, Field(ge=0)]
    output: Annotated[float, Field(ge=0)]
    batch: Annotated[float, Field(ge=0, le=1)] = 1.0
    date: datetime.date
    source: Annotated[str, Field(min_length=1)]

    def cost(self, tokens_in: int, tokens_out: int, batch: bool = False) -> float:
        """The cost in USD."""
        return (tokens_in * self.input + tokens_out * self.output) / 1e6 * (self.batch if batch else 1.0)


def read_prices(file: Path | None = None) -> dict[str, Price]:
    """Read prices by the model's name at the server.

    Args:
        file: A price file; None for the one of the package.

    Raises:
        InputError: The file cannot be read, or an entry is invalid.
    """
    path = file or Path(str(files("medjudge") / "data" / "prices.yaml"))
    entries = read_yaml(path)
    if not isinstance(entries, dict):
        raise InputError(f"{path}: no prices by model; an entry looks like {example('MODEL')}")
    prices = {}
    for model, fields in entries.items():
        try:
            prices[str(model)] = Price.model_validate(fields)
        except ValidationError as error:
            problem = first_problem(error)
            raise InputError(f"{path}: {model}: {problem}; an entry looks like {example('MODEL')}") from None
    return prices


def price_of(model: str, prices: dict[str, Price], file: Path | None = None) -> Price:
    """The price of a model.

    Raises:
        InputError: The file has no price of it; the message says which line to add.
    """
    if model not in prices:
        raise InputError(
            f"{file or 'the prices that come with medjudge'}: no price of {model}; write a line like {example(model)} "
            "into a file and give --prices FILE"
        )
    return prices[model]


def example(model: str) -> str:
    """An example of an entry in a price file."""
    today = datetime.date.today().isoformat()
    return f"'{model}: {{input: 1.25, output: 5.00, batch: 0.5, date: {today}, source: the price list you read}}'"


class Used(NamedTuple):
    """The tokens of one request: the server's numbers if `known`, else the most that it can use."""

    model: str
    tokens_in: int
    tokens_out: int
    known: bool
    batch: bool = False


class Limit(NamedTuple):
    """The most that a run may cost, in USD, and the price file; None for no limit, and for the package's prices."""

    max_cost: float | None = None
    prices: Path | None = None


class Spending:
    """The account of a run.

    Args:
        run: The run folder; it must be locked while requests are sent.

    Raises:
        InputError: There is a limit, and a model with earlier requests has no price.
    """

    def __init__(self, run: Run, limit: Limit = Limit()) -> None:
        self.run = run
        self.max_cost = limit.max_cost
        self.prices_file = limit.prices
        self.prices = read_prices(limit.prices)
        self.used: dict[str, Used] = dict(_read(run.spending_file) if run.spending_file.exists() else ())
        self.in_flight = 0
        self._next = sum(name.isdecimal() for name in self.used)
        # A running total, because it is needed before each request.
        self.spent = 0.0 if self.max_cost is None else sum(self.cost(used) for used in self.used.values())

    def cost(self, used: Used) -> float:
        """The cost in USD; raises InputError if the model has no price."""
        price = price_of(used.model, self.prices, self.prices_file)
        return price.cost(used.tokens_in, used.tokens_out, used.batch)

    def fits(self, most: Used) -> bool:
        """True if another request fits the limit. Requests in flight count with the most that they can cost."""
        return self.max_cost is None or self.spent + self.cost(most) <= self.max_cost

    def begin(self, most: Used) -> str:
        """Record a request before it is sent; return its name for `end`."""
        name = str(self._next)
        self._next += 1
        self._note(name, most)
        self.in_flight += 1
        return name

    def end(self, name: str, tokens: tuple[int, int] | None) -> None:
        """Record the tokens that a request used: 0 if it was refused; None keeps the most that it can have used."""
        if tokens is not None:
            self._note(name, self.used[name]._replace(tokens_in=tokens[0], tokens_out=tokens[1], known=True))
        self.in_flight -= 1

    def set(self, name: str, used: Used) -> None:
        """Record a batch job, or one of its results; recording the same again changes nothing."""
        if self.used.get(name) != used:
            self._note(name, used)

    def usd_of(self, model: str) -> float | None:
        """The cost of all requests to a model, at most where the outcome is unknown; None without a price."""
        if model not in self.prices:
            return None
        return round(sum(self.cost(used) for used in self.used.values() if used.model == model), 6)

    def totals(self) -> dict[str, Any]:
        """The entry of `run.json`: tokens by model, the server's numbers separate from those of unknown outcome."""
        models: dict[str, dict[str, int]] = {}
        for used in self.used.values():
            none = dict.fromkeys(("requests", "tokens_in", "tokens_out", "unknown_at_most"), 0)
            counts = models.setdefault(used.model, none)
            counts["requests"] += used.tokens_in > 0
            if used.known:
                counts["tokens_in"] += used.tokens_in
                counts["tokens_out"] += used.tokens_out
            else:
                counts["unknown_at_most"] += used.tokens_in + used.tokens_out
        priced = all(model in self.prices for model in models)
        cost = sum(self.cost(used) for used in self.used.values()) if priced else None
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
            raise InputError(f"{file}, line {number}: not a request with its tokens; restore the file") from None


class Pace:
    """Limits the tokens in any window of time.

    A request larger than the limit is sent alone, as it could otherwise never be sent.

    Args:
        tokens: The most tokens in a window; None for no limit.
    """

    def __init__(self, tokens: int | None, seconds: float = 60.0) -> None:
        self.tokens = tokens
        self.seconds = seconds
        self._sent: deque[list[float]] = deque()  # [time, tokens], oldest first

    async def take(self, tokens: int) -> list[float]:
        """Wait until the tokens fit; return time and tokens, which the caller sets to the true number."""
        while True:
            now = time.monotonic()
            while self._sent and self._sent[0][0] <= now - self.seconds:
                self._sent.popleft()
            if self.tokens is None or not self._sent or sum(sent for _, sent in self._sent) + tokens <= self.tokens:
                entry = [now, float(tokens)]
                self._sent.append(entry)
                return entry
            await asyncio.sleep(self._sent[0][0] + self.seconds - now)
