import numpy as np

from medjudge.statistics.davidson import most_informative

NOTHING = (np.array([], dtype=int), np.array([], dtype=int), np.empty((0, 3)))


def pairs(models: int, questions: int) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = np.triu_indices(models, k=1)
    return np.tile(rows, questions), np.tile(columns, questions)


def test_without_results_every_pair_of_models_is_as_informative() -> None:
    first, second = pairs(4, 10)
    chosen = most_informative(*NOTHING, first, second, 4, 12)
    counted = {}
    for index in chosen:
        counted[first[index], second[index]] = counted.get((first[index], second[index]), 0) + 1
    assert sorted(counted.values()) == [2] * 6
    assert len(set(chosen.tolist())) == 12


def test_models_that_are_close_come_before_models_that_are_far_apart() -> None:
    # As many comparisons of each pair: 0 and 1 split theirs, 2 and 3 too, and 0 always beats 2.
    first, second = np.repeat([0, 2, 0], 40), np.repeat([1, 3, 2], 40)
    even = [[1, 0, 0], [0, 0, 1]] * 20
    outcomes = np.array(even + even + [[1, 0, 0]] * 40)
    opened = np.array([1, 0]), np.array([3, 1])  # 1 and 3 are far apart, 0 and 1 close
    before = most_informative(first, second, np.array(even * 3), *opened, 4, 1)
    assert before.tolist() == [0]  # all four alike: 1 and 3 were never compared
    kinds = most_informative(first, second, outcomes, np.repeat(opened[0], 500), np.repeat(opened[1], 500), 4, 500)
    assert (kinds >= 500).sum() > 100


def test_a_model_with_no_comparison_comes_first() -> None:
    first, second = np.zeros(10, dtype=int), np.ones(10, dtype=int)
    outcomes = np.tile([[1, 0, 0], [0, 0, 1]], (5, 1))
    opened = pairs(3, 5)
    chosen = most_informative(first, second, outcomes, *opened, 3, 4)
    assert all(2 in (opened[0][index], opened[1][index]) for index in chosen)
