"""The GRPO stage, run for real on a tiny model."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from recipe_runs import changed
from train_judge import main as train_judge

from medjudge.errors import InputError
from medjudge.judge.folder import load_judge, read_card
from medjudge.models.loading import load_tokenizer
from medjudge.train.command_line import parse_arguments
from medjudge.train.features import TrainingData, read_training_lines
from medjudge.train.generative import score_logits
from medjudge.train.grpo import BETA, GrpoTrainer, grpo_trainer, rewards
from medjudge.workflows.train import plan_training

CPU = torch.device("cpu")
SHORT = {"max_steps": 2, "eval_steps": 2, "save_steps": 2, "per_device_train_batch_size": 2}


@pytest.fixture
def source(training_files: tuple[Path, Path]) -> Callable[[str], None]:
    """Gives every line of both files a source."""

    def write(name: str) -> None:
        for path in training_files:
            changed(path, lambda number, line: line.update(source=name))

    return write


@pytest.fixture
def trainer(recipe, tiny_lm, training_files, source) -> GrpoTrainer:
    """Of a tiny model whose fresh adapter says something other than its base."""
    source("physician")
    judge, model, options = parse_arguments(recipe("generative", tiny_lm, stage="grpo", use_cpu=True))
    options.max_length = 2048
    data = TrainingData(*map(read_training_lines, training_files))
    made = grpo_trainer(judge, model, options, load_tokenizer(str(tiny_lm)), data)
    for name, parameter in made.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return made


def mean_reward(folder: Path, file: Path) -> float:
    lines = read_training_lines(file)
    judge = load_judge(folder, "judge", CPU)
    logits = torch.tensor(score_logits(judge.model, judge.tokenizer, lines, 2048, "score-first"))
    earned = logits.softmax(dim=1) * rewards(torch.tensor([line.level for line in lines]))
    return float(earned.sum(dim=1).mean())


def test_a_verdict_earns_its_distance_and_the_usable_label() -> None:
    assert rewards(torch.tensor([4, 1])).tolist() == [[-3, -2, -1, 1, 0], [1, 0, -1, -3, -4]]


def test_the_gradient_is_that_of_a_large_sampled_group(trainer) -> None:
    """By the definition: verdicts are sampled, and each advantage is its reward less the group's mean."""
    trainer.train_dataset = trainer.train_dataset.map(lambda row: row | {"weight": 1.0})
    batch = trainer.data_collator([trainer.train_dataset[index] for index in range(2)])
    adapter = [parameter for name, parameter in trainer.model.named_parameters() if "lora_A" in name]
    exact = torch.cat(
        [part.flatten() for part in torch.autograd.grad(trainer.compute_loss(trainer.model, batch), adapter)]
    )

    text = {name: batch[name] for name in ("input_ids", "attention_mask", "position_ids")}
    label_ids = [trainer.processing_class.convert_tokens_to_ids(str(level)) for level in range(1, 6)]
    log_policy = trainer.model(**text).logits[:, -1, label_ids].log_softmax(dim=1)
    sampled = torch.multinomial(log_policy.exp(), 200_000, replacement=True, generator=torch.manual_seed(0))
    earned = rewards(batch["labels"]).gather(1, sampled)
    advantage = earned - earned.mean(dim=1, keepdim=True)
    kl = (log_policy.exp() * (log_policy - batch["before"])).sum(dim=1).mean()
    loss = -(advantage * log_policy.gather(1, sampled)).mean() + BETA * kl
    by_samples = torch.cat([part.flatten() for part in torch.autograd.grad(loss, adapter)])
    assert float(torch.cosine_similarity(exact, by_samples, dim=0)) > 0.99
    assert float(exact.norm()) == pytest.approx(float(by_samples.norm()), rel=0.05)


def test_a_line_counts_by_its_weight(trainer) -> None:
    rows = [trainer.train_dataset[index] for index in range(2)]

    def loss(*weights: float) -> float:
        weighted = [row | {"weight": weight} for row, weight in zip(rows, weights, strict=True)]
        return trainer.compute_loss(trainer.model, trainer.data_collator(weighted)).item()

    assert loss(3, 1) == pytest.approx(0.75 * loss(1, 1e-9) + 0.25 * loss(1e-9, 1), abs=1e-5)


@pytest.mark.slow
def test_the_mean_reward_rises_from_the_judge_that_it_starts_from(
    recipe, tiny_lm, training_files, source, tmp_path
) -> None:
    source("physician")
    first = train_judge(*parse_arguments(recipe("generative", tiny_lm, **SHORT, learning_rate=1e-6)))
    options = {"stage": "grpo", "start_from": first, "output_dir": tmp_path / "judges" / "rewarded"}
    options |= {
        "max_steps": 8,
        "eval_steps": 8,
        "save_steps": 8,
        "per_device_train_batch_size": 2,
        "learning_rate": 3e-3,
    }
    second = train_judge(*parse_arguments(recipe("generative", tiny_lm, **options)))
    before, after = [mean_reward(folder, training_files[0]) for folder in (first, second)]
    assert after > before + 0.3, (before, after)
    card = read_card(second)
    assert (card.training["stage"], card.training["objective"]) == ("grpo", "grpo")
    assert card.training["started_from"] == str(first)
    assert np.isfinite(card.training["validation"]["eval_quadratic_kappa"])


def test_the_plan_counts_the_lines_that_are_rewarded(recipe, tiny_lm, training_files, tmp_path) -> None:
    for path in training_files:
        changed(path, lambda number, line: line.update(source="teacher" if number == 0 else "physician"))
    words = recipe("generative", tiny_lm, stage="grpo", use_cpu=True)
    (tmp_path / "grpo.yaml").write_text(
        "".join(f"{name[2:]}: {value}\n" for name, value in zip(words[::2], words[1::2], strict=True))
    )
    plan = plan_training(tmp_path / "grpo.yaml")
    config, tokenizer = parse_arguments(words), load_tokenizer(str(tiny_lm))
    config.training.max_length = 2048
    data = TrainingData(*map(read_training_lines, training_files))
    rows = grpo_trainer(*config, tokenizer, data).train_dataset
    assert plan.sequences == len(rows) == len(data.train) - 1
    assert plan.tokens == sum(len(row["prompt_ids"]) for row in rows)
    assert plan.memory is not None


def test_what_cannot_be_rewarded_is_named(recipe, tiny_lm, tiny_encoder, source) -> None:
    with pytest.raises(InputError, match="stage grpo is for generative judges, and kind is ordinal"):
        train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, stage="grpo")))
    with pytest.raises(InputError, match="style is reason-first; set style score-first, or stage preference"):
        parse_arguments(recipe("generative", tiny_lm, stage="grpo", style="reason-first"))
    with pytest.raises(InputError, match="packing has no effect in stage grpo"):
        parse_arguments(recipe("generative", tiny_lm, stage="grpo", packing=True))
    source("teacher")
    with pytest.raises(InputError, match="stage grpo: train_file holds a teacher's levels only"):
        train_judge(*parse_arguments(recipe("generative", tiny_lm, stage="grpo")))
