import numpy as np
import pytest

from medjudge.validation.variance import Components, Rows, Sizes, standard_error, variance_components

# Ten questions, three answers to each, every answer judged twice. In a balanced design the estimates of restricted
# maximum likelihood are those of the analysis of variance, in closed form, as long as these are positive (Searle,
# Casella and McCulloch, Variance Components, 1992).
NESTED = """
62.8 62.6 60.1 62.3 62.7 63.1  60.0 61.4 57.5 56.9 61.1 58.9  58.7 57.5 63.9 63.1 65.4 63.7  57.1 56.4 56.9 58.6 64.7 64.5
55.1 55.1 54.7 54.2 58.8 57.5  63.4 64.9 59.3 58.1 60.5 60.0  62.5 62.6 61.0 58.7 56.9 57.7  59.2 59.4 65.2 66.0 64.8 64.1
54.8 54.8 64.0 64.0 57.7 56.8  58.3 59.3 59.2 59.2 58.9 56.6
"""  # noqa: E501


def test_a_nested_design_has_the_variances_and_the_standard_error_of_the_analysis_of_variance() -> None:
    score = np.array(NESTED.split(), float).reshape(10, 3, 2)
    question, answer, judging = [axis.ravel() for axis in np.indices(score.shape)]
    found = variance_components(Rows(score.ravel(), question, np.full(60, "model"), answer, judging))
    of_answers, of_questions = score.mean(axis=2), score.mean(axis=(1, 2))
    within = ((score - of_answers[:, :, None]) ** 2).sum() / (10 * 3)
    between_answers = 2 * ((of_answers - of_questions[:, None]) ** 2).sum() / (10 * 2)
    between_questions = 6 * of_questions.var(ddof=1)
    assert found is not None
    assert found.interaction is None
    assert found.judge == pytest.approx(within, rel=1e-3)
    assert found.answers == pytest.approx((between_answers - within) / 2, rel=2e-3)
    assert found.questions == pytest.approx((between_questions - between_answers) / 6, rel=5e-3)
    exact = np.sqrt(between_questions / 60)
    assert standard_error(found, Sizes(10, 3, 2)) == pytest.approx(exact, rel=1e-3)


def test_questions_crossed_with_models_have_the_variances_of_the_analysis_of_variance() -> None:
    sizes, models = Sizes(40, 2, 2), 3
    rows, score = simulated(sizes, models, 0)
    found = variance_components(rows)
    of_answers, of_cells = score.mean(axis=3), score.mean(axis=(2, 3))
    of_questions, of_models = of_cells.mean(axis=1), of_cells.mean(axis=0)
    within = ((score - of_answers[..., None]) ** 2).sum() / (40 * 3 * 2)
    between_answers = 2 * ((of_answers - of_cells[..., None]) ** 2).sum() / (40 * 3)
    left = of_cells - of_questions[:, None] - of_models + of_cells.mean()
    interaction = 4 * (left**2).sum() / (39 * 2)
    between_questions = 12 * of_questions.var(ddof=1)
    assert found is not None
    assert found.judge == pytest.approx(within, rel=1e-3)
    assert found.answers == pytest.approx((between_answers - within) / 2, rel=5e-3)
    assert found.interaction == pytest.approx((interaction - between_answers) / 4, rel=1e-2)
    assert found.questions == pytest.approx((between_questions - interaction) / 12, rel=1e-2)


def simulated(sizes: Sizes, models: int, seed: int) -> tuple[Rows, np.ndarray]:
    """Scores with variances 0.5 (questions), 0.3 (interaction), 0.2 (answers) and 0.1 (judge)."""
    generator = np.random.default_rng(seed)
    shape = (sizes.questions, models, sizes.samples, sizes.rounds)
    question, model, sample, judging = (axis.ravel() for axis in np.indices(shape))
    parts = [((shape[0], 1, 1, 1), 0.5), (shape[:2] + (1, 1), 0.3), (shape[:3] + (1,), 0.2), (shape, 0.1)]  # noqa: RUF005
    score = sum(generator.normal(0, np.sqrt(variance), size) for size, variance in parts) + np.zeros(shape)
    return Rows(score.ravel(), question, model, sample, judging), score


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
