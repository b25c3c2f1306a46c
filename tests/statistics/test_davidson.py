import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit

from medjudge.statistics.davidson import fit_davidson, outcome_probabilities, ranking


def pudding() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Davidson (1970), example 2: six brands of chocolate pudding, each pair with its wins and ties."""
    first, second = np.array([(one, other) for other in range(6) for one in range(other)]).T
    first_wins = [19, 16, 19, 18, 23, 19, 13, 16, 16, 17, 18, 22, 13, 14, 11]
    second_wins = [22, 19, 19, 23, 19, 20, 19, 20, 15, 14, 21, 20, 18, 19, 21]
    ties = [16, 12, 10, 13, 9, 15, 18, 12, 17, 16, 12, 12, 10, 18, 12]
    return first, second, np.column_stack([first_wins, ties, second_wins])


def test_the_worked_example_of_davidson_1970() -> None:
    # His table 3, as PlackettLuce for R (Turner and Firth) prints it: worths that add up to 1, and nu.
    fitted = fit_davidson(*pudding(), models=6, prior_variance=np.inf)
    worth = np.exp(fitted.strength) / np.exp(fitted.strength).sum()
    assert worth == pytest.approx([0.1388, 0.1730, 0.1617, 0.1654, 0.1587, 0.2024], abs=2e-4)
    assert np.exp(fitted.tie) == pytest.approx(0.7468, abs=2e-4)


def test_a_covariate_has_the_coefficient_of_a_log_linear_model_in_statsmodels() -> None:
    # Davidson's model is a Poisson model of the three counts, with a constant for each comparison (Fienberg and
    # Larntz, 1976).
    generator = np.random.default_rng(0)
    n, models = 240, 4
    first = generator.integers(0, models, n)
    second = (first + generator.integers(1, models, n)) % models
    length = generator.normal(size=n)
    truth = np.array([0.8, 0.1, -0.2, -0.7])
    chance = outcome_probabilities(truth[first] - truth[second] + 0.5 * length, np.array(-0.4)).T
    outcomes = np.array([generator.multinomial(3, row) for row in chance])
    design = np.zeros((n, models))
    design[np.arange(n), first], design[np.arange(n), second] = 1, -1
    design = np.column_stack([design[:, 1:], length])  # the first model has strength 0
    half = np.concatenate([np.column_stack([design / 2 * sign, np.full(n, sign == 0)]) for sign in (1, 0, -1)])
    columns = np.column_stack([half, np.tile(np.eye(n), (3, 1))])
    glm = sm.GLM(outcomes.T.reshape(-1), columns, family=sm.families.Poisson()).fit()
    fitted = fit_davidson(first, second, outcomes, models, length, prior_variance=np.inf)
    assert fitted.strength[1:] - fitted.strength[0] == pytest.approx(glm.params[: models - 1], abs=1e-5)
    assert fitted.covariate == pytest.approx(glm.params[models - 1], abs=1e-5)
    assert fitted.tie == pytest.approx(glm.params[models], abs=1e-5)


def test_a_model_that_never_loses_has_a_finite_strength() -> None:
    fitted = fit_davidson(np.array([0, 1]), np.array([1, 2]), np.array([[9, 0, 0], [9, 0, 0]]), 3)
    assert np.isfinite(fitted.strength).all()
    assert fitted.strength[0] > fitted.strength[1] > fitted.strength[2]
    assert expit(fitted.strength[0] - fitted.strength[1]) > 0.8


def test_intervals_are_near_those_of_the_information_matrix() -> None:
    # One comparison a question, so the bootstrap and the likelihood agree: standard errors of PlackettLuce for R,
    # mean worth as reference (0.122 to 0.127).
    first, second, outcomes = pudding()
    rows = np.repeat(np.arange(len(first) * 3), outcomes.reshape(-1))
    each = np.eye(3)[rows % 3]
    ranked = ranking(first[rows // 3], second[rows // 3], each, 6, np.arange(len(rows)), resamples=2000)
    strengths, shares = ([ranked[f"{name} {model}"] for model in range(6)] for name in ("strength", "share"))
    errors = [(interval.high - interval.low) / (2 * 1.96) for interval in strengths]
    assert errors == pytest.approx([0.1219, 0.1218, 0.1268, 0.1220, 0.1271, 0.1266], rel=0.08)
    assert sum(share.value for share in shares) == pytest.approx(3)
