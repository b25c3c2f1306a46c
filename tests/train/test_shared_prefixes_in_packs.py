"""Packs that hold once what their lines begin with: the same step, of fewer tokens."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from recipe_runs import generative_trainer_of, gradients_of, moved

from medjudge.errors import InputError
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.records import TrainingLine
from medjudge.train.features import encoded_lines, read_training_lines
from medjudge.train.generative import collate
from medjudge.train.packs import require_separate_branches, tree_packed, tree_packs
from medjudge.train.plan import row_tokens


@pytest.fixture
def lines(training_files: tuple[Path, Path]) -> list[TrainingLine]:
    """Twelve lines on two questions, with and without rationale; one answer has two scores."""
    first, second = read_training_lines(training_files[0])[:2]
    made = []
    for number in range(12):
        line, kind = (first, second)[number % 2], number % 3
        answer = line.answer.model_copy(update={"text": f"It is {number // 3} mg, and then {number} more. " * 8})
        change = {"answer": answer, "probabilities": np.roll([0.6, 0.3, 0.1, 0.0, 0.0], kind).tolist()}
        change |= {"level": 1 + kind, "weight": 1.0 + kind, "rationale": (None, "The dose is right. ", "Wrong.")[kind]}
        made.append(line.model_copy(update=change))
    again = made[4].model_copy(update={"probabilities": [0.0, 0.0, 0.0, 0.0, 1.0], "level": 5, "rationale": "The end."})
    return [*made, again]


@pytest.mark.slow
@pytest.mark.parametrize("checkpointing", [True, False])
def test_gradients_are_those_of_separate_lines(checkpointing: bool, lines, tiny_lm, tmp_path) -> None:
    options = {"per_device_train_batch_size": len(lines)}
    in_trees = {"judge": {"share_prefixes": True}, "packing": True, "gradient_checkpointing": checkpointing}
    plain, trees = [
        moved(generative_trainer_of(tiny_lm, tmp_path / "trainer", lines, **options, **more)) for more in ({}, in_trees)
    ]
    separate, packed = [trainer.data_collator(list(trainer.train_dataset)) for trainer in (plain, trees)]
    assert packed["input_ids"].numel() < 0.4 * separate["input_ids"].numel()
    expected, shared = gradients_of(plain, separate), gradients_of(trees, packed)
    for name, value in expected.items():
        assert (shared[name] - value).norm() < 1e-4 * value.norm(), name


def test_packs_keep_to_their_limit_and_every_line_is_in_one(lines, tiny_lm) -> None:
    rows = encoded_lines(lines, load_tokenizer(str(tiny_lm)), 4096)
    longest = max(len(row["input_ids"]) for row in rows)
    limit = longest + 200
    packs = tree_packed(Dataset.from_list(rows), limit)
    assert 2 < len(packs) < len(lines)
    tokens = [collate([pack], 0)["input_ids"].numel() for pack in packs]
    assert tokens == [row_tokens(pack) for pack in packs]
    assert max(tokens) <= limit
    found = sorted((line["input_ids"], line["probabilities"]) for pack in packs for line in pack["lines"])
    assert found == sorted((row["input_ids"], row["probabilities"]) for row in rows)
    for pack in packs:
        batch = collate([pack], 0)
        for number, line in enumerate(pack["lines"]):
            place = batch["score_at"][number]
            assert batch["input_ids"][0, place] == line["input_ids"][line["score_at"]]
            assert batch["position_ids"][0, place] == line["score_at"]
            assert batch["line"][0, place] == number


def test_packs_for_training_hold_few_answers_to_one_question() -> None:
    places = [(question, answer) for question in range(32) for answer in range(12)]
    rows: list[dict[str, Any]] = [
        {"input_ids": [1] * 60 + [question] * 50 + [answer] * 20 + [9, 9], "labels": [-100] * 132, "score_at": 131}
        for question, answer in places
    ]
    packs = tree_packs(rows, 4000, 600)
    assert sorted(line for pack in packs for line, _ in pack) == list(range(len(rows)))
    assert max(sum(132 - shared for _, shared in pack) for pack in packs) <= 1.3 * 600
    by_question = [Counter(places[line][0] for line, _ in pack) for pack in packs]
    in_order = [Counter(places[line][0] for line, _ in pack) for pack in tree_packs(rows, 600)]
    assert np.mean([len(each) for each in by_question]) > 1.5 * np.mean([len(each) for each in in_order])


def test_a_model_that_does_not_heed_the_tree_is_refused(tiny_lm) -> None:
    model = load_causal_lm(str(tiny_lm))
    require_separate_branches(model)
    forward = model.forward
    # It takes no mask, as a model with a state does.
    model.forward = lambda ids, attention_mask=None, **options: forward(ids, **options)
    with pytest.raises(InputError, match="share_prefixes would let lines see each other in Qwen3ForCausalLM"):
        require_separate_branches(model)
