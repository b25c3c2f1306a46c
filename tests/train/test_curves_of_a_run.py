"""Which checkpoint becomes the judge, and the curves that a run leaves."""

import numpy as np
import pytest
from recipe_runs import changed, good_or_bad
from train_judge import main as train_judge

from medjudge.judge.folder import read_card
from medjudge.train import curves as curves_module
from medjudge.train import ordinal as ordinal_module
from medjudge.train.command_line import parse_arguments


def test_the_judge_is_the_checkpoint_with_the_highest_quadratic_kappa(
    recipe, tiny_encoder, training_files, monkeypatch
) -> None:
    """As the default, with neither metric nor strategy in the config."""
    for path in training_files:
        changed(path, good_or_bad)
    kept = []
    monkeypatch.setattr(curves_module, "write_curves", lambda *arguments: kept.append(arguments))
    # It starts from nothing, and so with a kappa of 0: the first head would be right about these answers at once.
    monkeypatch.setattr(ordinal_module, "start_from_similarity", lambda *arguments: None)
    arguments = recipe("ordinal", tiny_encoder, max_steps=24, eval_steps=1)
    places = [arguments.index("--save_strategy"), arguments.index("--save_steps")]
    arguments = [text for place, text in enumerate(arguments) if place not in {x + y for x in places for y in (0, 1)}]
    card = read_card(train_judge(*parse_arguments(arguments)))
    _, history, step = kept[0]
    kappas = {entry["step"]: entry["eval_quadratic_kappa"] for entry in history if "eval_quadratic_kappa" in entry}
    assert len(set(kappas.values())) > 1
    assert kappas[step] == max(kappas.values())
    assert card.training["validation"]["eval_quadratic_kappa"] == pytest.approx(kappas[step], abs=1e-6)


def test_a_config_without_evaluation_takes_the_last_step(recipe, tiny_encoder, monkeypatch) -> None:
    kept = []
    monkeypatch.setattr(curves_module, "write_curves", lambda *arguments: kept.append(arguments))
    train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, eval_strategy="no", save_strategy="steps")))
    assert kept[0][2] is None


def test_the_curves_go_to_tensorboard_and_a_plot(recipe, tiny_encoder, capsys, monkeypatch) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed; pip install 'medjudge[tensorboard]'",
    )
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    (file,) = (folder / "training" / "tensorboard").iterdir()
    recorded = events.EventAccumulator(str(file)).Reload()
    losses = [(point.step, point.value) for point in recorded.Scalars("train/loss")]
    assert np.array(losses) == pytest.approx(np.array(read_card(folder).training["loss"]), abs=1e-5)
    assert [point.step for point in recorded.Scalars("eval/quadratic_kappa")] == [2, 4]
    assert "quadratic kappa" in (folder / "training" / "curves.svg").read_text()
    assert "(training/curves.svg)" in (folder / "README.md").read_text()


def test_curves_that_nothing_can_draw_are_said_to_be_missing(recipe, tiny_encoder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(curves_module, "find_spec", lambda name: None)
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    printed = capsys.readouterr().err
    assert "no curves for TensorBoard: it is not installed (pip install tensorboard)" in printed
    assert "no training/curves.svg: matplotlib is not installed" in printed
    assert not (folder / "training").exists()
    assert "Curves" not in (folder / "README.md").read_text()
