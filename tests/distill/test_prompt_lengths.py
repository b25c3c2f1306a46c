import pytest

from medjudge.distill.prompt_lengths import WINDOW, estimated_tokens, prompt_lengths
from medjudge.records import TrainingLine
from medjudge.scheme import LLMEVAL_MED


@pytest.fixture
def line(question, answer):
    def build(name: str, reference: str) -> TrainingLine:
        return TrainingLine(
            question=question(id=name, group=name, reference=reference),
            earlier=[],
            answer=answer(question_id=name),
            level=4,
            probabilities=[0, 0, 0, 1, 0],
            source="physician",
            scored_by=["dr"],
        )

    return build


def test_a_reference_that_fills_the_window_is_warned_of(line) -> None:
    lines = [line("q1", "Paracetamol."), line("q2", "对乙酰氨基酚" * 3000), line("q2", "对乙酰氨基酚" * 3000)]
    report, warnings = prompt_lengths(lines, LLMEVAL_MED)
    assert report["no_room"] == ["q2"]
    assert report["median"] < WINDOW < report["most"]
    assert len(warnings) == 1
    assert "2 lines of 1 questions (q2)" in warnings[0]
    assert prompt_lengths(lines[:1], LLMEVAL_MED).warnings == []


def test_chinese_and_latin_text_are_estimated_alike() -> None:
    assert estimated_tokens("每日最大剂量为四克") == pytest.approx(6, abs=1)
    assert estimated_tokens("") == 0
