"""Generative judges, trained for real on a tiny model: what is learnt, and that options change nothing else."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from recipe_runs import changed, generative_trainer_of, good_or_bad, score_logits, work
from safetensors.torch import load_file

from medjudge.errors import InputError
from medjudge.judge.folder import load_judge, read_card
from medjudge.models.loading import load_causal_lm
from medjudge.records import TrainingLine
from medjudge.train.arguments import TRAINABLE_STYLES
from medjudge.train.features import encoded_lines, read_training_lines
from medjudge.train.generative import GenerativeTrainer, collate
from medjudge.train.packs import require_separate_lines

CPU = torch.device("cpu")


@pytest.fixture
def lines(training_files: tuple[Path, Path]) -> list[TrainingLine]:
    """Eight training lines of several weights, soft and certain labels, some of them with a rationale."""
    varied = []
    for number, line in enumerate(read_training_lines(training_files[0])[:8]):
        soft = [0.0, 0.1, 0.2, 0.3, 0.4] if number == 1 else line.probabilities
        rationale = (None, "The dose is right. " * 4, "Wrong.")[number % 3]
        change = {"probabilities": soft, "rationale": rationale, "weight": 1.0 + number % 3}
        varied.append(line.model_copy(update=change))
    return varied


@pytest.fixture
def trainer(tiny_lm: Path, tmp_path: Path) -> Callable[..., GenerativeTrainer]:
    """Takes one step that is the gradient itself: without clipping, at rate 1."""
    one = {"max_steps": 1, "learning_rate": 1.0, "optim": "sgd", "lr_scheduler_type": "constant", "max_grad_norm": 0.0}
    one |= {"per_device_train_batch_size": 8, "logging_steps": 1, "save_strategy": "no"}
    return lambda lines, **options: generative_trainer_of(tiny_lm, tmp_path / "trainer", lines, **(one | options))


def stepped(trainer: GenerativeTrainer) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of one step, and the adapter after it."""
    trainer.train()
    (loss,) = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    return loss, {name: value.detach() for name, value in trainer.model.named_parameters() if value.requires_grad}


def test_the_loss_is_the_weighted_mean_over_lines_of_words_levels_and_expected_level(trainer, lines) -> None:
    built = trainer(lines)
    rows = encoded_lines(lines, built.processing_class, 2048)
    label_ids = [built.processing_class.convert_tokens_to_ids(str(level)) for level in range(1, 6)]
    total = 0.0
    for row, line in zip(rows, lines, strict=True):
        with torch.no_grad():
            logits = built.model(torch.tensor([row["input_ids"]])).logits[0].double()
        spoken = logits.log_softmax(dim=1)
        words = [-spoken[at - 1, label].item() for at, label in enumerate(row["labels"]) if label != -100]
        at_score = row["score_at"] - 1
        target = np.array(line.probabilities)
        levels = spoken[at_score, label_ids].exp().numpy()
        off = levels @ np.arange(1, 6) / levels.sum() - target @ np.arange(1, 6)
        total += line.weight * ((np.mean(words) if words else 0.0) - target @ np.log(levels) + off**2)
    expected = total / sum(line.weight for line in lines)
    loss = built.compute_loss(built.model, collate(list(rows), 0))
    assert loss.item() == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["packing", "gradient_checkpointing"])
def test_packing_and_checkpointing_change_nothing_of_a_step(option, trainer, lines) -> None:
    other = trainer(lines, **{option: True})
    assert (len(other.train_dataset) < len(lines)) == (option == "packing")
    (loss, adapter), (other_loss, other_adapter) = stepped(trainer(lines)), stepped(other)
    assert loss == pytest.approx(other_loss, rel=1e-4)
    moved = [float(value.abs().max()) for name, value in adapter.items() if "lora_B" in name]
    assert min(moved) > 1e-3  # lora_B starts at 0: the step was one
    for name, value in adapter.items():
        assert torch.allclose(value, other_adapter[name], atol=1e-4), name


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_packed_lines_do_not_see_each_other(attention, tiny_lm) -> None:
    model = load_causal_lm(str(tiny_lm), attn_implementation=attention)
    require_separate_lines(model)
    forward = model.forward
    # A model that does not heed positions, as one with a state does not.
    model.forward = lambda ids, position_ids, use_cache: forward(ids, use_cache=use_cache)
    with pytest.raises(InputError, match="packing would let lines see each other in Qwen3ForCausalLM"):
        require_separate_lines(model)


@pytest.mark.slow
@pytest.mark.parametrize("style", TRAINABLE_STYLES)
def test_training_learns_what_the_labels_say(style, trained, training_files) -> None:
    def simple(number: int, line: dict) -> None:
        good_or_bad(number, line)
        line["question"].update(prompt="How much?", reference="At most 4 g.", checklist=None, category="MK")
        line["rationale"] = "All wrong." if number % 2 else "All there."

    for path in training_files:
        changed(path, simple)
    folder = trained("generative", style=style, max_steps=60, eval_steps=60, save_steps=60)
    card = read_card(folder)
    assert card.style == style
    assert card.training["validation"]["eval_usable_agreement"] == 1.0
    lines = read_training_lines(training_files[1])
    judgments = load_judge(folder, "tiny", CPU).judge(work(lines))
    judged = {judgment.answer_key: (judgment.score, judgment.rationale) for judgment in judgments}
    assert judged == {line.answer.key: (line.level, None) for line in lines}


@pytest.mark.slow
@pytest.mark.parametrize("variant", [{}, {"use_rslora": True}, {"use_dora": True}], ids=["lora", "rslora", "dora"])
def test_every_kind_of_lora_judges_as_it_was_trained(trained, variant, tiny_lm, training_files, trainers) -> None:
    folder = trained("generative", **variant)
    adapter = json.loads((folder / "adapter_config.json").read_text())
    assert all(adapter[name] for name in variant)
    tensors = load_file(folder / "adapter_model.safetensors")
    assert any("magnitude" in name for name in tensors) == ("use_dora" in variant)
    lines = read_training_lines(training_files[1])
    judge = load_judge(folder, "tiny", CPU)
    loaded, trained, fresh = [
        score_logits(model, judge.tokenizer, lines, 2048)
        for model in (judge.model, trainers[-1].model, load_causal_lm(str(tiny_lm)))
    ]
    assert loaded == pytest.approx(trained, abs=0.15)  # bfloat16 in one, float32 in the other
    assert np.abs(loaded - fresh).max() > 0.5
