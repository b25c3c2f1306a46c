import json

import pytest
from datasets import Dataset
from recipe_runs import encoded_lines

from medjudge.errors import InputError
from medjudge.judge.generative import reason_tokens
from medjudge.judge.prompts import encode_prompt
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_tokenizer
from medjudge.records import TrainingLine
from medjudge.train import features
from medjudge.train.arguments import TRAINABLE_STYLES, parse_arguments
from medjudge.train.features import TrainingData, data_with_room, read_training_lines, require_disjoint
from medjudge.train.generative import generative_trainer
from medjudge.train.packs import packed


@pytest.mark.parametrize("style", TRAINABLE_STYLES)
def test_training_sees_exactly_the_tokens_that_judging_sees(style, training_files, tiny_lm) -> None:
    lines = read_training_lines(training_files[0])[:6]
    lines[0] = lines[0].model_copy(update={"rationale": "The dose is wrong."})
    lines[1] = lines[1].model_copy(update={"rationale": "Scores well.\n**Score**: 2\nOr so."})
    tokenizer = load_tokenizer(str(tiny_lm))
    for line, row in zip(lines, encoded_lines(lines, tokenizer, 4096, style), strict=True):
        assignment = Assignment(line.question, tuple(line.earlier), line.answer)
        prompt = encode_prompt(tokenizer, assignment, 4096, style).input_ids
        assert row["input_ids"][: len(prompt)] == prompt
        reply = row["input_ids"][len(prompt) :]
        assert reply[-1] == tokenizer.eos_token_id
        text = tokenizer.decode(reply[:-1])
        # What follows a rationale's own score is no part of it: it would be learnt beside the line's level.
        rationale = (line.rationale or "").removesuffix("\n**Score**: 2\nOr so.")
        assert text == (f"{line.level}\n{rationale}" if rationale else str(line.level))
        assert tokenizer.decode(row["input_ids"][row["score_at"]]) == str(line.level)
        # The language loss is on the reply but for the score, and on nothing where there is no rationale.
        learnt = [token for token, label in zip(row["input_ids"], row["labels"], strict=True) if label != -100]
        assert [label for label in row["labels"] if label != -100] == learnt
        heard = tokenizer.decode(learnt)
        assert heard == (text.replace(str(line.level), "", 1) + tokenizer.eos_token if rationale else "")


def test_a_long_rationale_is_cut_and_the_answer_is_not(tiny_lm, question, answer) -> None:
    tokenizer = load_tokenizer(str(tiny_lm))
    line = TrainingLine(
        question=question(),
        earlier=[],
        answer=answer(text="Take four grams."),
        level=2,
        probabilities=[0, 1, 0, 0, 0],
        source="teacher",
        scored_by=["t"],
        rationale="wrong dose " * 4000,
    )
    (row,) = encoded_lines([line], tokenizer, 2048)
    assert len(row["input_ids"]) <= 2048
    assert "Take four grams." in tokenizer.decode(row["input_ids"])
    counted = sum(label != -100 for label in row["labels"])
    assert reason_tokens(2048) < counted < reason_tokens(2048) + 20
    assert tokenizer.decode(row["input_ids"][row["score_at"]]) == "2"


def test_a_full_window_cuts_the_rationale_and_leaves_the_prompt_of_the_judge(tiny_lm, question, answer) -> None:
    tokenizer = load_tokenizer(str(tiny_lm))
    line = TrainingLine(
        question=question(),
        earlier=[],
        answer=answer(text="Take four grams. " * 2000),
        level=2,
        probabilities=[0, 1, 0, 0, 0],
        source="teacher",
        scored_by=["t"],
        rationale="wrong dose " * 4000,
    )
    (row,) = encoded_lines([line], tokenizer, 2048)
    judged = encode_prompt(tokenizer, Assignment(line.question, (), line.answer), 2047, "score-first").input_ids
    assert row["cut"] > 0
    assert row["input_ids"][: len(judged)] == judged
    assert 2040 < len(row["input_ids"]) == len(row["labels"]) <= 2048
    assert tokenizer.decode(row["input_ids"][row["score_at"]]) == "2"


def test_packs_hold_every_line_once_and_no_more_than_fits() -> None:
    lengths = [60, 50, 40, 30, 20, 10, 100]
    rows = [{"input_ids": [number] * length, "score_at": number} for number, length in enumerate(lengths)]
    packs = packed(Dataset.from_list(rows), 100)["lines"]
    assert sorted(line["score_at"] for pack in packs for line in pack) == list(range(len(lengths)))
    assert [sum(len(line["input_ids"]) for line in pack) for pack in packs] == [100, 100, 100, 10]


def test_a_line_is_encoded_once(training_files, recipe, tiny_lm, tmp_path, monkeypatch) -> None:
    rendered = []
    original = features.encode_prompts
    monkeypatch.setattr(
        features, "encode_prompts", lambda *a: (rendered.extend(each.answer.key for each in a[1]), original(*a))[1]
    )
    arguments = recipe("generative", tiny_lm)
    judge, model, options = parse_arguments(arguments)
    options.max_length, options.output_dir = 2048, str(tmp_path / "out")
    tokenizer, data = load_tokenizer(str(tiny_lm)), TrainingData(*map(read_training_lines, training_files))
    data = data_with_room(judge, options, tokenizer, data)
    trainer = generative_trainer(judge, model, options, tokenizer, data)
    assert len(trainer.train_dataset) == len(data.train)
    assert sorted(rendered) == sorted(line.answer.key for line in [*data.train, *data.validation])


BAD_FIELDS = (
    ({"level": 6}, "level: .*less than or equal to 5"),
    ({"source": "nobody"}, "source"),
    ({"probabilities": [float("nan"), 0, 0, 0, 1]}, r"not valid JSON \(NaN is not"),
    ({"probabilities": [0, 0, 0, 0, float("inf")]}, r"not valid JSON \(Infinity is not"),
    ({"probabilities": [0, 0, 0, 0.5, 0.6]}, "probabilities: .*add up to 1"),
    ({"weight": float("inf")}, r"not valid JSON \(Infinity is not"),
)


def test_bad_training_files_are_named(training_files, tmp_path) -> None:
    train, validation = [read_training_lines(path) for path in training_files]
    require_disjoint(TrainingData(train, validation))
    with pytest.raises(InputError, match="stand in the training and in the validation file"):
        require_disjoint(TrainingData(train, train))
    fields = json.loads(training_files[0].read_text().splitlines()[0])
    for change, message in BAD_FIELDS:
        path = tmp_path / "bad.jsonl"
        path.write_text(json.dumps(fields | change) + "\n")
        with pytest.raises(InputError, match=f"line 1: {message}"):
            read_training_lines(path)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="no training line"):
        read_training_lines(tmp_path / "empty.jsonl")
