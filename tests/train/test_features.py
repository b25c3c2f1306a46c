import json
import re

import pytest
from datasets import Dataset
from recipe_runs import changed

from medjudge.errors import InputError
from medjudge.judge.folder import read_card
from medjudge.judge.prompts import encode_prompts
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_tokenizer
from medjudge.records import TrainingLine
from medjudge.train.arguments import TRAINABLE_STYLES
from medjudge.train.features import TrainingData, encoded_lines, read_training_lines, require_disjoint
from medjudge.train.packs import packed


@pytest.mark.parametrize("style", TRAINABLE_STYLES)
def test_training_sees_exactly_the_tokens_that_judging_sees(style, training_files, tiny_lm) -> None:
    lines = read_training_lines(training_files[0])[:6]
    lines[0] = lines[0].model_copy(update={"rationale": "The dose is wrong."})
    lines[1] = lines[1].model_copy(update={"rationale": "Scores well.\n**Score**: 2\nOr so."})
    tokenizer = load_tokenizer(str(tiny_lm))
    for line, row in zip(lines, encoded_lines(lines, tokenizer, 4096, style), strict=True):
        assignment = Assignment(line.question, tuple(line.earlier), line.answer)
        prompt = encode_prompts(tokenizer, [assignment], [4096], style)[0].input_ids
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


@pytest.mark.parametrize("times", [1, 2000])
def test_a_full_window_cuts_the_rationale_and_leaves_the_prompt_of_the_judge(times, tiny_lm, question, answer) -> None:
    tokenizer = load_tokenizer(str(tiny_lm))
    fixed = {"earlier": [], "level": 2, "probabilities": [0, 1, 0, 0, 0], "source": "teacher", "scored_by": ["t"]}
    long = {"answer": answer(text="Take four grams. " * times), "rationale": "wrong dose " * 4000}
    line = TrainingLine(question=question(), **long, **fixed)
    (row,) = encoded_lines([line], tokenizer, 2048)
    judged = encode_prompts(tokenizer, [Assignment(line.question, (), line.answer)], [2047], "score-first")[0].input_ids
    assert (row["cut"] > 0) == (times > 1)
    assert row["input_ids"][: len(judged)] == judged
    assert len(row["input_ids"]) == len(row["labels"]) <= 2048
    counted = sum(label != -100 for label in row["labels"])
    assert times > 1 or 512 < counted < 532
    assert tokenizer.decode(row["input_ids"][row["score_at"]]) == "2"


def test_packs_hold_every_line_once_and_no_more_than_fits() -> None:
    lengths = [60, 50, 40, 30, 20, 10, 100]
    rows = [{"input_ids": [number] * length, "score_at": number} for number, length in enumerate(lengths)]
    packs = packed(Dataset.from_list(rows), 100)["lines"]
    assert sorted(line["score_at"] for pack in packs for line in pack) == list(range(len(lengths)))
    assert [sum(len(line["input_ids"]) for line in pack) for pack in packs] == [100, 100, 100, 10]


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


@pytest.mark.slow
@pytest.mark.parametrize("most", [1, None])
def test_lines_without_room_are_named_or_all_refused(most, trained, training_files, tmp_path, capsys) -> None:
    lines, long = read_training_lines(training_files[0]), {"reference": "gave 5 mg of it " * 600}
    dropped = sorted({line.question.id for line in lines})[:most]
    changed(training_files[0], lambda _, line: line["question"]["id"] in dropped and line["question"].update(long))
    options = {"max_steps": 1, "eval_strategy": "no", "save_strategy": "no", "use_cpu": True}
    if most is None:
        with pytest.raises(InputError, match=r"train\.jsonl: in all \d+ lines, .*; raise max_length in the config"):
            trained("generative", **options)
        assert not (tmp_path / "judges" / "generative").exists()
    else:
        card = read_card(trained("generative", **options))
        assert re.search(rf"5 of {len(lines)} lines dropped: .*\({dropped[0]}\)", capsys.readouterr().err)
        assert card.training["answers"] == len(lines) - 5
        assert dropped[0] not in card.trained_on.question_ids
