import numpy as np
import pytest

from medjudge.records import Question
from medjudge.report.paired import Difference, paired_differences, ties
from medjudge.statistics.estimates import clustered_wilson

CONVERSATIONS = np.arange(200).astype(str)


def first(share: float, questions: int = 200) -> np.ndarray:
    return np.arange(questions) < share * questions


def asked(groups: np.ndarray) -> list[Question]:
    fields = {"category": "MK", "prompt": "?", "language": "en"}
    return [Question(id=str(n), group=group, **fields) for n, group in enumerate(groups)]


def behind_best(*usable: np.ndarray, groups: np.ndarray = CONVERSATIONS) -> list[Difference]:
    return list(ties(asked(groups), {str(name): row for name, row in enumerate(usable)}).values())


def test_a_difference_is_paired_over_conversations() -> None:
    near, good = first(0.60), first(0.66)
    worse, best, worst = behind_best(near, good, first(0.1))
    assert (best.value, best.tie) == (0, True)
    # Every question that the first can answer the second can, too: apart, although their own intervals overlap.
    assert clustered_wilson(near, CONVERSATIONS).high > clustered_wilson(good, CONVERSATIONS).low
    assert worse.value == pytest.approx(-6)
    assert -11 < worse.low < -6 < worse.high < -2
    assert (worse.tie, worst.tie) == (False, False)
    assert behind_best(near, np.roll(good, 100))[0].tie
    assert [difference.tie for difference in behind_best(near, near)] == [True, True]  # whatever the order


def test_turns_of_a_conversation_are_no_evidence_of_their_own() -> None:
    all_usable, some = np.ones(300), (np.arange(300) // 10) % 10 > 0
    alone = behind_best(all_usable, some, groups=np.arange(300).astype(str))[1]
    assert not alone.tie
    assert behind_best(all_usable, some, groups=(np.arange(300) // 10).astype(str))[1].low < alone.low - 3


@pytest.mark.parametrize(("conversations", "tie"), [(29, True), (30, False)])
def test_few_conversations_tell_no_models_apart(conversations, tie) -> None:
    groups = np.arange(conversations).astype(str)
    worse = behind_best(first(1, conversations), first(0, conversations), groups=groups)[1]
    assert worse.tie == tie
    assert -100 == worse.low < worse.high < -80  # all alike here, which does not mean that all would be


def test_a_rise_is_paired_over_conversations() -> None:
    before, now = np.array([False] * 30 + [True] * 10), np.ones(40, dtype=bool)

    def rise(then: np.ndarray, conversations: int) -> Difference:
        questions = asked((np.arange(40) % conversations).astype(str))
        (difference,) = paired_differences(questions, now[None], then[None])
        return difference

    clear = rise(before, 40)
    assert clear.value == 75
    assert 50 < clear.low < 75 < clear.high < 95
    assert not clear.tie
    assert rise(before, 20).tie  # 20 conversations are too few
    assert rise(before, 7) == (75, None, None, True)
    level = rise(now, 40)
    assert level.low < level.value == 0 < level.high
