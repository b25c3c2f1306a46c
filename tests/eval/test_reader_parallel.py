"""Answers in their own words, and advice with and without something dangerous."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest
from reader_alarms import alarming
from reader_examples import Example
from reader_parallel import (
    ELSEWHERE,
    GOOD,
    PART,
    RELATED,
    Parallel,
    huatuo_parallels,
    medquad_parallels,
    parallel,
)

SENTENCES = (
    "It is an illness of the lungs. It makes breathing hard. Smoke makes it worse. An inhaler helps most people. "
    "Children often grow out of it. A doctor listens to the chest and measures the breath."
)


def written(path: Path, rows: list[dict[str, str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def test_two_institutes_answers_to_one_question_are_parallel_and_a_list_of_links_is_none(tmp_path: Path) -> None:
    def row(focus: str, question: str, source: str, answer: str) -> dict[str, str]:
        return {"focus": focus, "question": question, "qtype": "information", "source": source, "answer": answer}

    links = "These resources address the treatment of gout: " + "a registry, a handbook, a clinic, " * 4
    written(
        tmp_path / "medquad" / "medquad.jsonl.gz",
        [
            row("Asthma", "What is asthma ?", "A", "One text. " + SENTENCES),
            row("Asthma", "What is  asthma ?", "B", "Another text. " + SENTENCES),
            row("Asthma", "What causes asthma ?", "A", "Its causes. " + SENTENCES),
            row("Gout", "What are the treatments for gout ?", "A", "The treatments. " + SENTENCES),
            row("Gout", "What are the treatments for gout ?", "B", links),
            row("Ulcer", "What is an ulcer ?", "A", "Short."),
        ],
    )
    (found,) = medquad_parallels(tmp_path)
    assert (found.prompt, found.language) == ("What is asthma ?", "en")
    assert (found.reference[:8], found.answer[:7]) == ("One text", "Another")
    assert (found.related or "").startswith("Its causes")


def test_chinese_questions_that_ask_the_same_are_parallel_and_comparisons_are_none(tmp_path: Path) -> None:
    def row(question: str, output: str) -> dict[str, str]:
        return {"instruction": question, "input": "", "output": output}

    written(
        tmp_path / "huatuo-knowledge" / "llama_data.json.gz",
        [
            row(
                "一名四十岁女性患者被诊断为痛风性关节炎，请问应该如何治疗？",
                "可以使用秋水仙碱和非甾体抗炎药，同时控制饮食并多喝水，少饮酒。",
            ),
            row(
                "一名五十岁男性患者被诊断为痛风性关节炎，请问应该如何治疗？",
                "治疗以抗炎药物缓解急性发作为主，之后长期服用别嘌醇来降低尿酸。",
            ),
            row(
                "一名五十岁男性患者被诊断为痛风性关节炎，请问需要哪些检查？",
                "需要检查血尿酸和关节液，必要时做关节超声或双能CT来明确诊断。",
            ),
            row("痛风和风湿的治疗有何不同？", "痛风以降低尿酸为主要目标，而风湿以抗炎和免疫抑制治疗为主要目标。"),
            row("痛风和湿疹的治疗有何不同？", "痛风以降低尿酸为主要目标，而湿疹以外用激素和保湿为主要治疗方法。"),
        ],
    )
    (found,) = huatuo_parallels(tmp_path)
    assert (found.reference[:3], found.answer[:3]) == ("可以使", "治疗以")
    assert "血尿酸" in (found.related or "")


def test_each_pair_gives_answers_from_good_to_elsewhere_and_some_references_are_checklists() -> None:
    pairs = [
        Parallel(f"What is {at} ?", f"Reference {at}. {SENTENCES}", f"Answer {at}. {SENTENCES}", "Related.", "en")
        for at in range(40)
    ]
    made = parallel(pairs, seed=0)
    labels = {"good": GOOD, "part": PART, "related": RELATED, "elsewhere": ELSEWHERE}
    assert all(each.label == labels[each.source.removeprefix("parallel-")] for each in made)
    assert all(sum(label) == pytest.approx(1) for label in labels.values())
    good = [each for each in made if each.source == "parallel-good"]
    assert len(good) == 40
    assert 3 <= sum(bool(each.checklist) for each in good) <= 25
    assert any(not each.reference for each in good)
    assert all(each.reference or each.checklist for each in good)
    for each in made:
        whole = next(one for one in good if one.group == each.group).answer
        if each.source == "parallel-part":
            assert whole.startswith(each.answer)
            assert len(each.answer) < 0.6 * len(whole)
        if each.source == "parallel-elsewhere":
            assert each.answer != whole


@pytest.mark.parametrize("language", ["en", "zh"])
def test_half_of_the_advice_is_dangerous_and_no_slot_stays_open(language: str) -> None:
    answers = [
        Example(f"{at}?", "", "", f"Answer {at}.", language, GOOD, None, str(at), "parallel-good") for at in range(60)
    ]
    made = alarming(answers, lists=80, seed=0)
    lists = [each for each in made if each.source == "alarms-list"]
    assert Counter(each.alarm for each in lists) == {True: 40, False: 40}
    assert {each.alarm for each in made if each.source in ("alarms-harmed", "alarms-denied")} == {True}
    assert {each.alarm for each in made if each.source in ("alarms-advised", "alarms-framed")} == {False}
    assert not any("{" in each.answer or "}" in each.answer for each in made)
    assert all(each.language == language for each in made)
    assert made == alarming(answers, lists=80, seed=0)
