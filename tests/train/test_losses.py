import pytest
import torch

from medjudge.train.judge_trainer import (
    cumulative_loss,
    verdict_loss,
)


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
