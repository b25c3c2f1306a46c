"""Which facts of a text can be compared, and which of them say the same."""

import pytest

from medjudge.text.facts import BARE, DENIAL, Fact, facts_of, is_opposite, same_fact


def quantities(text: str) -> list[tuple[str, float]]:
    """Kind and value of a text's quantities."""
    return [
        (fact.kind, round(fact.value, 6)) for fact in facts_of(text) if fact.kind != DENIAL and not is_opposite(fact)
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Glucose of 7.0 mmol/L (126 mg/dL)", [("amount/volume", 0.007), ("mass/volume", 1.26)]),
        ("0.5 g, or 500 mg", [("mass", 0.5), ("mass", 0.5)]),
        ("每次5毫克，连续2~3周", [("mass", 0.005), ("time", 14), ("time", 21)]),
        ("for two weeks", [("time", 14)]),
        ("between 30 and 44 %", [("share", 30), ("share", 44)]),
        ("百分之三十", [("share", 30)]),
        ("百分之三十到百分之40", [("share", 30), ("share", 40)]),
        ("1.73 m²", [("area", 1.73)]),
        ("pH 7.35", [(BARE, 7.35)]),
        ("1,200 mL", [("volume", 1.2)]),
        # The numbers of a list, a drug's or a vitamin's name, and an ordinal are no quantities.
        ("1. Rest\n2) Drink", []),
        ("Vitamin B12 and HbA1c", []),
        ("第一，休息", []),
    ],
)
def test_quantities_are_read_with_their_measure_and_size(text: str, expected: list[tuple[str, float]]) -> None:
    assert quantities(text) == expected


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1000 mg a day", "1 g a day", True),
        ("12 months", "one year", True),
        ("4 weeks", "1 month", True),
        ("4 weeks", "6 weeks", False),
        ("5 mg", "5 g", False),
        ("5 mg", "50 mg", False),
        ("28 mmol/L", "28", True),
        ("28 mmol/L", "29", False),
        ("500 mg", "500毫克", True),
        ("39 ℃", "39摄氏度", True),
        ("3 days", "3 mg", False),
    ],
)
def test_quantities_say_the_same_in_whatever_unit(one: str, other: str, same: bool) -> None:
    (first,), (second,) = facts_of(one), facts_of(other)
    assert same_fact(first, second) is same


@pytest.mark.parametrize(
    ("one", "other"),
    [("the left kidney", "the right kidney"), ("raised", "lowered"), ("血钾升高", "血钾降低"), ("餐前", "餐后")],
)
def test_opposites_are_one_kind_with_two_values(one: str, other: str) -> None:
    (first,), (second,) = facts_of(one), facts_of(other)
    assert is_opposite(first)
    assert first.kind == second.kind
    assert not same_fact(first, second)


def test_a_denial_is_a_word_of_its_own() -> None:
    def denials(text: str) -> list[Fact]:
        return [fact for fact in facts_of(text) if fact.kind == DENIAL]

    assert len(denials("It is not safe, and you must never do it; don't.")) == 3
    assert not denials("Nothing noted in this knot.")
    assert len(denials("不应使用，无需复查")) == 2
    assert not denials("不仅如此")


def test_words_inside_other_words_are_no_facts() -> None:
    assert not facts_of("Slowly swallow; the overview is bright.")
