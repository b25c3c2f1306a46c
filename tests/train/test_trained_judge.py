"""The product of the recipe: a folder that judges as the model that was trained."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from recipe_runs import changed, good_or_bad, work

from medjudge.judge.folder import load_judge, read_card
from medjudge.judge.ordinal import OrdinalJudge, OrdinalModel, OrdinalSettings
from medjudge.judge.protocol import assignments
from medjudge.models.loading import load_encoder
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run
from medjudge.train.features import read_training_lines

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_trained_judge_is_a_folder_that_judges(
    kind, trained, tiny_lm, tiny_encoder, sample_run, tmp_path, monkeypatch
) -> None:
    base = tiny_encoder if kind == "ordinal" else tiny_lm
    monkeypatch.chdir(base.parent)
    folder = trained(kind, Path(f"./{base.name}"))
    card = read_card(folder)
    adapter = json.loads((folder / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == card.base_model == str(base)
    train = read_training_lines(tmp_path / "train.jsonl")
    assert card.trained_on.question_ids == sorted({line.question.id for line in train})
    assert set(card.trained_on.files) == {"train.jsonl", "validation.jsonl"}
    assert (card.kind, card.training["seed"], card.training["answers"]) == (kind, 42, len(train))
    # A judge depends on the rubrics of its categories only, and an ordinal one on none.
    categories = set(card.training["categories"]) if kind == "generative" else set()
    assert {name.split(".")[0] for name in card.prompt_hashes} == categories
    assert card.scheme == LLMEVAL_MED.ref
    assert "Never validated" in (folder / "README.md").read_text()
    run = Run(sample_run)
    judge = load_judge(folder, "tiny", CPU)
    judgments = list(judge.judge(assignments(run.questions(), run.answers())[:10]))
    assert len(judgments) == 10
    assert all(judgment.score in range(1, 6) and judgment.probabilities for judgment in judgments)


@pytest.mark.slow
def test_the_saved_judge_scores_as_the_trained_model(trained, tiny_encoder, training_files, trainers) -> None:
    """Adapter and head on disk carry what was trained: the loaded judge gives the trained model's probabilities."""
    folder = trained("ordinal", max_steps=10)
    lines = read_training_lines(training_files[1])
    loaded = load_judge(folder, "tiny", CPU)
    trained = OrdinalJudge("tiny", trainers[0].model.eval(), loaded.tokenizer, loaded.settings)
    body = load_encoder(str(tiny_encoder))
    fresh = OrdinalJudge("tiny", OrdinalModel(body, 32).eval(), loaded.tokenizer, OrdinalSettings(64))
    resumed, other, untrained = [
        np.array([made.probabilities for made in judge.judge(work(lines))]) for judge in (loaded, trained, fresh)
    ]
    # bfloat16: the adapter is merged in one and beside the body in the other.
    assert resumed == pytest.approx(other, abs=0.02)
    assert np.abs(resumed - untrained).max() > 0.05


@pytest.mark.slow
def test_training_learns_what_the_labels_say(trained, training_files, tmp_path) -> None:
    for path in training_files:
        changed(path, good_or_bad)
    steps = {"max_steps": 60, "eval_steps": 60, "save_steps": 60}
    # The tiny tokenizer is never quite the same, and with a rate of 0.01 one training in dozens leaps away.
    folder = trained("ordinal", **steps, learning_rate=3e-3)
    training = read_card(folder).training
    losses = [loss for _, loss in training["loss"]]
    assert sum(losses[-10:]) < 0.2 * sum(losses[:10])
    assert training["validation"]["eval_usable_agreement"] == 1.0
