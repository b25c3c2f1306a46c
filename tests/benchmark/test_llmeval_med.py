import json
from pathlib import Path

import pytest

from medjudge.benchmark.llmeval_med import missing_turns, read_llmeval_med, read_llmeval_scores
from medjudge.errors import InputError
from medjudge.records import ErrorKind, Question


def entry(**fields: object) -> dict[str, object]:
    texts = {"category2": "药物", "scene": "药物_剂量", "problem": "问", "sanswer": "答", "checklist": "核心需求"}
    return {"category1": "医疗知识", "round": 1, "groupCode": 5, "difficulty": "易", **texts, **fields}


def written(tmp_path: Path, content: object) -> Path:
    path = tmp_path / "dataset.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def test_fields_arrive_where_they_belong(tmp_path: Path) -> None:
    content = {"医疗知识": [entry(), entry(round=2)], "医疗推理": [entry(category1="医疗推理")]}
    question, *others = read_llmeval_med(written(tmp_path, content)).questions
    texts = {"prompt": "问", "reference": "答", "checklist": "核心需求", "subcategory": "药物", "scene": "药物_剂量"}
    names = {"id": "MK-5-1", "group": "MK-5", "round": 1, "category": "MK", "language": "zh", "difficulty": "易"}
    assert question == Question(**texts, **names)
    assert [other.group for other in others] == ["MK-5", "MR-5"]  # a groupCode is unique only within a category


def test_every_quirk_of_the_released_file_is_read_and_listed(tmp_path: Path) -> None:
    content = {
        "医疗语言理解": [entry(category1="一般语言理解", sanswer=131, checklist=float("nan"))],
        "医疗文本生成": [entry(category1="医疗文本生成", problem="长" * 9000)],
    }
    del content["医疗文本生成"][0]["difficulty"]  # type: ignore[attr-defined]
    benchmark = read_llmeval_med(written(tmp_path, content))
    first = benchmark.questions[0]
    assert (first.category, first.reference, first.checklist) == ("MLU", "131", None)
    oddities = [f"{oddity.place} {oddity.what}" for oddity in benchmark.oddities]
    for expected in (
        "医疗语言理解[0] sanswer is the number 131",
        "医疗语言理解[0] checklist is NaN",
        "医疗语言理解[0] category1 is '一般语言理解'",
        "医疗文本生成[0] difficulty is missing",
        "医疗文本生成[0] prompt of 9,000 characters",
    ):
        assert any(expected in line for line in oddities), expected


def test_missing_turns_are_one_oddity_of_a_conversation(question) -> None:
    turns = [question(id=f"q{turn}", group="g", round=turn) for turn in (2, 4, 10**3)]
    (oddity,) = missing_turns(Path("q.jsonl"), [*turns, question(id="whole")])
    assert oddity.what == "the conversation lacks round 1, 3, 5, 6, 7 and 992 more"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not valid JSON"),
        ([entry()], "one object with a list for each category"),
        ({"医学": [entry()]}, "unknown category '医学'"),
        ({"医疗知识": {"a": 1}}, "a list of questions"),
        ({"医疗知识": [entry(problem=float("nan"))]}, r"医疗知识\[0\]: problem is missing"),
        ({"医疗知识": [entry(round="x")]}, "round is 'x'"),
        ({"医疗知识": [entry(round=10**30)]}, "a whole number from 1 to 100"),
        ('{"医疗知识": [], "医疗知识": []}', "'医疗知识' occurs twice"),
        ('{"医疗知识": [{"problem": "\\ud800", "groupCode": 1, "round": 1}]}', r"医疗知识\[0\]: prompt"),
        (
            {"医疗知识": [entry(), entry(), entry(problem="")]},
            r"dataset.json: 2 problems; .*\n.*\[1\]: groupCode 5, round 1 duplicates.*\n.*\[2\]: problem",
        ),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_llmeval_med(written(tmp_path, content))


def scored(score: object, reply: str = "理由", answer: str = "甲", **fields: object) -> dict[str, object]:
    return entry(model_answer=answer, model_answer_score=score, model_answer_judgement=reply, **fields)


def test_scored_files_as_evaluate_writes_them_become_samples_and_rounds(tmp_path: Path) -> None:
    paths = []
    for number, (score, answer) in enumerate([("5", "甲"), ("3", "甲"), ("4", "乙")]):
        file = written(tmp_path, {"医疗知识": [scored(score, answer=answer)]})
        paths.append(file.rename(tmp_path / f"{number}.json"))
    read = read_llmeval_scores(paths, "gpt", "gpt-4o")
    assert [(answer.sample, answer.text) for answer in read.answers] == [(0, "甲"), (1, "乙")]
    assert [(each.sample, each.round, each.score) for each in read.judgments] == [(0, 1, 5), (0, 2, 3), (1, 1, 4)]
    scores = ["4", -1, "", "10", "0"]
    items = [scored(score, groupCode=number) for number, score in enumerate(scores)]
    items.append(scored("1", reply='{"判断依据":"见[1]","得分":"[4]"}', groupCode=9))
    read = read_llmeval_scores([written(tmp_path, {"医疗知识": items})], "m", "j")
    assert [judgment.score for judgment in read.judgments] == [4, None, None, None, 1, 1]
    assert all(judgment.error for judgment in read.judgments if judgment.score is None)
    assert {judgment.error_kind for judgment in read.judgments if judgment.score is None} == {ErrorKind.NOT_IN_FILE}
    oddities = " ".join(oddity.what for oddity in read.oddities)
    assert "recorded score 1, but the judge's reply ends in the verdict 4" in oddities
    assert "model_answer_score 0, read as 1" in oddities


@pytest.mark.parametrize(
    ("item", "problem"),
    [(entry(), "model_answer is missing"), (scored("good"), "model_answer_score is 'good'")],
)
def test_a_scored_file_without_answers_or_scores_is_refused(tmp_path: Path, item: object, problem: str) -> None:
    with pytest.raises(InputError, match=rf"医疗知识\[0\]: {problem}"):
        read_llmeval_scores([written(tmp_path, {"医疗知识": [item]})], "m", "j")
