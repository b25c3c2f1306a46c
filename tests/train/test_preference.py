"""The preference stage, run for real on a tiny model."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from train_judge import main as train_judge

from medjudge.errors import InputError
from medjudge.judge.folder import load_judge, read_card
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.records import TrainingLine
from medjudge.scheme import LLMEVAL_MED
from medjudge.train.command_line import parse_arguments
from medjudge.train.features import TrainingData, line_assignment, prompt_ids, read_training_lines
from medjudge.train.generative import score_logits
from medjudge.train.preference import preference_dataset, preference_trainer

CPU = torch.device("cpu")
SHORT = {"max_steps": 2, "eval_steps": 2, "save_steps": 2, "per_device_train_batch_size": 2}


@pytest.fixture(autouse=True)
def short_rationales(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that was hardly trained writes to the limit."""
    monkeypatch.setattr("medjudge.judge.generative._REASON_TOKENS", 24)


@pytest.fixture
def physicians(training_files: tuple[Path, Path]) -> Callable[..., None]:
    """Gives every line of both files a source, and a rationale."""

    def write(source: str, rationale: str | None = None) -> None:
        for path in training_files:
            changed = [
                json.loads(line) | {"source": source, "rationale": rationale} for line in path.read_text().splitlines()
            ]
            path.write_text("".join(json.dumps(line) + "\n" for line in changed))

    return write


def logits_of(folder: Path, lines: list[TrainingLine]) -> np.ndarray:
    judge = load_judge(folder, "judge", CPU)
    return score_logits(judge.model, judge.tokenizer, lines, 2048, "score-first")


@pytest.mark.parametrize("style", ["score-first", "reason-first"])
def test_pairs_are_the_level_and_the_likeliest_other_after_the_same_words(style, tiny_lm, training_files) -> None:
    lines = read_training_lines(training_files[0])[:5]
    lines[2] = lines[2].model_copy(update={"source": "teacher"})
    model, tokenizer = load_causal_lm(str(tiny_lm)), load_tokenizer(str(tiny_lm))
    rows = list(preference_dataset(lines, model, tokenizer, 2048, style))
    assert len(rows) == 4
    label_ids = [tokenizer.convert_tokens_to_ids(str(level)) for level in range(1, 6)]
    for line, row in zip([*lines[:2], *lines[3:]], rows, strict=True):
        prompt = prompt_ids(line_assignment(line, LLMEVAL_MED), tokenizer, 2048, style).input_ids
        assert row["prompt_ids"][: len(prompt)] == prompt
        between = tokenizer.decode(row["prompt_ids"][len(prompt) :])
        assert between == "" if style == "score-first" else between.endswith("Score: ")
        with torch.no_grad():
            logits = model(torch.tensor([row["prompt_ids"]])).logits[0, -1]
        order = sorted(range(5), key=lambda level: -logits[label_ids[level]])
        wrong = next(level for level in order if level != line.level - 1)
        assert (row["chosen_ids"], row["rejected_ids"]) == ([label_ids[line.level - 1]], [label_ids[wrong]])


def test_the_loss_is_that_of_dpo_in_one_pass(recipe, tiny_lm, training_files, physicians) -> None:
    physicians("physician")
    judge, model, options = parse_arguments(recipe("generative", tiny_lm, stage="preference", use_cpu=True))
    options.max_length, tokenizer = 2048, load_tokenizer(str(tiny_lm))
    data = TrainingData(*map(read_training_lines, training_files))
    trainer = preference_trainer(judge, model, options, tokenizer, data)
    for name, parameter in trainer.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    rows = [trainer.train_dataset[index] for index in range(3)]
    passes = []
    hook = trainer.model.get_input_embeddings().register_forward_hook(lambda *call: passes.append(call[1][0].shape[0]))
    loss = trainer.compute_loss(trainer.model, trainer.data_collator(rows))
    hook.remove()
    assert passes == [3]  # neither both replies nor the reference

    def log_ratio(row: dict, reply: str) -> float:
        """Of the judge in training to the one from before, for the whole sequence of prompt and reply."""
        sequence, probabilities = torch.tensor([row["prompt_ids"] + row[reply]]), []
        for read in (trainer.model, load_causal_lm(str(tiny_lm))):
            with torch.no_grad():
                probabilities.append(read(sequence).logits[0, -2].log_softmax(dim=0)[row[reply][0]].item())
        return probabilities[0] - probabilities[1]

    gained = np.array([log_ratio(row, "chosen_ids") - log_ratio(row, "rejected_ids") for row in rows])
    assert np.abs(gained).max() > 0.01
    assert loss.item() == pytest.approx(np.log1p(np.exp(-0.1 * gained)).mean(), abs=1e-5)


@pytest.mark.slow
def test_the_margin_of_chosen_over_rejected_rises_from_the_judge_that_it_starts_from(
    recipe, tiny_lm, training_files, physicians, tmp_path
) -> None:
    physicians("physician")
    first = train_judge(*parse_arguments(recipe("generative", tiny_lm, **SHORT)))
    arguments = recipe(
        "generative",
        tiny_lm,
        stage="preference",
        start_from=first,
        output_dir=tmp_path / "judges" / "preferred",
        max_steps=8,
        eval_steps=8,
        save_steps=8,
        per_device_train_batch_size=2,
        learning_rate=3e-3,
    )
    second = train_judge(*parse_arguments(arguments))
    lines = read_training_lines(training_files[0])
    logits, each, level = logits_of(first, lines), np.arange(len(lines)), np.array([line.level - 1 for line in lines])
    rivals = logits.copy()
    rivals[each, level] = -np.inf
    rival = rivals.argmax(axis=1)
    before, after = [rows[each, level] - rows[each, rival] for rows in (logits, logits_of(second, lines))]
    assert before.mean() < 0 < 0.5 < (after - before).mean()

    card = read_card(second)
    assert (card.training["stage"], card.training["started_from"]) == ("preference", str(first))
    assert "eval_quadratic_kappa" in card.training["validation"]
    assert not (second / "ref").exists()
    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in lines]
    assert all(judgment.score for judgment in load_judge(second, "second", CPU).judge(work))


@pytest.mark.slow
def test_a_fresh_adapter_learns_preferences_in_either_style(recipe, tiny_lm, physicians, tmp_path) -> None:
    physicians("physician", "The dose is right.")
    for style in ("score-first", "reason-first"):
        options = {**SHORT, "style": style, "stage": "preference", "output_dir": tmp_path / style}
        folder = train_judge(*parse_arguments(recipe("generative", tiny_lm, **options)))
        assert read_card(folder).style == load_judge(folder, style, CPU).settings.style == style


def test_what_no_preference_can_be_made_of_is_named(recipe, tiny_lm, tiny_encoder, physicians) -> None:
    with pytest.raises(InputError, match="stage preference is for generative judges"):
        train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, stage="preference")))
    physicians("teacher")
    with pytest.raises(InputError, match="train_file holds a teacher's levels only"):
        train_judge(*parse_arguments(recipe("generative", tiny_lm, stage="preference")))


def test_a_judge_goes_on_in_its_own_style(recipe, tiny_lm, physicians, tmp_path) -> None:
    physicians("physician", "The dose is right.")
    first = train_judge(*parse_arguments(recipe("generative", tiny_lm, **SHORT)))
    options = {"start_from": first, "style": "reason-first", "output_dir": tmp_path / "other"}
    with pytest.raises(InputError, match="trained in style score-first; set style score-first"):
        train_judge(*parse_arguments(recipe("generative", tiny_lm, **options)))
