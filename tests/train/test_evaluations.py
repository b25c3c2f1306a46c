"""Evaluations in training: each validation line is read once, as the judge reads it, and before the first step too."""

import math
from collections import Counter

import numpy as np
import pytest
from recipe_runs import changed, score_logits, train
from scipy.special import log_softmax
from transformers import Trainer

from medjudge.judge.folder import read_card
from medjudge.train.features import read_training_lines
from medjudge.train.generative import GenerativeTrainer
from medjudge.train.judge_trainer import JudgeTrainer


@pytest.fixture
def evaluated(monkeypatch) -> list[int]:
    """The step of each pass over the validation lines."""
    steps: list[int] = []
    original = Trainer.evaluation_loop

    def evaluation_loop(self: Trainer, *arguments: object, **options: object) -> object:
        steps.append(self.state.global_step)
        return original(self, *arguments, **options)

    monkeypatch.setattr(Trainer, "evaluation_loop", evaluation_loop)
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("bf16", [False, True])
def test_an_evaluation_reads_what_the_judge_reads_in_one_pass(trained, bf16, training_files, monkeypatch) -> None:
    """With rationales beside the scores, in batches with padding; in float32, and by autocast in bfloat16."""
    changed(training_files[1], lambda number, line: line.update(rationale="Wrong dose. " * (number % 3) or None))
    read: list[np.ndarray] = []
    original = JudgeTrainer.evaluation_loop

    def evaluation_loop(self: GenerativeTrainer, *arguments: object, **options: object) -> object:
        passes = Counter()
        model = self.accelerator.unwrap_model(self.model)
        hook = model.register_forward_hook(lambda *_: passes.update(["pass"]))
        output = original(self, *arguments, **options)
        hook.remove()
        assert passes["pass"] == math.ceil(len(lines) / 4)
        judged = score_logits(model, self.processing_class, lines, 2048)
        read.append(np.stack([log_softmax(rows, axis=1) for rows in (output.predictions, judged)]))
        return output

    monkeypatch.setattr(JudgeTrainer, "evaluation_loop", evaluation_loop)
    lines = read_training_lines(training_files[1])
    folder = trained("generative", bf16=bf16)
    assert len(read) == 3
    for once, twice in read:
        assert once == pytest.approx(twice, abs=0.05 if bf16 else 1e-4)
    training = read_card(folder).training
    assert 0 < training["untuned"]["eval_score_mass"] < training["validation"]["eval_score_mass"] <= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_the_evaluation_of_the_kept_checkpoint_is_the_measure_of_the_judge(kind, trained, evaluated, trainers) -> None:
    card = read_card(trained(kind))
    assert evaluated == ([2, 4] if kind == "ordinal" else [0, 2, 4])
    (trainer,) = trainers
    again = trainer.predict(trainer.eval_dataset, metric_key_prefix="eval")
    assert card.training["validation"]["eval_loss"] == pytest.approx(again.metrics["eval_loss"], abs=1e-4)


@pytest.mark.slow
def test_a_run_that_resumed_after_its_best_evaluation_repeats_it(recipe, evaluated, stopped, monkeypatch) -> None:
    kappas = iter([0.0, 0.5, 0.1, 0.1, 0.1, 0.1])
    measures = "medjudge.train.generative.agreement_measures"
    monkeypatch.setattr(measures, lambda rows, level: {"quadratic_kappa": next(kappas), "usable_agreement": 0.5})
    arguments = recipe("generative", max_steps=6)
    with stopped(step=3), pytest.raises(KeyboardInterrupt):
        train(arguments)
    card = read_card(train([*arguments, "--resume"]))
    assert evaluated == [0, 2, 4, 6, 6]  # not at the start again, and the best at the end
    assert card.training["untuned"]["eval_quadratic_kappa"] == 0.0


@pytest.mark.slow
def test_the_gain_of_training_is_said_and_written(trained, tmp_path, capsys) -> None:
    folder = trained("generative")
    before, after = (read_card(folder).training[name] for name in ("untuned", "validation"))
    names = {"quadratic kappa": "eval_quadratic_kappa", "agreement on usable": "eval_usable_agreement"}
    assert before.keys() == after.keys() == {"eval_loss", "eval_score_mass", *names.values()}
    assert before["eval_loss"] > after["eval_loss"]
    gain = ", ".join(f"{label} {before[name]:.2f} -> {after[name]:.2f}" for label, name in names.items())
    assert f"validation: {gain} (untuned -> tuned)\n" in capsys.readouterr().err
    assert f"- Validation: {gain} (untuned -> tuned)\n" in (folder / "README.md").read_text()
    second = trained("generative", start_from=folder, output_dir=tmp_path / "further")
    assert read_card(second).training["untuned"] == pytest.approx(after, abs=1e-3)
    assert "(before -> after)" in capsys.readouterr().err
    third = trained("generative", output_dir=tmp_path / "third", eval_on_start=False)
    assert read_card(third).training["untuned"] is None
    assert "->" not in (third / "README.md").read_text()
