"""What is particular to training an ordinal judge, on a tiny model."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from safetensors.torch import load_file
from train_judge import main as train_judge

from medjudge.judge.folder import load_judge, read_card
from medjudge.judge.ordinal_input import ANSWER
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_tokenizer
from medjudge.train.command_line import parse_arguments
from medjudge.train.features import encoded_row, ordinal_dataset, read_training_lines

CPU = torch.device("cpu")


def probabilities(folder, lines) -> np.ndarray:
    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in lines]
    judged = {
        (judgment.question_id, judgment.model): judgment.probabilities
        for judgment in load_judge(folder, "j", CPU).judge(work)
    }
    return np.array([judged[line.question.id, line.answer.model] for line in lines])


@pytest.mark.parametrize("started", [False, True])
def test_full_fine_tuning_writes_a_whole_body_that_judges(
    recipe, tiny_encoder, training_files, tmp_path, started
) -> None:
    options = {"full_fine_tuning": True, "output_dir": tmp_path / "full"}
    if started:
        options["start_from"] = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, **options)))
    assert not (folder / "adapter_config.json").exists()
    body = load_file(folder / "model.safetensors")
    fresh = load_file(tiny_encoder / "model.safetensors")
    moved = [key for key in fresh if key in body and not torch.equal(body[key], fresh[key])]
    assert any("attention" in key for key in moved)
    rows = probabilities(folder, read_training_lines(training_files[1]))
    assert rows.sum(axis=1) == pytest.approx(1.0, abs=1e-4)


def test_the_loss_of_the_first_step_is_the_one_that_the_config_names(recipe, tiny_encoder, tmp_path) -> None:
    first = {}
    for loss in ("ordinal", "mse"):
        options = {"loss": loss, "output_dir": tmp_path / loss, "max_steps": 1, "eval_steps": 1, "save_steps": 1}
        folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, **options)))
        card = read_card(folder)
        first[loss] = card.training["loss"][0][1]
        assert card.training["objective"] == loss
    assert first["ordinal"] != pytest.approx(first["mse"], rel=0.05)


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
    arguments = recipe("ordinal", tiny_encoder, windows=2, max_length=32, output_dir=tmp_path / "two")
    judge = load_judge(train_judge(*parse_arguments(arguments)), "j", CPU)
    read = judge.read
    monkeypatch.setattr(judge, "read", lambda rows, points: (judged.extend(rows), read(rows, points))[1])
    for line in lines:
        assert len(list(judge.judge([Assignment(line.question, tuple(line.earlier), line.answer)]))) == 1
    assert [row.windows for row in judged] == [encoded_row(row).windows for row in trained_on[0]]
    assert max(stretches(windows) for windows in trained_on[0]["windows"]) == 2
    tokenizer = load_tokenizer(str(tiny_encoder))
    few, many = [ordinal_dataset(lines, tokenizer, 32, most)["windows"] for most in (1, 16)]
    assert all(stretches(windows) == 1 for windows in few)
    assert max(stretches(windows) for windows in many) > 2
