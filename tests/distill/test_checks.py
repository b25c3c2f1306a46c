import random

import pytest

from medjudge.distill.checks import check_training_set, near_duplicates, questions_to_keep_out
from medjudge.records import TrainingLine

WORDS = ["dose", "renal", "daily", "avoid", "infant", "fever", "review", "insulin", "bleeding", "asthma", "never"]


def words(n: int, seed: int) -> str:
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) + str(draw.randrange(100)) for _ in range(n))


@pytest.fixture
def line(question, answer):
    def build(n: int, level: int = 3, text: str | None = None, **fields: str) -> TrainingLine:
        return TrainingLine(
            question=question(**{"id": f"q{n}", "prompt": words(12, n), **fields}),
            answer=answer(question_id=f"q{n}", text=text or words(60, 1000 + n)),
            level=level,
            **{"earlier": [], "probabilities": [0, 0, 1, 0, 0], "source": "teacher", "scored_by": ["gpt, round 1"]},
        )

    return build


def jaccard(this: str, other: str) -> float:
    first, second = ({text[k : k + 5] for k in range(len(text) - 4)} for text in (this, other))
    return len(first & second) / len(first | second)


def test_near_duplicates_are_those_of_the_plain_definition() -> None:
    texts = [words(80, seed) for seed in range(40)]
    changed = []
    for seed, text in enumerate(texts):
        draw, parts = random.Random(seed), text.split()
        for place in draw.sample(range(80), seed // 2):  # the later, the more changed
            parts[place] = words(1, 10_000 + 100 * seed + place)
        changed.append(" ".join(parts))
    duplicate_of = {duplicate.text: duplicate for duplicate in near_duplicates(texts, changed[::-1])}
    expected = {n: jaccard(text, changed[n]) for n, text in enumerate(texts)}
    assert 5 < sum(value >= 0.8 for value in expected.values()) < 35
    assert set(duplicate_of) == {n for n, value in expected.items() if value >= 0.8}
    for n, near in duplicate_of.items():
        assert near.other == 39 - n
        assert near.similarity == pytest.approx(expected[n], abs=6e-4)


def test_case_and_punctuation_make_no_difference_and_chinese_and_short_texts_are_read() -> None:
    texts = ["Take  4 g, daily!", "每日最多4克，分四次服用。", "Yes.", ""]
    duplicates = near_duplicates(texts, ["yes", "每日最多4克。分四次服用", "take 4 g daily"])
    assert duplicates == [(0, 2, 1), (1, 1, 1), (2, 0, 1)]
    assert near_duplicates([], ["a"]) == near_duplicates(["a"], []) == []


def test_the_same_question_and_answer_leave_training_and_near_ones_are_named(line) -> None:
    train = [line(n, level=n % 5 + 1) for n in range(20)]
    other = line(49, prompt=train[5].question.prompt, text=train[5].answer.text + " < 4 g")
    train.append(line(20, prompt=other.question.prompt, text=other.answer.text.replace("<", ">")))
    twin = line(50, prompt=train[3].question.prompt.upper(), text=train[3].answer.text + " ")
    near = line(51, prompt=train[4].question.prompt + " please", text=words(60, 7777))
    checked = check_training_set(train, [twin, near, other])
    assert [kept.question.id for kept in checked.train] == [f"q{n}" for n in range(21) if n != 3]
    duplicates = checked.report["duplicates"]
    assert duplicates["removed"] == {"answers": 1, "pairs": [{"train": ["q3", "m", 0], "validation": ["q50", "m", 0]}]}
    named = {pair["train"][0]: pair["validation"] for pair in duplicates["questions"]["pairs"]}
    assert (named, duplicates["questions"]["near"]) == ({"q4": ["q51"], "q5": ["q49"], "q20": ["q49"]}, 3)
    assert {pair["train"][0] for pair in duplicates["answers"]["pairs"]} == {"q5", "q20"}
    assert "3 training questions" in checked.warnings[0]
    assert "such as q5 and q49" in checked.warnings[0]


def test_length_that_tells_the_level_is_warned_of_and_so_is_one_level_in_validation(line) -> None:
    longer = [line(n, level=n % 5 + 1, text=words(10 * (n % 5) + 10, n)) for n in range(40)]
    shorter = [line(n, level=5 - n % 5, text=words(10 * (n % 5) + 10, n), language="zh") for n in range(40, 80)]
    checked = check_training_set([*longer, *shorter], [line(90, level=2), line(91, level=2)])
    warnings = "\n".join(checked.warnings)
    assert checked.report["length"]["en"] > 0.8
    assert checked.report["length"]["zh"] < -0.9
    assert abs(checked.report["length"]["teacher"]) < 0.3
    assert "en: longer answers have higher levels (Spearman 0.8" in warnings
    assert "zh: shorter answers have higher levels" in warnings
    assert "teacher: " not in warnings
    assert "validation has level 2 only: kappa cannot choose a checkpoint" in warnings


def test_a_question_to_keep_out_takes_its_conversation_and_its_text_along(question) -> None:
    questions = [
        question(id="a", group="g1"),
        question(id="b", group="g1", round=2, prompt="And for a child?"),
        question(id="c", prompt="How much  PARACETAMOL a day"),
        question(id="d", prompt="Something else?"),
    ]
    assert questions_to_keep_out(questions, {"b"}, set()) == {"a", "b"}
    assert questions_to_keep_out(questions, {"elsewhere"}, {"How much paracetamol a day?"}) == {"a", "b", "c"}
