"""`load_judge(...).score(...)`: single answers by a judge in memory."""

import pytest

import medjudge
from medjudge.errors import InputError
from medjudge.judge.language import language_of
from medjudge.records import ErrorKind, Judgment
from medjudge.store import Run
from medjudge.workflows.score import LoadedJudge, Score

QUESTION, REFERENCE = "How much paracetamol may an adult take a day?", "At most 4 g in 24 hours."


@pytest.fixture(scope="module")
def judge() -> LoadedJudge:
    return medjudge.load_judge("similarity", device="cpu")


def test_one_answer_gives_one_score_and_a_list_a_list_in_its_order(judge) -> None:
    close, far = "At most 4 g in 24 hours.", "Bananas are yellow."
    score = judge.score(QUESTION, close, reference=REFERENCE)
    assert isinstance(score, Score)
    assert score.score == 5
    assert score.usable
    scores = judge.score(QUESTION, [far, close, far], reference=REFERENCE)
    assert [score.score for score in scores] == [scores[0].score, 5, scores[0].score]
    assert scores[1].expected == pytest.approx(score.expected, abs=1e-4)
    assert scores[0].expected < scores[1].expected
    assert judge.score(QUESTION, [], reference=REFERENCE) == []


@pytest.mark.slow
def test_scores_are_those_of_the_benchmark(judge, tmp_path) -> None:
    evaluation = medjudge.evaluate("sample", judge="similarity", limit=2, run=tmp_path / "run")
    run = Run(tmp_path / "run")
    judgments = {judgment.answer_key: judgment for judgment in run.judgments("similarity")}
    assert len(judgments) == evaluation.scores.coverage.answers == 10
    texts = {answer.key: answer.text for answer in run.answers()}
    for question in run.questions():
        keys = [key for key in judgments if key.question_id == question.id]
        scores = judge.score(
            question.prompt,
            [texts[key] for key in keys],
            reference=question.reference,
            category=question.category,
            language=question.language,
        )
        for key, score in zip(keys, scores, strict=True):
            assert score.score == judgments[key].score
            assert score.probabilities == pytest.approx(judgments[key].probabilities, abs=1e-4)


def test_what_cannot_be_scored_says_why(judge) -> None:
    without = judge.score(QUESTION, "4 g")
    assert (without.score, without.usable, without.error_kind) == (None, None, ErrorKind.NO_REFERENCE)
    assert repr(without).startswith("unscored by similarity: ")
    scored, empty = judge.score(QUESTION, ["4 g", " "], reference=REFERENCE)
    assert scored.score is not None
    assert empty.error_kind is ErrorKind.EMPTY_ANSWER


def test_what_is_not_there_is_refused(judge, tmp_path) -> None:
    with pytest.raises(InputError, match="category"):
        judge.score(QUESTION, "4 g", category="XX")
    with pytest.raises(InputError, match="language"):
        judge.score(QUESTION, "4 g", language="fr")
    with pytest.raises(InputError, match="question"):
        judge.score(" ", "4 g")
    with pytest.raises(InputError, match="no such folder"):
        medjudge.load_judge(tmp_path / "nothing")
    with pytest.raises(InputError, match="OPENAI_API_KEY"):
        medjudge.load_judge("openai:gpt-4o")


@pytest.mark.slow
def test_the_built_in_judge_is_loaded_by_its_name_and_reads_chinese_references() -> None:
    judge = medjudge.load_judge("built-in", device="cpu")
    assert judge.name == "built-in"
    assert "ordinal" in repr(judge)
    asked, reference = "成人每日对乙酰氨基酚的最大剂量是多少？", "成人每日对乙酰氨基酚的最大剂量是四克。"
    judged = judge.score(asked, reference, reference=reference)
    assert [point.source for point in judged.points] == ["reference"]
    other = judge.score(asked, "今天天气很好，我们去公园散步。", reference=reference)
    assert judged.expected > other.expected + 0.5


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("How much?", "en"),
        ("阿司匹林 100 mg 每日一次可以吗？", "zh"),
        ("Is 阿司匹林 the same drug as aspirin, and how is it pronounced in China?", "en"),
        ("4 + 4 = ?", "en"),
    ],
)
def test_the_language_is_recognized_by_the_script(text, language) -> None:
    assert language_of(text, ("en", "zh")) == language


def test_a_score_says_whether_the_answer_is_usable() -> None:
    probabilities = [0.05, 0.1, 0.15, 0.3, 0.4]
    judged = {"question_id": "q", "model": "m", "judge": "j", "score": 4, "expected": 3.9}
    score = Score.from_judgment(Judgment(**judged, probabilities=probabilities))
    assert repr(score) == "4 of 5 by j (usable, expected 3.90)"
    assert score.usable_probability == pytest.approx(0.7)
