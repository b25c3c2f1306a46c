import numpy as np
import pytest

from medjudge.validation.other_judges import NonInferiority, against_teacher


def study(pairs, n: int, judge_right: float, teacher_right: float, margin: float = 0.05):
    generator = np.random.default_rng(1)
    physician = generator.integers(1, 6, n)

    def scored(share: float) -> np.ndarray:
        flipped = np.where(physician >= 4, 1, 5)
        return np.where(np.arange(n) / n < share, physician, flipped)

    of_teacher = scored(teacher_right).astype(float)
    return against_teacher(pairs(scored(judge_right), physician, teacher=of_teacher), "gpt", margin, resamples=2000)


def test_non_inferiority_needs_the_whole_interval_within_the_margin(pairs) -> None:
    worse = study(pairs, 200, 0.80, 0.90)
    values = [side["usable_agreement"]["value"] for side in (worse.of_judge, worse.of_teacher, worse.difference)]
    assert values == pytest.approx([0.8, 0.9, -0.1])
    assert study(pairs, 2000, 0.89, 0.90).non_inferiority == NonInferiority(margin=0.05, shown=True)
    assert not study(pairs, 60, 0.88, 0.90).non_inferiority.shown
    assert not study(pairs, 2000, 0.89, 0.90, margin=0.005).non_inferiority.shown


def test_two_that_never_differ_are_as_alike_as_their_number_allows(pairs) -> None:
    few, many = study(pairs, 20, 0.9, 0.9), study(pairs, 200, 0.9, 0.9)
    assert few.difference["usable_agreement"]["low"] == pytest.approx(-0.161, abs=0.001)
    assert not few.non_inferiority.shown
    assert many.non_inferiority.shown


def test_answers_without_the_teachers_score_take_no_part(pairs) -> None:
    result = against_teacher(pairs([5, 5, 1], [5, 5, 5], teacher=[5.0, np.nan, 5.0]), "gpt", resamples=50)
    assert (result.n, result.conversations) == (2, 2)
    assert against_teacher(pairs([5], [5]), "gpt") is None
