"""The preference stage, run for real on a tiny model."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from recipe_runs import write_lines
from train_judge import main as train_judge

from medjudge.distill.pairs import ComparedAnswers
from medjudge.distill.pairs import training_pairs as make_pairs
from medjudge.errors import InputError
from medjudge.judge.folder import load_judge, read_card
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.generative_pairs import GenerativePairJudge
from medjudge.judge.pair_store import physician_pairs
from medjudge.judge.pairs import PairAssignment
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.records import TrainingLine
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run
from medjudge.train.command_line import parse_arguments
from medjudge.train.features import TrainingData, line_assignment, prompts_of, read_training_lines
from medjudge.train.generative import score_logits
from medjudge.train.pairs import encoded_pairs, read_training_pairs
from medjudge.train.preference import level_rows, pair_rows, preference_trainer

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
    rows = level_rows(lines, model, tokenizer, 2048, style)
    assert len(rows) == 4
    label_ids = [tokenizer.convert_tokens_to_ids(str(level)) for level in range(1, 6)]
    for line, row in zip([*lines[:2], *lines[3:]], rows, strict=True):
        prompt = prompts_of([line_assignment(line, LLMEVAL_MED)], tokenizer, 2048, style)[0].input_ids
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


@pytest.fixture
def training_pairs(training_files: tuple[Path, Path], sample_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The sample's pairs on the questions of the training files, one of three on each question."""
    run = Run(sample_run)
    sides = [read_training_lines(file) for file in training_files]
    held = {line.question.group for line in sides[1]}
    known = {line.question.id for side in sides for line in side}
    pairs = [pair for pair in physician_pairs(run) if pair.question_id in known]
    made = make_pairs(ComparedAnswers(pairs, []), run.questions(), run.answers(), held)
    assert min(len(made.train), len(made.validation)) >= 2
    files = tmp_path / "train_pairs.jsonl", tmp_path / "validation_pairs.jsonl"
    for file, side in zip(files, (made.train, made.validation), strict=True):
        write_lines(file, side)
    return files


def test_a_pair_is_a_row_in_each_order_with_the_letter_of_the_better_answer(tiny_lm, training_pairs) -> None:
    pairs = read_training_pairs(training_pairs[0])[:2]
    model, tokenizer = load_causal_lm(str(tiny_lm)), load_tokenizer(str(tiny_lm))
    rows = pair_rows(encoded_pairs("file", pairs, tokenizer, 2048, LLMEVAL_MED), model, tokenizer, 2048)
    letters = {letter: tokenizer(letter, add_special_tokens=False)["input_ids"][-1] for letter in "ABC"}
    assert [row["chosen_ids"][0] for row in rows] == [letters["A"], letters["B"]] * 2
    for pair, forward, backward in zip(pairs, rows[::2], rows[1::2], strict=True):
        shown = [tokenizer.decode(row["prompt_ids"]) for row in (forward, backward)]
        places = [[text.index(answer.text[:40]) for answer in (pair.chosen, pair.rejected)] for text in shown]
        assert places[0] == sorted(places[0])
        assert places[1] != sorted(places[1])
        for row in (forward, backward):
            with torch.no_grad():
                logits = model(torch.tensor([row["prompt_ids"]])).logits[0, -1]
            chosen = row["chosen_ids"][0]
            rival = max((token for token in letters.values() if token != chosen), key=lambda token: logits[token])
            assert row["rejected_ids"] == [rival]
            assert row["margin"] == pytest.approx(float(logits[chosen] - logits[rival]), abs=1e-4)


def test_a_pair_without_room_is_dropped_and_said(tiny_lm, training_pairs, capsys) -> None:
    pairs = read_training_pairs(training_pairs[0])[:2]
    assert encoded_pairs("pairs.jsonl", pairs, load_tokenizer(str(tiny_lm)), 60, LLMEVAL_MED) == []
    assert "pairs.jsonl: 2 of 2 pairs dropped" in capsys.readouterr().err


@pytest.mark.slow
def test_training_on_pairs_prefers_the_chosen_answer_more_often(
    recipe, tiny_lm, training_files, training_pairs, physicians, tmp_path
) -> None:
    physicians("teacher")  # no preference comes from the lines
    for file in training_pairs:  # a cue that a model of two layers can learn
        pairs = [json.loads(line) for line in file.read_text().splitlines()]
        for pair in pairs:
            pair["chosen"]["text"], pair["rejected"]["text"] = "yes " * 12, "no " * 12
        file.write_text("".join(json.dumps(pair) + "\n" for pair in pairs[:4]))
    folder = tmp_path / "judges" / "preferred"
    arguments = recipe(
        "generative",
        tiny_lm,
        stage="preference",
        train_pairs_file=training_pairs[0],
        validation_pairs_file=training_pairs[1],
        output_dir=folder,
        max_steps=40,
        eval_steps=40,
        save_steps=40,
        learning_rate=1e-2,
    )
    train_judge(*parse_arguments(arguments))
    pairs = read_training_pairs(training_pairs[0])
    work = [
        assignment
        for pair in pairs
        for shown in [PairAssignment(pair.question, tuple(pair.earlier), pair.chosen, pair.rejected)]
        for assignment in (shown, shown.swapped())
    ]
    chosen = {(pair.question.id, pair.chosen.model, pair.rejected.model) for pair in pairs}

    def right(judge: GenerativeJudge) -> float:
        verdicts = GenerativePairJudge(judge).judge_pairs(work)
        winners = [
            (verdict.question_id, verdict.first, verdict.second) in chosen
            if verdict.preferred == "first"
            else (verdict.question_id, verdict.second, verdict.first) in chosen
            for verdict in verdicts
            if verdict.preferred != "tie"
        ]
        return sum(winners) / len(work)

    tokenizer = load_tokenizer(str(tiny_lm))
    before = right(GenerativeJudge("base", load_causal_lm(str(tiny_lm)), tokenizer, GenerativeSettings(2048)))
    after = right(load_judge(folder, "preferred", CPU))
    assert before <= 0.5 < 0.9 < after
    card = read_card(folder)
    assert card.training["pairs"] == len(pairs)
    assert {"train_pairs.jsonl", "validation_pairs.jsonl"} <= card.trained_on.files.keys()
    assert {pair.question.id for pair in pairs} <= set(card.trained_on.question_ids)


def test_pairs_belong_to_stage_preference_and_to_one_side(recipe, tiny_lm, training_pairs) -> None:
    with pytest.raises(InputError, match="train_pairs_file is for stage preference, and stage is judge"):
        parse_arguments(recipe("generative", tiny_lm, train_pairs_file=training_pairs[0]))
    same = {"train_pairs_file": training_pairs[1], "validation_pairs_file": training_pairs[1]}
    with pytest.raises(InputError, match="conversations stand in the training and in the validation file"):
        train_judge(*parse_arguments(recipe("generative", tiny_lm, stage="preference", **same)))
    training_pairs[1].write_text("")
    with pytest.raises(InputError, match=r"validation_pairs\.jsonl: no pair in it; leave train_pairs_file out"):
        train_judge(
            *parse_arguments(recipe("generative", tiny_lm, stage="preference", train_pairs_file=training_pairs[1]))
        )
