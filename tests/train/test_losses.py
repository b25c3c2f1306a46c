import numpy as np
import pytest
import torch

from medjudge.train.judge_trainer import (
    cumulative_loss,
    language_loss,
    regression_loss,
    score_loss,
    verdict_loss,
)

FLAT = torch.zeros(1, 4)
LABELS = torch.tensor([3, 4, 5, 6, 7])


def one_hot(level: int) -> torch.Tensor:
    return torch.eye(5)[level - 1 : level]


def test_a_level_further_away_costs_more() -> None:
    says_five = torch.full((1, 4), 4.0)
    costs = [cumulative_loss(says_five, one_hot(level), torch.ones(1)).item() for level in range(1, 6)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] - costs[1] == pytest.approx(4.0, abs=1e-3)


def test_the_least_loss_is_at_the_soft_labels_own_probabilities() -> None:
    target = torch.tensor([[0.1, 0.2, 0.3, 0.25, 0.15]])
    above = target.flip(1).cumsum(1).flip(1)[:, 1:]
    best = torch.logit(above)
    least = cumulative_loss(best, target, torch.ones(1))
    for step in (-0.3, 0.3):
        assert cumulative_loss(best + step, target, torch.ones(1)) > least


def test_a_point_without_a_label_and_an_answer_without_points_cost_nothing() -> None:
    logits = torch.tensor([[2.0, 0.0, 0.0], [0.0, 0.0, 5.0], [9.0, 9.0, -9.0]])
    target = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    row = torch.tensor([0, 0, 1])
    first, second = [-torch.log_softmax(logits, dim=1)[place, label].item() for place, label in ((0, 0), (1, 2))]
    loss = verdict_loss(logits, target, row, torch.tensor([1.0, 2.0, 1.0])).item()
    assert loss == pytest.approx((first + second) / 2 / 4)


def logits_of(probabilities: list[float]) -> torch.Tensor:
    """Five logits, in a row, with these probabilities."""
    return torch.tensor([probabilities]).log()


def levels_of(logits: torch.Tensor) -> torch.Tensor:
    """The log probabilities of the five labels in the vocabulary."""
    return logits.log_softmax(dim=1)[:, LABELS]


def test_a_certain_level_costs_what_the_language_loss_of_its_token_costs() -> None:
    torch.manual_seed(0)
    logits = torch.randn(3, 12)
    levels = torch.tensor([1, 4, 5])
    target = torch.eye(5)[levels - 1]
    words = language_loss(logits, LABELS[levels - 1], torch.arange(3), 3)
    assert score_loss(levels_of(logits), target).tolist() == pytest.approx(words.tolist(), abs=1e-6)


def test_a_soft_label_costs_its_cross_entropy_and_the_mass_off_the_levels() -> None:
    # Half of the vocabulary's probability is on the five levels, spread as the label is: entropy + log 2.
    label = [0.1, 0.2, 0.3, 0.25, 0.15]
    logits = torch.tensor([[*[0.5 / 7] * 3, *[p / 2 for p in label], *[0.5 / 7] * 4]]).log()
    entropy = -sum(p * np.log(p) for p in label)
    assert score_loss(levels_of(logits), torch.tensor([label])).item() == pytest.approx(entropy + np.log(2), abs=1e-5)
    # Within the levels, nothing is cheaper than the label itself.
    other = logits.clone()
    other[0, 3:8] = other[0, [4, 3, 5, 6, 7]]
    costs = [score_loss(levels_of(each), torch.tensor([label])) for each in (other, logits)]
    assert costs[0] > costs[1]


def test_the_regression_loss_is_the_squared_error_of_the_expected_level() -> None:
    # Expected level 0.5 * 4 + 0.5 * 5 = 4.5.
    says = logits_of([1e-9, 1e-9, 1e-9, 0.5, 0.5])
    assert regression_loss(says, one_hot(2)).item() == pytest.approx(6.25, abs=1e-4)
    assert regression_loss(says, torch.tensor([[0, 0, 0, 0.5, 0.5]])).item() == pytest.approx(0, abs=1e-6)
    assert regression_loss(says + 3, one_hot(2)).item() == pytest.approx(6.25, abs=1e-4)
    costs = [regression_loss(logits_of([0.96, 0.01, 0.01, 0.01, 0.01]), one_hot(level)).item() for level in range(1, 6)]
    assert costs == sorted(costs)


def test_a_long_rationale_does_not_outweigh_a_short_one() -> None:
    logits = torch.zeros(11, 8)  # every token costs log 8
    logits[0, 0] = 100.0  # but the only one of the first line
    line = torch.tensor([0] + [1] * 10)
    loss = language_loss(logits, torch.zeros(11, dtype=torch.long), line, 3)
    assert loss.tolist() == pytest.approx([0.0, np.log(8), 0.0], abs=1e-5)  # the third line has no words
