"""`medjudge train --plan`: what training would take, compared with training itself."""

import json
import shutil
from dataclasses import replace

import pytest
from recipe_runs import changed, config_file

from medjudge.models.loading import load_tokenizer
from medjudge.train.arguments import parse_arguments
from medjudge.train.features import TrainingData, read_training_lines
from medjudge.train.judge_trainer import JudgeTrainer
from medjudge.train.kinds import KINDS
from medjudge.train.plan import row_tokens
from medjudge.workflows.train import plan_training

FEW = {"max_steps": -1, "num_train_epochs": 0.4, "eval_strategy": "no", "save_strategy": "no", "use_cpu": True}
PACKS = {"packing": True, "share_prefixes": True, "per_device_train_batch_size": 1}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options"),
    [("generative", {"gradient_accumulation_steps": 2}), ("generative", PACKS), ("ordinal", {})],
    ids=["lines", "packs", "ordinal"],
)
def test_the_plan_has_the_steps_and_tokens_that_training_takes(
    kind, options, recipe, tiny_lm, tiny_encoder, training_files, tmp_path
) -> None:
    base = tiny_lm if kind == "generative" else tiny_encoder
    arguments = recipe(kind, **FEW, **options)
    plan = plan_training(config_file(tmp_path, arguments))
    config, tokenizer = parse_arguments(arguments), load_tokenizer(str(base))
    rows = KINDS[kind].rows(config, tokenizer, TrainingData(*map(read_training_lines, training_files)))
    trainer = KINDS[kind].trainer(config, tokenizer, rows)
    trainer.train()
    read = [row_tokens(row) for row in trainer.train_dataset]
    assert (plan.steps, plan.tokens, plan.sequences) == (trainer.state.max_steps, sum(read), len(read))
    assert 0 < plan.longest <= max(read)
    assert plan.train.lines == len(rows.lines.train)
    assert 0 < plan.memory["measured"] < 64
    assert plan.hours > 0
    text = "\n".join(plan.text())
    for part in (f"{base}, to {tmp_path / 'judges' / kind}", f"{plan.epochs:g} epochs of", "on this CPU"):
        assert part in text
    assert "(1 epoch of" in "\n".join(replace(plan, epochs=1.0).text())


def test_a_config_for_a_gpu_is_planned_without_weights_and_counts_what_is_dropped_and_cut(
    medjudge, recipe, tiny_lm, training_files, tmp_path
) -> None:
    base = shutil.copytree(tiny_lm, tmp_path / "base", ignore=shutil.ignore_patterns("*.safetensors"))

    lines = read_training_lines(training_files[0])
    reference, text = "gave 5 mg of it " * 600, "It is safe. " * 2000
    changed(training_files[0], lambda number, line: number == 0 and line["question"].update(reference=reference))
    changed(training_files[0], lambda number, line: number == 1 and line["answer"].update(text=text))
    options = {"gradient_accumulation_steps": 1, "max_steps": -1, "use_cpu": False}
    config = config_file(tmp_path, recipe("generative", base, **options))
    done = medjudge("train", "--config", config, "--plan", "--json")
    assert done.returncode == 0, done.stderr
    plan, count, share = json.loads(done.stdout), len(lines), f"({1 / len(lines):.1%})"
    assert plan["train"] == {"lines": count, "dropped": 1, "cut": 1}
    assert plan["memory"] is plan["hours"] is None
    screen = medjudge("train", "--config", config, "--plan").stdout
    told = ("this config trains on a GPU; run --plan on a machine with one", "below about 100 optimizer steps")
    for part in (f"train: {count} lines, 1 {share} dropped, 1 {share} cut", *told):
        assert part in screen
    assert not (tmp_path / "judges").exists()


def test_steps_are_taken_on_typical_batches_and_on_the_longest(recipe, training_files, tmp_path, monkeypatch) -> None:
    changed(training_files[0], lambda number, line: number == 3 and line["answer"].update(text="It is safe. " * 200))
    read = []
    step = JudgeTrainer.training_step

    def training_step(self, model, inputs, *arguments, **options):
        read.append(inputs["input_ids"].shape[1])
        return step(self, model, inputs, *arguments, **options)

    monkeypatch.setattr(JudgeTrainer, "training_step", training_step)
    options = {"max_steps": -1, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2}
    plan = plan_training(config_file(tmp_path, recipe("generative", **options)))
    assert len(read) == 4
    assert read[1] == plan.longest > read[2] == read[3]
    assert not (tmp_path / "judges").exists()
