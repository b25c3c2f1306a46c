"""Agreement with experts, of one judge and of the mean over seeds."""

import numpy as np
import pytest
from reader_examples import Example
from reader_features import Seen
from reader_tables import agreement, of_seed

from medjudge.judge.reader import FEATURES


def answers(levels: list[int]) -> Seen:
    """Answers of experts' levels; two seeds' opinions of each."""
    examples = [
        Example("q", "", "", "a", "en", tuple(np.eye(5)[level - 1]), None, str(at), "mediqa")
        for at, level in enumerate(levels)
    ]
    count = len(levels)
    by_seed = np.column_stack([np.arange(count), np.arange(count) + 2.0])
    return Seen(
        examples, np.zeros((count, FEATURES)), np.zeros(count), by_seed, np.zeros(count, bool), np.arange(count)
    )


def sure_of(levels: list[int]) -> np.ndarray:
    """Logits of level > 1, ..., > 4 that leave no doubt."""
    return np.where(np.array(levels)[:, None] > np.arange(1, 5), 20.0, -20.0)


def test_agreement_of_several_judges_is_their_mean() -> None:
    seen, right, wrong = answers([1, 2, 4, 5]), sure_of([1, 2, 4, 5]), sure_of([5, 4, 2, 1])
    assert agreement(seen, right)["usable_agreement"]["value"] == 1
    assert agreement(seen, wrong)["spearman"]["value"] == pytest.approx(-1, abs=1e-4)
    both = agreement(seen, right, wrong, right)
    assert both["usable_agreement"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    assert both["cohen_kappa"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    assert both["spearman"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    assert both["answers"] == 4


def test_the_opinion_is_the_mean_of_the_seeds_unless_one_is_chosen() -> None:
    seen = {"scored": answers([1, 5, 3]), "scored-alone": answers([1, 5, 3]), "records": answers([4])}
    assert seen["scored"].opinions.tolist() == [1, 2, 3]
    second = of_seed(seen, 1)
    assert second["scored"].opinions.tolist() == second["scored-alone"].opinions.tolist() == [2, 3, 4]
    assert second["records"].opinions.tolist() == [1]
