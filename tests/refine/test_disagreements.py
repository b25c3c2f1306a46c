import numpy as np
import pytest

from medjudge.refine.disagreements import bulk_noise, rater_variance, shifts, sizes


def scored(seed: int, questions: int, models: int, flawed: int, raters: int = 2, judge_noise: float = 0.4):
    """Whole levels; the judge is lenient by 0.3, and on two thirds of the answers to a flawed question by 2 more."""
    draw = np.random.default_rng(seed)
    truth = np.clip(draw.normal(3, 1, (questions, models)), 1, 5)
    view = draw.normal(0, 0.3, (questions, 1, raters))
    levels = np.clip(np.round(truth[..., None] + view + draw.normal(0, 0.5, (questions, models, raters))), 1, 5)
    judge = truth + 0.3 + draw.normal(0, judge_noise, (questions, models))
    judge[:flawed] += 2 * (draw.random((flawed, models)) < 2 / 3)
    difference = np.clip(np.round(judge), 1, 5) - levels.mean(axis=2)
    return list(difference), levels


def flagged(seed: int, questions: int, models: int, flawed: int) -> np.ndarray:
    means, levels = scored(seed, questions, models, flawed)
    view = rater_variance(levels.reshape(-1, 2), np.repeat(np.arange(questions), models))
    views = np.full(questions, view / 2)
    noise = bulk_noise(means, np.repeat("MK", questions), views)
    deviations = [mean - centre for mean, centre in zip(means, noise.centre, strict=True)]
    return sizes(deviations, views, noise.variance).adjusted_p <= 0.1


def test_noise_alone_is_rarely_found_and_flawed_questions_are() -> None:
    alone = np.array([flagged(seed, 60, 3, 0).any() for seed in range(60)])
    assert alone.mean() <= 0.2
    runs = np.array([flagged(seed, 60, 5, 15) for seed in range(40)])
    assert runs[:, :15].sum(axis=1).mean() >= 5
    assert runs[:, 15:].sum() / runs.sum() <= 0.15


def test_two_physicians_of_different_views_are_noise() -> None:
    question = np.repeat(np.arange(30), 4)
    draw = np.random.default_rng(0)
    views = np.clip(3 + draw.normal(0, 1, (30, 2)), 1, 5)
    levels = np.repeat(views, 4, axis=0)
    assert rater_variance(levels, question) == pytest.approx(np.var(views[:, 0] - views[:, 1]) / 2, abs=0.3)
    # Nobody scored twice: the prior, 0.3 levels.
    once = np.where(draw.random((120, 1)) < 0.5, [[1.0, np.nan]], [[np.nan, 2.0]])
    assert rater_variance(once, question) == pytest.approx(0.09)
    single = [np.array([1.0, 1.0])]
    lone = sizes(single, np.array([0.09]), 0.1).p_value
    assert sizes(single, np.array([1.0]), 0.1).p_value[0] > 10 * lone[0]


def test_a_category_is_tested_for_its_mean() -> None:
    draw = np.random.default_rng(0)
    means = [draw.normal(0.8, 0.5, 12), draw.normal(0, 0.5, 12), np.array([0.1, -0.2])]
    result = shifts(means, np.full(3, 0.03))
    assert result.adjusted_p[0] < 0.05
    assert result.adjusted_p[1:].min() > 0.1
    assert result.shift[0] == pytest.approx(means[0].mean())


def test_few_questions_are_never_surprising() -> None:
    means = [np.array([1.5, 1.0]), np.array([0.0, 0.0])]
    noise = bulk_noise(means, np.repeat("MK", 2), np.full(2, 0.05))
    assert noise.variance >= 1
    assert (sizes(means, np.full(2, 0.05), noise.variance).adjusted_p > 0.1).all()
