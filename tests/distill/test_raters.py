import numpy as np
import pytest

from medjudge.distill.labels import fit_raters, rater_labels
from medjudge.records import AnswerKey


def panel(n: int, bias: list[float], noise: list[float], seed: int, share: float = 1) -> tuple[np.ndarray, np.ndarray]:
    """True levels, and raters' levels with NaN where one did not score; each answer has at least one score."""
    generator = np.random.default_rng(seed)
    truth = generator.choice([1, 2, 3, 4, 5], n, p=[0.1, 0.15, 0.2, 0.3, 0.25])
    spread = generator.normal(0, 1, (n, len(bias))) * noise
    levels = np.clip(np.rint(truth[:, None] + bias + spread), 1, 5)
    is_scored = generator.random(levels.shape) < share
    is_scored[np.arange(n), generator.integers(0, len(bias), n)] = True
    return truth, np.where(is_scored, levels, np.nan)


def plain_mean(levels: np.ndarray) -> np.ndarray:
    one_hot = np.where(np.isfinite(levels)[..., None], levels[..., None] == np.arange(1, 6), 0).sum(axis=1)
    return one_hot / one_hot.sum(axis=1, keepdims=True)


def log_loss(labels: np.ndarray, truth: np.ndarray) -> float:
    return float(-np.log(np.maximum(labels[np.arange(len(truth)), truth - 1], 1e-12)).mean())


def best_of_plain_mean(levels: np.ndarray, truth: np.ndarray) -> float:
    """Its log loss, mixed with the uniform distribution by the share that suits the truth best."""
    labels = plain_mean(levels)
    return min(log_loss((1 - share) * labels + share / 5, truth) for share in np.linspace(0.01, 0.9, 90))


def by_answer(levels: np.ndarray) -> dict[AnswerKey, dict[str, int]]:
    return {
        AnswerKey(f"q{n}", "m", 0): {f"r{k}": int(level) for k, level in enumerate(row) if np.isfinite(level)}
        for n, row in enumerate(levels)
    }


def test_biased_and_noisy_raters_are_recovered() -> None:
    _, levels = panel(600, [0.6, 0, -0.6], [0.4, 0.4, 1.2], 0)
    model = fit_raters(levels)
    assert model.bias == pytest.approx([0.6, 0, -0.6], abs=0.2)
    assert model.noise == pytest.approx([0.4, 0.4, 1.2], abs=0.2)
    assert model.reliability[1] > model.reliability[0] > model.reliability[2]
    assert model.prevalence == pytest.approx([0.1, 0.15, 0.2, 0.3, 0.25], abs=0.06)


@pytest.mark.parametrize("seed", range(3))
def test_labels_beat_the_plain_mean_where_raters_differ(seed: int) -> None:
    truth, levels = panel(300, [0, 0.6, 0], [0.3, 0.6, 1.2], seed)
    assert log_loss(fit_raters(levels).labels, truth) < best_of_plain_mean(levels, truth) - 0.2
    # With a third of the scores, most answers have one.
    truth, levels = panel(400, [0, 0.7], [0.4, 0.9], seed, share=0.3)
    assert log_loss(fit_raters(levels).labels, truth) < best_of_plain_mean(levels, truth) - 0.1


@pytest.mark.parametrize(("n", "raters"), [(20, 2), (300, 2), (300, 3)])
def test_labels_are_about_the_plain_mean_where_raters_are_alike(n: int, raters: int) -> None:
    truth, levels = panel(n, [0] * raters, [0.5] * raters, 1)
    model = fit_raters(levels)
    scale = np.arange(1, 6)
    assert np.abs(model.labels @ scale - plain_mean(levels) @ scale).mean() < 0.2
    assert log_loss(model.labels, truth) <= best_of_plain_mean(levels, truth)
    assert np.ptp(model.bias) < 0.3
    assert np.ptp(model.noise) < 0.3


def test_a_single_rater_stays_one_hot() -> None:
    _, levels = panel(80, [0.5], [0.8], 3)
    scores = by_answer(levels)
    labels, report = rater_labels(scores)
    assert all(labels[key].tolist() == np.eye(5)[level_of["r0"] - 1].tolist() for key, level_of in scores.items())
    assert report == {
        "fitted": False,
        "several": 0,
        "raters": {"r0": {"n": 80, "shared": 0, "bias": None, "noise": None, "reliability": None}},
    }


def test_few_shared_answers_are_plain_means_and_an_unknown_rater_stays_one_hot() -> None:
    _, levels = panel(19, [0, 0], [0.5, 0.5], 4)
    labels, report = rater_labels(by_answer(levels))
    assert not report["fitted"]
    assert np.array(list(labels.values())) == pytest.approx(plain_mean(levels))
    _, levels = panel(60, [0, 0], [0.5, 0.9], 4)
    alone = {AnswerKey(f"alone{n}", "m", 0): {"stranger" if n else "r1": 4} for n in range(2)}
    labels, report = rater_labels(by_answer(levels) | alone)
    assert labels[AnswerKey("alone1", "m", 0)].tolist() == [0, 0, 0, 1, 0]
    assert labels[AnswerKey("alone0", "m", 0)][3] < 0.9  # r1 is known, and noisy
    assert (report["several"], report["raters"]["stranger"]["shared"]) == (60, 0)
    assert all(row.sum() == pytest.approx(1) for row in labels.values())


def test_nothing_scored_is_no_trouble() -> None:
    assert rater_labels({}) == ({}, {"fitted": False, "several": 0, "raters": {}})
    assert np.isnan(fit_raters(np.array([[4.0, 4.0], [np.nan, np.nan]])).labels[1]).all()
