import numpy as np
import pytest

from medjudge.report.ties import differences_from_best
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
