"""A judge against its teacher, and against one that was trained on what it never saw."""

import numpy as np
import pytest
from calls import judged
from sklearn.metrics import cohen_kappa_score

from medjudge.errors import InputError
from medjudge.records import Judgment
from medjudge.validation.other_judges import NonInferiority, against_teacher, compare, leave_out_rows


def three_raters(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A judge that is off more often, the physicians, and a judge that is off less often."""
    generator = np.random.default_rng(0)
    physician = generator.integers(1, 6, n)
    unseen = np.clip(physician + generator.integers(-2, 3, n), 1, 5)
    return unseen, physician, np.clip(physician + generator.integers(-1, 2, n), 1, 5)


def test_values_equal_those_of_scikit_learn_and_the_difference_is_first_minus_second(pairs) -> None:
    first, physician, second = three_raters(200)
    compared = compare(pairs(first, physician, teacher=second), resamples=50)
    for judge, part in ((first, compared.first), (second, compared.second)):
        expected = {
            "usable_agreement": np.mean((judge >= 4) == (physician >= 4)),
            "cohen_kappa": cohen_kappa_score(judge >= 4, physician >= 4),
            "quadratic_kappa": cohen_kappa_score(judge, physician, weights="quadratic"),
            "bias": np.mean(judge - physician),
        }
        assert {name: each["value"] for name, each in part.items()} == pytest.approx(expected, abs=1e-6)
    for name in expected:
        apart = compared.first[name]["value"] - compared.second[name]["value"]
        assert compared.difference[name]["value"] == pytest.approx(apart, abs=2e-6)


def test_the_interval_of_the_difference_is_that_of_paired_shares(pairs) -> None:
    # With one answer a conversation, the Wald interval of a paired difference: mean +- 1.96 sd / sqrt(n).
    first, physician, second = three_raters(600)
    agree = [(judge >= 4) == (physician >= 4) for judge in (first, second)]
    apart = agree[0].astype(float) - agree[1]
    half = 1.96 * apart.std() / np.sqrt(600)
    difference = compare(pairs(first, physician, teacher=second)).difference["usable_agreement"]
    assert difference["low"] == pytest.approx(apart.mean() - half, abs=0.005)
    assert difference["high"] == pytest.approx(apart.mean() + half, abs=0.005)


def test_the_same_judge_twice_differs_in_nothing_but_what_few_answers_cannot_show(pairs) -> None:
    first, physician, _ = three_raters(40)
    compared = compare(pairs(first, physician, teacher=first), resamples=300)
    assert compared.first == compared.second
    assert compared.difference["bias"] == {"value": 0.0, "low": None, "high": None}
    usable = compared.difference["usable_agreement"]
    assert usable["low"] == -usable["high"] == pytest.approx(-0.0876, abs=1e-4)  # Wilson, 0 of 40


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
    # Two that never differ are as alike as their number allows.
    assert not study(pairs, 20, 0.9, 0.9).non_inferiority.shown
    assert study(pairs, 200, 0.9, 0.9).non_inferiority.shown
    assert not study(pairs, 2000, 0.89, 0.90, margin=0.005).non_inferiority.shown


def test_answers_without_the_teachers_score_take_no_part(pairs) -> None:
    result = against_teacher(pairs([5, 5, 1], [5, 5, 5], teacher=[5.0, np.nan, 5.0]), "gpt", resamples=50)
    assert (result.n, result.conversations) == (2, 2)
    assert against_teacher(pairs([5], [5]), "gpt") is None


def test_each_row_compares_both_judges_on_the_answers_of_its_own_value(question, physician_score) -> None:
    questions = [question(id=f"q{n}", group=f"g{n // 2}") for n in range(4)]
    keys = [(f"q{n}", model) for model in ("a", "b") for n in range(4)]
    scores = [physician_score(question_id=q, model=m, score=5) for q, m in keys]

    def by(keys: list[tuple[str, str]], *levels: int | None) -> list[Judgment]:
        return [
            judged(question_id, level, model=model) for (question_id, model), level in zip(keys, levels, strict=True)
        ]

    # What a judge said about values that it did see must not count; nor an answer that one of both left unscored.
    unseen = {"a": by(keys, 1, 5, 5, 5, 1, 1, 1, 1), "b": by(keys[4:], 1, 1, 5, None)}
    rows = leave_out_rows("model", questions, unseen, by(keys, *[5] * 8), scores, resamples=100)
    assert [row.left_out for row in rows] == ["a", "b", None]
    assert [row.n for row in rows] == [4, 3, 7]
    assert [row.coverage for row in rows] == [1.0, 0.75, 0.875]
    assert rows[0].unseen["usable_agreement"]["value"] == 0.75
    assert rows[0].difference["bias"] == {"value": -1.0, "low": None, "high": None}
    assert rows[1].difference["usable_agreement"]["value"] == pytest.approx(-2 / 3, abs=1e-6)
    assert rows[2].unseen["usable_agreement"]["value"] == pytest.approx(4 / 7, abs=1e-6)


def test_categories_raters_and_rounds(question, physician_score) -> None:
    questions = [question(id="q1", category="MK"), question(id="q2", category="MTG")]
    scores = [physician_score(question_id="q2", rater=rater, score=level) for rater, level in (("x", 5), ("y", 4))]
    rounds, seen = [judged("q2", 4), judged("q2", 3, round=2)], [judged("q2", 4)]
    (row,) = leave_out_rows("category", questions, {"MTG": rounds}, seen, scores)
    assert (row.left_out, row.n) == ("MTG", 1)
    assert row.unseen["usable_agreement"]["value"] == 0  # 3.5 by the judge, 4.5 by physicians
    (nothing,) = leave_out_rows("category", questions, {"MTG": []}, seen, scores)
    assert (nothing.n, nothing.coverage, nothing.difference) == (0, 0.0, None)
    with pytest.raises(InputError, match="category MK: physicians scored no answer"):
        leave_out_rows("category", questions, {"MK": []}, [], scores)
