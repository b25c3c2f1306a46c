"""Answers made from references, and which questions the judge's rules were chosen with."""

import pytest
import reader_measures

from medjudge.records import Question


def questions(count: int) -> list[Question]:
    return [
        Question(
            id=f"q{number}",
            group=f"g{number}",
            category="MK",
            subcategory="drugs",
            language="en",
            prompt=f"How is drug {number} taken?",
            reference=f"Take {number + 5} mg of drug {number} twice a day. Do not take it with milk. Store it cold.",
        )
        for number in range(count)
    ]


def test_each_reference_gives_four_answers_and_some_questions_were_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_measures, "IN_VIEW", 3)
    asked = questions(5)
    work, in_view, unchanged = reader_measures._as_answers(asked, seed=0)
    assert unchanged == 0
    assert in_view.tolist() == [True] * 12 + [False] * 8
    assert {question.id for question, _ in work} == {question.id for question in asked}
    for question, answer in work:
        own, text = str(question.reference), answer.text
        assert answer.question_id == question.id
        assert (text == own) == (answer.model == "reference")
        assert (text in {each.reference for each in asked}) == (answer.model in ("reference", "of another question"))
