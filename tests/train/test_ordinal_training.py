"""Losses and windows in training an ordinal judge."""

import pytest
import torch
from datasets import Dataset
from recipe_runs import train, work

from medjudge.judge.folder import load_judge
from medjudge.judge.ordinal_input import ANSWER
from medjudge.models.loading import load_tokenizer
from medjudge.train.features import encoded_row, ordinal_dataset, read_training_lines
from medjudge.train.judge_trainer import cumulative_loss, verdict_loss

CPU = torch.device("cpu")


def stretches(windows: list[dict]) -> int:
    """How many stretches of the answer the windows of a line hold: one may be read in several, with other points."""
    of_answer = (zip(window["ids"], window["texts"], strict=True) for window in windows)
    return len({tuple(token for token, text in tokens if text == ANSWER) for tokens in of_answer})


def test_training_and_judging_read_the_same_windows(
    recipe, tiny_encoder, training_files, tmp_path, monkeypatch
) -> None:
    """Each answer in at most `windows` stretches; its points may take several windows for each."""
    lines = read_training_lines(training_files[0])
    trained_on, judged = [], []

    def dataset(*arguments) -> Dataset:
        trained_on.append(ordinal_dataset(*arguments))
        return trained_on[-1]

    monkeypatch.setattr("medjudge.train.ordinal.ordinal_dataset", dataset)
    arguments = recipe("ordinal", windows=2, max_length=32, output_dir=tmp_path / "two")
    judge = load_judge(train(arguments), "j", CPU)
    read = judge.read
    monkeypatch.setattr(judge, "read", lambda rows, points: (judged.extend(rows), read(rows, points))[1])
    for assignment in work(lines):
        assert len(list(judge.judge([assignment]))) == 1
    assert [row.windows for row in judged] == [encoded_row(row).windows for row in trained_on[0]]
    assert max(stretches(windows) for windows in trained_on[0]["windows"]) == 2
    tokenizer = load_tokenizer(str(tiny_encoder))
    few, many = [ordinal_dataset(lines, tokenizer, 32, most)["windows"] for most in (1, 16)]
    assert all(stretches(windows) == 1 for windows in few)
    assert max(stretches(windows) for windows in many) > 2


def test_a_level_further_away_costs_more_and_the_least_loss_is_at_the_soft_label() -> None:
    says_five = torch.full((1, 4), 4.0)
    costs = [cumulative_loss(says_five, torch.eye(5)[[level]], torch.ones(1)).item() for level in range(5)]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] - costs[1] == pytest.approx(4.0, abs=1e-3)
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
