import json

import pytest

from medjudge.base_models import load_tokenizer
from medjudge.errors import InputError
from medjudge.judge.generative import encode_prompt
from medjudge.judge.protocol import Assignment
from medjudge.train.features import generative_dataset, read_training_lines, require_apart


def test_training_sees_exactly_the_tokens_that_judging_sees(training_files, tiny_lm) -> None:
    lines = read_training_lines(training_files[0])[:6]
    lines[0] = lines[0].model_copy(update={"rationale": "The dose is wrong."})
    tokenizer = load_tokenizer(str(tiny_lm))
    for line, row in zip(lines, generative_dataset(lines, tokenizer, 4096), strict=True):
        prompt = encode_prompt(tokenizer, Assignment(line.question, tuple(line.earlier), line.answer), 4096).input_ids
        assert row["input_ids"][: len(prompt)] == prompt
        assert row["labels"][: len(prompt)] == [-100] * len(prompt)
        reply = row["input_ids"][len(prompt) :]
        assert row["labels"][len(prompt) :] == reply
        assert reply[-1] == tokenizer.eos_token_id
        said = tokenizer.decode(reply[:-1])
        assert said == (f"{line.level}\n{line.rationale}" if line.rationale else str(line.level))


def test_a_prompt_without_room_is_an_input_error(training_files, tiny_lm) -> None:
    with pytest.raises(InputError, match="raise max_length"):
        generative_dataset(read_training_lines(training_files[0]), load_tokenizer(str(tiny_lm)), 300)


def test_bad_training_files_are_named(training_files, tmp_path) -> None:
    train, validation = [read_training_lines(path) for path in training_files]
    require_apart(train, validation)
    with pytest.raises(InputError, match="stand in the training and in the validation file"):
        require_apart(train, train)
    fields = json.loads(training_files[0].read_text().splitlines()[0])
    for change, message in (({"level": 6}, "level: .*less than or equal to 5"), ({"source": "nobody"}, "source")):
        path = tmp_path / "bad.jsonl"
        path.write_text(json.dumps(fields | change) + "\n")
        with pytest.raises(InputError, match=f"line 1: {message}"):
            read_training_lines(path)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(InputError, match="no training line"):
        read_training_lines(tmp_path / "empty.jsonl")
