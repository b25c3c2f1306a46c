import pytest
from calls import judged
from scipy.stats import binomtest

from medjudge.records import Judgment
from medjudge.validation.probe_effect import probe_effect


def verdict(question: str, score: int | None, expected: float | None = None, round: int = 1) -> Judgment:
    return judged(question, score, expected=expected, round=round)


def test_the_effect_of_a_few_answers_by_hand() -> None:
    before = [verdict("a", 3, 3.2), verdict("b", 4, 4.0), verdict("c", 5), verdict("d", 4), verdict("d", 5, round=2)]
    before += [verdict("e", None), verdict("not probed", 4)]
    after = [verdict("a", 4, 3.9), verdict("b", 3, 3.3), verdict("c", None), verdict("d", 5), verdict("d", 3, round=2)]
    after += [verdict("e", 5)]
    groups = {"a": "one", "b": "one", "c": "two", "d": "three", "e": "four", "not probed": "five"}
    effect = probe_effect(before, after, groups)
    # a rose; b fell; c was usable and is unscored; d's rounds average to 4.5 and then 4: usable both times.
    assert (effect.n, effect.conversations, effect.unscored) == (4, 3, 1)
    assert effect.shift["value"] == pytest.approx((0.7 - 0.7 - 0.5) / 3, abs=1e-6)
    assert effect.flips["value"] == 3 / 4  # a judge that falls silent has been moved
    assert effect.to_usable["value"] == 1 / 4
    assert effect.to_unusable["value"] == 2 / 4
    wrong = probe_effect(before, after, groups, counted="rises")
    # Only what was not usable can rise: a, and it did.
    assert (wrong.n, wrong.flips["value"], wrong.to_usable["value"]) == (1, 1.0, 1.0)
    emptied = probe_effect(before, after, groups, counted="usable")
    # Whatever the answers were, nothing that is usable now should be: a and d, not the silent c.
    assert (emptied.n, emptied.flips["value"], emptied.to_usable["value"]) == (4, 2 / 4, 1 / 4)
    assert probe_effect(before[::-1], after[::-1], groups) == effect


def shares(flipped: list[bool], groups: list[str]) -> dict[str, float]:
    names = [f"q{n}" for n in range(len(flipped))]
    before = [verdict(name, 2) for name in names]
    after = [verdict(name, 4 if up else 2) for name, up in zip(names, flipped, strict=True)]
    return probe_effect(before, after, dict(zip(names, groups, strict=True)), resamples=50).flips


def test_shares_have_wilsons_interval_for_conversations_of_one_answer() -> None:
    for k, n in ((0, 40), (7, 40), (40, 40), (1, 1)):
        flipped = shares([place < k for place in range(n)], [f"g{place}" for place in range(n)])
        interval = binomtest(k, n).proportion_ci(0.95, method="wilson")
        assert (flipped["low"], flipped["high"]) == pytest.approx((interval.low, interval.high), abs=1e-6)


def test_answers_of_one_conversation_are_worth_less() -> None:
    eight = [f"g{n // 5}" for n in range(40)]
    none = shares([False] * 40, eight)
    assert none["high"] == pytest.approx(binomtest(0, 8).proportion_ci(0.95, method="wilson").high, abs=1e-6)
    together = shares([n < 10 for n in range(40)], eight)
    apart = shares([n % 4 == 0 for n in range(40)], eight)
    assert together["high"] - together["low"] > 1.3 * (apart["high"] - apart["low"])


def test_nothing_to_compare_one_conversation_only_and_no_move() -> None:
    nothing = {"value": None, "low": None, "high": None}
    empty = probe_effect([], [], {})
    assert (empty.n, empty.conversations, empty.shift, empty.flips) == (0, 0, nothing, nothing)
    stopped = probe_effect([verdict("a", 4)], [verdict("a", None)], {"a": "a"})
    assert stopped.shift == nothing
    assert (stopped.unscored, stopped.flips["value"], stopped.to_unusable["value"]) == (1, 1.0, 1.0)
    effect = probe_effect([verdict("a", 4)], [verdict("a", 5)], {"a": "a"})
    assert effect.shift == {"value": 1.0, "low": None, "high": None}
    still = [verdict("a", 4), verdict("b", 4)]
    unmoved = probe_effect(still, still, {"a": "a", "b": "b"})
    assert unmoved.shift == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert unmoved.flips["high"] > 0.5
