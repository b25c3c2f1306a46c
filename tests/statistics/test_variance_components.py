import numpy as np
import pytest

from medjudge.statistics.variance_components import Components, Rows, Sizes, standard_error, variance_components

# Strength of a chemical paste: ten batches, three casks each, every cask tested twice (Davies and Goldsmith,
# Statistical Methods in Research and Production, 1972; `Pastes` of lme4).
PASTES = """
62.8 62.6 60.1 62.3 62.7 63.1  60.0 61.4 57.5 56.9 61.1 58.9  58.7 57.5 63.9 63.1 65.4 63.7  57.1 56.4 56.9 58.6 64.7 64.5
55.1 55.1 54.7 54.2 58.8 57.5  63.4 64.9 59.3 58.1 60.5 60.0  62.5 62.6 61.0 58.7 56.9 57.7  59.2 59.4 65.2 66.0 64.8 64.1
54.8 54.8 64.0 64.0 57.7 56.8  58.3 59.3 59.2 59.2 58.9 56.6
"""  # noqa: E501


def pastes() -> Rows:
    score = np.array(PASTES.split(), float)
    batch, cask, test = np.unravel_index(np.arange(60), (10, 3, 2))
    return Rows(score, batch, np.full(60, "paste"), cask, test)


def test_the_published_example_has_the_published_variances_and_standard_error() -> None:
    # Bates et al., Fitting linear mixed-effects models using lme4 (2015): 1.657, 8.434 and 0.678; the mean 60.0533 with
    # a standard error of 0.6769.
    found = variance_components(pastes())
    assert found is not None
    assert found.interaction is None
    assert found.questions == pytest.approx(1.657, abs=0.01)
    assert found.answers == pytest.approx(8.434, abs=0.01)
    assert found.judge == pytest.approx(0.678, abs=0.001)
    assert standard_error(found, Sizes(10, 3, 2)) == pytest.approx(0.6769, abs=0.0005)


def simulated(sizes: Sizes, models: int, seed: int) -> tuple[Rows, np.ndarray]:
    """Scores with variances 0.5 (questions), 0.3 (interaction), 0.2 (answers) and 0.1 (judge)."""
    generator = np.random.default_rng(seed)
    shape = (sizes.questions, models, sizes.samples, sizes.rounds)
    question, model, sample, judging = (axis.ravel() for axis in np.indices(shape))
    parts = [((shape[0], 1, 1, 1), 0.5), (shape[:2] + (1, 1), 0.3), (shape[:3] + (1,), 0.2), (shape, 0.1)]  # noqa: RUF005
    score = sum(generator.normal(0, np.sqrt(variance), size) for size, variance in parts) + np.zeros(shape)
    return Rows(score.ravel(), question, model, sample, judging), score


def test_crossed_questions_and_models_are_separated_from_answers_and_judge() -> None:
    found = [variance_components(simulated(Sizes(60, 3, 2), 3, seed)[0]) for seed in range(4)]
    means = np.mean([[one.questions, one.interaction, one.answers, one.judge] for one in found if one], axis=0)
    assert means == pytest.approx([0.5, 0.3, 0.2, 0.1], abs=0.1)


def test_the_standard_error_is_the_spread_of_the_means() -> None:
    truth, sizes = Components(0.5, 0.3, 0.2, 0.1), Sizes(20, 2, 3)
    means = np.array([simulated(sizes, 2, seed)[1].mean(axis=(0, 2, 3)) for seed in range(2000)])
    assert means[:, 0].std() == pytest.approx(standard_error(truth, sizes), rel=0.06)
    apart = standard_error(truth, sizes, between_models=True)
    assert (means[:, 0] - means[:, 1]).std() == pytest.approx(apart, rel=0.06)


def test_a_judge_that_repeats_itself_has_no_variance_and_one_judgment_each_separates_nothing() -> None:
    rows, _ = simulated(Sizes(30, 3, 1), 2, 0)
    repeated = Rows(*(np.tile(column, 2) for column in rows[:4]), np.repeat([1, 2], len(rows.score)))
    once, twice = variance_components(rows), variance_components(repeated)
    assert once is not None
    assert twice is not None
    assert twice.judge == 0
    assert once.judge is None
    assert twice.answers == pytest.approx(once.answers)
    assert variance_components(simulated(Sizes(30, 1, 1), 2, 0)[0]) is None
