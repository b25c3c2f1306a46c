"""Temperatures: fitted where the answer is known, and applied by the judge that is loaded."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from recipe_runs import changed, sample_training_files, work
from scipy.special import softmax

from medjudge.judge.folder import load_judge, read_card
from medjudge.judge.ordinal import OrdinalModel
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.statistics.calibration import FEWEST_ANSWERS
from medjudge.train import ordinal as ordinal_module
from medjudge.train.features import ordinal_dataset, read_training_lines
from medjudge.train.temperature import AtTemperature, agreement_measures, calibrated, generative_levels, ordinal_levels

KINDS: dict[AtTemperature, Callable[[np.random.Generator, int], np.ndarray]] = {
    ordinal_levels: lambda random, n: random.normal(0, 2, (n, 1)) - np.array([-2.0, -0.5, 0.5, 2.0]),
    generative_levels: lambda random, n: random.normal(0, 1.5, (n, 5)),
}


@pytest.mark.parametrize("at", KINDS)
@pytest.mark.parametrize("true", [0.5, 3.0])
def test_the_temperature_of_an_overconfident_judge_is_found_and_calibrates_it(at, true) -> None:
    """Levels are drawn from tempered probabilities: the judge's own are too sure, or too unsure, by that factor."""
    random = np.random.default_rng(0)
    logits = KINDS[at](random, 6000) * true
    level = np.array([1 + random.choice(5, p=row / row.sum()) for row in at(logits, true)])
    calibration = calibrated(logits, np.eye(5)[level - 1], level, at)
    assert calibration.temperature == pytest.approx(true, rel=0.08)
    assert calibration.fitted
    assert calibration.ece_after < 0.02 < calibration.ece_before


def test_too_few_answers_leave_it_at_one() -> None:
    level = np.ones(FEWEST_ANSWERS - 1, int)
    calibration = calibrated(5 * np.eye(5)[level - 1], np.eye(5)[level - 1], level, generative_levels)
    assert (calibration.temperature, calibration.fitted, calibration.ece_before) == (1.0, False, calibration.ece_after)


def test_measures_are_those_of_the_median_level() -> None:
    rows = np.array([[0, 0, 0, 0, 1], [0, 0, 0.4, 0.6, 0], [1, 0, 0, 0, 0], [0, 0.6, 0.4, 0, 0]], float)
    level = np.array([5, 3, 1, 2])  # against 5, 4, 1, 2
    measured = agreement_measures(rows, level)
    assert measured["usable_agreement"] == 0.75
    # By hand: sum of squared distances 1 of 4 observed, 43 of 4 * 4 by chance.
    observed, chance = 1 / 4, np.mean([(level - other) ** 2 for level in (5, 4, 1, 2) for other in (5, 3, 1, 2)])
    assert measured["quadratic_kappa"] == pytest.approx(1 - observed / chance)
    assert agreement_measures(rows[:1], level[:1])["quadratic_kappa"] == 0.0  # undefined: as by chance


def test_a_temperature_that_would_not_lower_the_calibration_error_is_not_taken() -> None:
    """P(usable) is right as it is; only how levels 1 and 2 share the rest is too sure, and takes the loss elsewhere."""
    rows = np.tile([0.49, 0.01, 0, 0.25, 0.25], (100, 1))
    logits = np.log(np.maximum(rows, 1e-9))
    level = np.repeat([2, 4, 5], [50, 25, 25])
    loss_at = {t: -np.log(generative_levels(logits, t)[range(100), level - 1]).mean() for t in (1.0, 1.5)}
    assert loss_at[1.5] < loss_at[1.0]
    calibration = calibrated(logits, np.eye(5)[level - 1], level, generative_levels)
    assert (calibration.temperature, calibration.fitted, calibration.answers) == (1.0, False, 100)
    assert calibration.ece_after == calibration.ece_before == pytest.approx(0, abs=1e-6)


def test_levels_that_no_answer_has_do_not_make_the_start_infinite(tiny_encoder, training_files) -> None:
    changed(training_files[0], lambda number, line: line.update(level=(2, 4)[number % 2]))
    dataset = ordinal_dataset(read_training_lines(training_files[0]), load_tokenizer(str(tiny_encoder)), 64, 1)
    model = OrdinalModel(load_encoder(str(tiny_encoder)), 32)
    ordinal_module.start_from_similarity(model, dataset, 0, 0, torch.device("cpu"))
    cuts = model.cuts().detach()
    assert bool(torch.isfinite(cuts).all())
    assert cuts.diff().max() == pytest.approx(10, rel=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_the_loaded_judge_gives_the_tempered_probabilities(kind, trained, sample_run, tmp_path) -> None:
    _, held_out = sample_training_files(sample_run, tmp_path, questions=14, validation_share=0.5)
    validation = read_training_lines(held_out)
    folder = trained(kind, eval_strategy="no", save_strategy="no")
    card = read_card(folder)
    calibration = card.training["calibration"]
    assert calibration["fitted"]
    assert calibration["answers"] == len(validation) >= FEWEST_ANSWERS
    assert card.temperature == calibration["temperature"] != 1.0
    assert calibration["ece_after"] < calibration["ece_before"]
    assert f"Temperature {card.temperature:.2f}, fitted on {len(validation)}" in (folder / "README.md").read_text()
    read = []
    for temperature in (card.temperature, 1.0):
        card.model_copy(update={"temperature": temperature}).write(folder)
        judged = load_judge(folder, "tiny", torch.device("cpu")).judge(work(validation))
        by_answer = {judgment.answer_key: judgment.probabilities for judgment in judged}
        read.append(np.array([by_answer[line.answer.key] for line in validation]))
    tempered, plain = read
    if kind == "generative":
        expected = softmax(np.log(np.maximum(plain, 1e-9)) / card.temperature, axis=1)
    else:
        above = np.clip(1 - np.cumsum(plain, axis=1)[:, :4], 1e-9, 1 - 1e-9)
        expected = ordinal_levels(np.log(above / (1 - above)), card.temperature)
    assert tempered == pytest.approx(expected, abs=0.01)
    assert np.abs(tempered - plain).max() > 0.02
