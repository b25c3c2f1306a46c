"""Prices of tokens, from a file that gives the date and source of every price."""

import datetime
from importlib.resources import files
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, read_yaml


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


def shipped_prices() -> Path:
    """The price file of the package."""
    return Path(str(files("medjudge") / "data" / "prices.yaml"))


def read_prices(file: Path | None = None) -> dict[str, Price]:
    """Reads prices by the model's name at the server.

    Args:
        file: A price file; None for the one of the package.

    Raises:
        InputError: The file cannot be read, or an entry is invalid.
    """
    path = file or shipped_prices()
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
