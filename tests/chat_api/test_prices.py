import datetime
from pathlib import Path

import pytest

from medjudge.chat_api.spending import example, price_of, read_prices
from medjudge.errors import InputError


def test_every_shipped_price_has_a_date_and_a_source() -> None:
    prices = read_prices()
    assert prices
    for price in prices.values():
        assert price.date <= datetime.date.today()
        assert price.source.startswith("https://")
    price = prices["gpt-4o"]
    assert price.cost(1_000_000, 1_000_000) == price.input + price.output
    assert price.cost(0, 1000, batch=True) == pytest.approx(price.output / 1000 * price.batch)


def test_an_unknown_model_is_refused_with_a_line_that_works_when_it_is_added(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no price of mine; write a line like 'mine: ") as caught:
        price_of("mine", read_prices())
    assert example("mine") in str(caught.value)
    (tmp_path / "prices.yaml").write_text(example("mine").strip("'"))
    assert price_of("mine", read_prices(tmp_path / "prices.yaml")).batch == 0.5


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("gpt: {input: 1, output: 2, source: x}", "gpt: date: Field required"),
        ("gpt: {input: -1, output: 2, date: 2025-01-01, source: x}", "gpt: input: .*greater than or equal to 0"),
        ("gpt: {input: 1, output: 2, date: 2025-01-01, source: x, currency: EUR}", "gpt: currency: Extra inputs"),
        ("[1, 2", "not valid YAML"),
        ("- gpt", "no prices by model"),
        ("gpt: 3", "gpt: Input should be a valid dictionary .*found 3"),
    ],
)
def test_a_wrong_file_is_named_with_its_field(tmp_path: Path, text: str, part: str) -> None:
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(InputError, match=part) as caught:
        read_prices(tmp_path / "prices.yaml")
    assert str(tmp_path / "prices.yaml") in str(caught.value)
    assert "\n" not in str(caught.value)
