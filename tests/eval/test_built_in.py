"""The making of the built-in judge: what must hold for its figures to mean something."""

from collections.abc import Callable

import numpy as np
import pytest
from built_in_data import Ablation, Sets, as_messages, folds, softened, training_lines, unseen
from built_in_table import divided
from reader_heads import Usable, fitted_shift

from medjudge.records import TrainingLine

REFERENCE = (
    "Take at most 4 g of paracetamol a day. Stop when the skin turns yellow. Ask a pharmacist about other drugs."
)


@pytest.fixture
def line(question, answer) -> Callable[..., TrainingLine]:
    def build(name: str, text: str = "At most 4 g.", level: int = 5, reference: str | None = None) -> TrainingLine:
        return TrainingLine(
            question=question(id=name, category="CHQ", prompt=f"Prompt of {name}?", reference=reference),
            earlier=[],
            answer=answer(question_id=name, text=text),
            level=level,
            probabilities=[float(level == number) for number in range(1, 6)],
            source="physician",
            scored_by=["dr"],
        )

    return build


def test_a_question_is_in_one_fold_and_each_set_is_spread_over_all(line) -> None:
    lines = [line(f"mediqa-{name}-{number}") for name in ("alexa", "liveqamed") for number in range(20) for _ in (0, 1)]
    of = folds(lines, 5, seed=0)
    assert len(of) == 40
    for name in ("alexa", "liveqamed"):
        assert sorted(fold for group, fold in of.items() if name in group) == sorted([0, 1, 2, 3, 4] * 4)


def test_nothing_of_a_held_out_question_is_trained_on(line) -> None:
    scored = [line(f"mediqa-liveqamed-{number}", f"Text {number}.") for number in range(10)]
    liveqa = [line(f"mediqa-liveqamed-{n}", f"System text {n}.", 1, f"{n}. {REFERENCE}") for n in range(10)]
    of = folds(scored, 5, seed=0)
    for fold in range(5):
        tested, trained = divided(Sets(scored, liveqa, []), of, fold)
        kept = [line for line in liveqa if of[line.question.group] != fold]
        lines = training_lines(
            [line for line in scored if of[line.question.group] != fold], kept, Ablation(synthetic=30), 0
        )
        assert any(line.source == "synthetic" for line in lines)
        held = {line.question.id for line in tested}
        assert not held & {name for line in [*lines, *trained] for name in (line.question.id, *line.made_from)}


def test_what_a_training_line_says_word_for_word_is_not_measured(line) -> None:
    trained = [line("a", "The same   TEXT."), line("b", "Other text.")]
    tested = [line("c", "the same text."), line("d", "New text."), line("b", "New text.")]
    assert [line.question.id for line in unseen(tested, trained)] == ["d"]


@pytest.mark.parametrize(("level", "near"), [(1, [2]), (2, [1, 4]), (4, [2, 5]), (5, [4])])
def test_soft_labels_lie_on_the_scale(line, level: int, near: list[int]) -> None:
    label = softened(line("a", level=level)).probabilities
    assert sum(label) == pytest.approx(1)
    assert label.index(max(label)) == level - 1
    assert [place + 1 for place, share in enumerate(label) if 0 < share < max(label)] == near
    assert softened(line("a", level=3)).probabilities == [0, 0, 1, 0, 0]


def test_without_references_none_is_left(line) -> None:
    liveqa = [line("mediqa-liveqamed-1", "Text.", 5, REFERENCE)]
    assert any(line.question.reference for line in training_lines([], liveqa, Ablation(synthetic=0), 0))
    assert not any(line.question.reference for line in training_lines([], liveqa, Ablation(False, synthetic=0), 0))


def test_the_shift_brings_back_what_was_taken_away() -> None:
    generator = np.random.default_rng(0)
    true = generator.normal(0, 2, 4000)
    usable = generator.random(4000) < 1 / (1 + np.exp(-true))
    assert fitted_shift([Usable(true - 1.5, usable)], [1.0]) == pytest.approx(1.5, abs=0.15)
    # Two sets that ask for different shifts meet between them, by their weights, however many answers each has.
    few = slice(0, 400)
    sets = [Usable(true - 2.0, usable), Usable(true[few], usable[few])]
    assert 0.6 < fitted_shift(sets, [1, 1]) < 1.4 < fitted_shift(sets, [5, 1])


def test_half_of_the_short_questions_become_messages_for_all_of_their_answers(line) -> None:
    lines = [
        line(f"mediqa-{name}-{number}", text)
        for name in ("alexa", "liveqamed")
        for number in range(40)
        for text in "ab"
    ]
    asked: dict[str, set[str]] = {}
    for message in as_messages(lines, seed=0):
        asked.setdefault(message.question.id, set()).add(message.question.prompt)
    changed = {name for name, (prompt, *_) in asked.items() if prompt != f"Prompt of {name}?"}
    assert all(len(prompts) == 1 and f"Prompt of {name}?" in min(prompts) for name, prompts in asked.items())
    assert 10 < len(changed) < 30
    assert all("alexa" in name for name in changed)
