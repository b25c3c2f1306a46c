import gzip
import json

import pytest

from medjudge.distill.matching import OTHER, OWN, RELATED, Pair, apart, matching_lines, read_pairs, without_questions
from medjudge.errors import InputError

PAIRS = [
    Pair(f"{focus}-{kind}", f"What {kind} has {focus}?", f"{focus}: the {kind} of it.", focus, kind)
    for focus in ("gout", "flu", "acne", "mumps")
    for kind in ("causes", "treatment", "symptoms")
]


def test_levels_say_how_the_answer_belongs_to_the_question() -> None:
    lines = matching_lines(PAIRS, 100, seed=0)
    by_id = {pair.name: pair for pair in PAIRS}
    answers = {pair.answer: pair for pair in PAIRS}
    for line in lines:
        asked, answered = by_id[line.question.id], answers[line.answer.text]
        assert line.level == (OWN if answered == asked else RELATED if answered.focus == asked.focus else OTHER)
        assert line.source == "matching"
        assert line.made_from == ([] if answered == asked else [answered.name])
        assert line.question.group == asked.focus
    assert sum(line.level == OWN for line in lines) == len(PAIRS)
    assert {line.level for line in lines} == {OWN, RELATED, OTHER}


def test_the_draw_is_fixed_by_its_seed() -> None:
    first, again, other = [matching_lines(PAIRS, 5, seed) for seed in (1, 1, 2)]
    assert first == again != other
    assert len({line.question.id for line in first}) == 5


def test_a_subject_stays_on_one_side() -> None:
    train, validation = apart(PAIRS, 0.25, seed=0)
    assert len(train) == 6
    assert len(validation) == 6  # two subjects at least: matching needs another one
    assert not {pair.focus for pair in train} & {pair.focus for pair in validation}


def test_pairs_on_one_subject_are_refused() -> None:
    with pytest.raises(InputError, match="on one subject"):
        matching_lines(PAIRS[:3], 3, 0)


def test_pairs_are_read_from_json_lines(tmp_path) -> None:
    long = "It is a form of arthritis that comes from crystals of uric acid in a joint."
    lines = [
        {"question": "What is gout?", "answer": long, "focus": "Gout", "qtype": "information"},
        {"question": "What is flu?", "answer": "short"},
    ]
    text = "".join(json.dumps(line) + "\n\n" for line in lines)
    (tmp_path / "plain.jsonl").write_text(text)
    with gzip.open(tmp_path / "packed.jsonl.gz", "wt") as file:
        file.write(text)
    for name in ("plain.jsonl", "packed.jsonl.gz"):
        assert read_pairs(tmp_path / name) == [Pair("pair-1", "What is gout?", long, "gout", "information")]


@pytest.mark.parametrize(
    ("text", "message"), [('{"answer": "x"}\n', "line 1: no question"), ("{\n", "line 1: not JSON")]
)
def test_a_wrong_line_is_named(tmp_path, text, message) -> None:
    (tmp_path / "bad.jsonl").write_text(text)
    with pytest.raises(InputError, match=message):
        read_pairs(tmp_path / "bad.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        read_pairs(tmp_path / "none.jsonl")


def test_half_of_the_questions_become_messages_that_still_ask_the_question() -> None:
    pairs = [pair._replace(name=f"{pair.name}-{number}") for number in range(20) for pair in PAIRS]
    lines = matching_lines(pairs, 240, seed=0)
    by_id = {pair.name: pair for pair in pairs}
    asked = {line.question.id: line.question.prompt for line in lines}
    assert all(by_id[name].question in prompt for name, prompt in asked.items())
    longer = sum(prompt != by_id[name].question for name, prompt in asked.items())
    assert 0.3 < longer / len(asked) < 0.7
    assert not any("{" in prompt for prompt in asked.values())


def test_questions_that_a_judge_is_measured_on_are_left_out() -> None:
    measured = [f"  {PAIRS[0].question.upper()}\n", "Another question?"]
    assert without_questions(PAIRS, measured) == [pair for pair in PAIRS if pair.question != PAIRS[0].question]
