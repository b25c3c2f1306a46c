import numpy as np
import pytest

from medjudge.records import Judgment
from medjudge.report.paired import Duel, differences_from_best, duels, mean_levels, paired_difference
from medjudge.validation.usability import usability_interval

CONVERSATIONS = np.arange(200).astype(str)


def first(share: float, questions: int = 200) -> np.ndarray:
    return np.arange(questions) < share * questions


def test_a_difference_is_paired_over_conversations() -> None:
    usable = np.array([first(0.60), first(0.66), first(0.1)])
    worse, best, worst = differences_from_best(usable, CONVERSATIONS, resamples=2000)
    assert (best.value, best.tie) == (0, True)
    # Every question that the first can answer the second can, too: apart, although their own intervals overlap.
    assert usability_interval(usable[0], CONVERSATIONS)[1] > usability_interval(usable[1], CONVERSATIONS)[0]
    assert worse.value == pytest.approx(-6)
    assert -11 < worse.low < -6 < worse.high < -2
    assert not worse.tie
    assert not worst.tie
    swapped = np.array([first(0.60), np.roll(first(0.66), 100)])
    assert differences_from_best(swapped, CONVERSATIONS, resamples=2000)[0].tie


def test_turns_of_a_conversation_are_no_evidence_of_their_own() -> None:
    usable = np.array([np.ones(300), (np.arange(300) // 10) % 10 > 0])
    together = (np.arange(300) // 10).astype(str)
    assert not differences_from_best(usable, np.arange(300).astype(str), resamples=2000)[1].tie
    wide = differences_from_best(usable, together, resamples=2000)[1]
    assert wide.low < differences_from_best(usable, np.arange(300).astype(str), resamples=2000)[1].low - 3


def test_few_conversations_tell_no_models_apart() -> None:
    usable = np.array([first(1, 29), first(0, 29)])
    assert differences_from_best(usable, np.arange(29).astype(str), resamples=200)[1].tie
    usable = np.array([first(1, 30), first(0, 30)])
    apart = differences_from_best(usable, np.arange(30).astype(str), resamples=200)[1]
    assert not apart.tie
    assert -100 == apart.low < apart.high < -80  # all alike here, which does not mean that all would be


def test_equal_models_tie_whatever_the_order() -> None:
    ties = differences_from_best(np.array([first(0.5), first(0.5)]), CONVERSATIONS, resamples=200)
    assert [difference.tie for difference in ties] == [True, True]


def test_a_rise_is_paired_over_conversations() -> None:
    before = np.array([False] * 30 + [True] * 10)
    now = np.ones(40, dtype=bool)
    rise = paired_difference(now, before, np.arange(40).astype(str))
    assert rise.value == 75
    assert 50 < rise.low < 75 < rise.high < 95
    assert not rise.tie
    assert paired_difference(now, before, (np.arange(40) % 20).astype(str)).tie  # 20 conversations are too few
    of_seven = paired_difference(now, before, (np.arange(40) % 7).astype(str))
    assert of_seven == (75, None, None, True)
    level = paired_difference(now, now, np.arange(40).astype(str))
    assert level.value == 0
    assert level.low < 0 < level.high


def judged(question_id: str, model: str, *scores: int | None) -> list[Judgment]:
    return [
        Judgment(
            question_id=question_id,
            model=model,
            sample=sample,
            judge="j",
            score=score,
            error=None if score else "no score",
        )
        for sample, score in enumerate(scores)
    ]


def test_levels_are_means_over_samples_and_missing_where_nothing_is_scored(question) -> None:
    questions = [question(id=name) for name in "abc"]
    judgments = [*judged("a", "m", 5, 4, None), *judged("b", "m", None), *judged("x", "m", 1), *judged("a", "other", 1)]
    means = mean_levels(questions, judgments, ["m"])
    assert means.tolist()[0][0] == 4.5
    assert np.isnan(means[0, 1:]).all()


def test_every_model_meets_every_other() -> None:
    nan = float("nan")
    levels = {"a": np.array([5, 4, 3, nan, 2]), "b": np.array([4, 4, 5, 1, nan]), "c": np.array([nan] * 5)}
    table = duels(levels)
    assert table["a"] == {"b": Duel(1, 1, 1), "c": Duel(0, 0, 0)}
    assert table["b"]["a"] == Duel(1, 1, 1)
    assert set(table["c"]) == {"a", "b"}


@pytest.mark.parametrize("scores", [(5, 4, 4), (1, 2, 2)])
def test_the_same_levels_in_another_order_are_a_tie(question, scores) -> None:
    judgments = [*judged("a", "m", *scores), *judged("a", "n", *reversed(scores))]
    means = mean_levels([question(id="a")], judgments, ["m", "n"])
    assert duels(dict(zip("mn", means, strict=True)))["m"]["n"] == Duel(0, 1, 0)
