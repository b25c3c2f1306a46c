import numpy as np
import pytest
from scipy.special import expit

from medjudge.statistics.item_response import discriminates, fit_two_parameter, flawed_items


def simulated(seed: int, models: int, questions: int, samples: int, wrong_way: int, rho: float = 0.0):
    """Ability and discrimination, and counts; the first questions discriminate the wrong way round."""
    draw = np.random.default_rng(seed)
    ability, discrimination = draw.normal(size=models), draw.lognormal(0.2, 0.3, questions)
    discrimination[:wrong_way] *= -1
    p = expit(np.outer(ability, discrimination) + draw.normal(size=questions))
    if rho:
        p = draw.beta(p * (1 - rho) / rho, (1 - p) * (1 - rho) / rho)
    return ability, discrimination, draw.binomial(samples, p), np.full(p.shape, samples)


def test_simulated_parameters_are_recovered() -> None:
    ability, discrimination, usable, samples = simulated(0, 200, 30, 1, 3)
    fit = fit_two_parameter(usable, samples)
    assert np.corrcoef(fit.ability, ability)[0, 1] > 0.9
    assert np.corrcoef(fit.discrimination, discrimination)[0, 1] > 0.9
    assert np.median(fit.discrimination) == pytest.approx(np.median(discrimination), rel=0.15)
    covered = np.abs(fit.discrimination - discrimination) < 1.96 * fit.discrimination_error
    assert covered.mean() > 0.85


def test_questions_that_discriminate_the_wrong_way_are_listed_and_few_others() -> None:
    hits, others = 0, 0
    for seed in range(5):
        _, _, usable, samples = simulated(seed, 13, 80, 3, 5, rho=0.3)
        fit = fit_two_parameter(usable, samples)
        assert 0.1 < fit.overdispersion < 0.5
        listed = flawed_items(fit)
        assert all(entry.low < entry.discrimination < entry.high for entry in listed)
        hits += sum(entry.question < 5 and entry.kind == "negative" for entry in listed)
        others += sum(entry.question >= 5 for entry in listed)
    assert hits >= 18
    assert others <= 8


def test_samples_that_repeat_each_other_make_nobody_surer() -> None:
    _, _, usable, samples = simulated(1, 13, 60, 1, 0)
    once, thrice = fit_two_parameter(usable, samples), fit_two_parameter(3 * usable, 3 * samples)
    assert thrice.overdispersion > 0.8
    assert np.median(thrice.discrimination_error) > 0.8 * np.median(once.discrimination_error)


def test_questions_that_all_pass_or_few_answered_say_nothing() -> None:
    _, _, usable, samples = simulated(2, 13, 40, 3, 0)
    usable[:, 0], usable[:, 1] = 3, 0
    samples[1:, 2], usable[1:, 2] = 0, 0
    fit = fit_two_parameter(usable, samples)
    assert np.isfinite(fit.discrimination).all()
    assert not {0, 1, 2} & {item.question for item in flawed_items(fit)}


def test_few_models_or_pure_chance_flag_nothing() -> None:
    _, _, usable, samples = simulated(3, 4, 40, 3, 5)
    few = fit_two_parameter(usable, samples)
    assert not discriminates(few)
    assert flawed_items(few) == []
    coin = np.random.default_rng(0).binomial(1, 0.5, (13, 60))
    assert flawed_items(fit_two_parameter(coin, np.ones((13, 60)))) == []
