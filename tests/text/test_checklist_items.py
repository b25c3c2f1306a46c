"""Checklists that are numbered become items, and no others do."""

import pytest

from medjudge.text.checklist_items import items_of, split_checklist


def kinds(checklist: str) -> list[tuple[str, str | None, float]] | None:
    items = split_checklist(checklist)
    return None if items is None else [(item.text, item.importance, item.points) for item in items]


@pytest.mark.parametrize(
    "checklist",
    [
        "核心需求：\n1. 内容要求：剂量\n2. 疗程\n\n次要需求：\n1. 随访",
        "一、核心需求\n1、内容要求：剂量\n2、疗程\n二、次要需求\n1、随访",
        "**核心需求：**\n① 内容要求：剂量\n② 疗程\n【次要需求】\n（1）随访",
    ],
)
def test_numbered_checklists_are_split_at_their_headings(checklist: str) -> None:
    assert kinds(checklist) == [("内容要求：剂量", "core", 2), ("疗程", "core", 2), ("随访", "secondary", 1)]


def test_english_headings_continuations_and_repeated_items() -> None:
    split = "Core requirements:\n1. The dose:\n   - 4 g a day\n2. The limit\nAdditional points:\n1) The limit\n2) A cup"
    assert kinds(split) == [("The dose: - 4 g a day", "core", 2), ("The limit", "core", 2), ("A cup", "secondary", 1)]
    assert kinds("1. One thing\n2. Another") == [("One thing", "core", 2), ("Another", "core", 2)]


@pytest.mark.parametrize(
    "checklist",
    [
        "",
        "Names the dose and the limit.",
        "- Names the dose\n- Names the limit",
        "核心需求：\n1. 剂量\n次要需求：\n无",
        "1. The dose\n3. The limit",
        "Core requirements:\n1. The dose\nWith a sentence that belongs nowhere.",
        "核心需求：",
    ],
)
def test_what_is_not_numbered_throughout_stays_whole(checklist: str) -> None:
    assert split_checklist(checklist) is None


def test_a_question_s_own_items_come_before_its_checklist(question) -> None:
    checklist = "1. The dose\n2. The limit"
    own = question(checklist=checklist, items=[{"text": "Warns", "points": 3.5}])
    assert [(item.text, item.points, item.importance) for item in items_of(own)] == [("Warns", 3.5, None)]
    assert [item.text for item in items_of(question(checklist=checklist))] == ["The dose", "The limit"]
    assert items_of(question(checklist="Be right.")) == items_of(question()) == []
