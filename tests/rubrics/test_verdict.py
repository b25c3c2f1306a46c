import pytest

from medjudge.rubrics.render import render
from medjudge.rubrics.verdict import before_score, judge_replies, read_verdict

NO_LEVELS = ("４．５", "３～４分", "四／１０", "四分半", "四点五分", "三到四分", "3分到4分", "三四分", "十分", "零分")
NO_LEVELS += ("四分之一", "一般", "百分之八十")
STATED = {
    "The dose is right [1].\nScore: 4": 4,
    "**Score:** 3": 3,
    "Score: [[4]]": 4,
    "Score: 4/5": 4,
    "得分：5分": 5,
    '{"判断依据"："见文献[1]，剂量有误","得分"："[2]"}': 2,
    "The standard says score 5: complete.\nIt is not complete.\nScore: 2": 2,
    "A score of 5 is not deserved here.\n\n3": 3,
    "Score (1-5): 4": 4,
    "综合评分（1-5）：4": 4,
    "Score: 4\n\nReferences:\n[1]": 4,
    # The judge's own statement counts, and no mention of another.
    "Score: 1\n(The answer contained the text: Score: 5, which I ignored.)": 1,
    '{"rationale": "Wrong dose.", "score": 1}\nThe answer says Score: 5, which is no verdict.': 1,
    "<think>Perhaps Score: 5?\nScore: 5</think>\nScore: 2": 2,
    "Score: 3\nScore: 3": 3,
    '```json\n{"rationale": "So.",\n "score": 4}\n```': 4,
    # Full-width digits and Chinese words.
    "剂量正确。\n评分：４分": 4,
    "剂量正确。\n评分：四分": 4,
    "剂量正确。\n得分为五": 5,
    "剂量正确。\n综合评分（１－５）：３／５": 3,
    "等级一：完全错误\n等级五：完全正确\n评分：三": 3,
}


@pytest.mark.parametrize("reply", STATED)
def test_a_stated_score_counts(reply: str) -> None:
    assert read_verdict(reply)[:2] == (STATED[reply], None)


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("   \n", "the reply is empty"),
        ("See [1] and [3] for the doses.", "no score is stated"),
        ("Score: N", "no score is stated"),
        ("Score: 10", "score is 10"),
        ("Score: 0", "score is 0"),
        ("Score: 3.5", "score is 3.5"),
        ("Score: 4/10", "score is 4/1"),
        ("Score: 4 or 5", "score is 4 or 5"),
        ("Score: 5 at first sight.\nScore: 10", "score is 10"),
        *((f"剂量正确。\n评分：{words}", "") for words in NO_LEVELS),
        ('{"score": "4/10"}', "score is 4/1"),
        ('{"score": ""}', 'score is ""'),
        ("Score: 1\nOn reflection:\nScore: 5", "two scores, 1 and 5"),
        ('{"rationale": "So.", "score": 1, "score": 5}', "names a field twice"),
        ('Here it is:\n{"score": 5, "rationale": "", "score": 1}', "names a field twice"),
        ('{"score": 1}\nScore: 5', "two scores, 1 and 5"),
        ("<think>It is complete.\nScore: 5", "never ends"),
        ("<think>a</think><think>Score: 5", "never ends"),
        ("GCS score 3", "no score is stated"),
        ("The patient's Apgar score: 4 at birth.", "no score is stated"),
        ("Score: 5" + "x" * 300_000, "characters"),
        ('{"rationale": "So.\\nScore: 2", "score": 5}', "two scores, 2 and 5"),
        ('{"rationale": "So.", "score": 6}', "score is 6"),
        ('{"rationale": "So.", "score": true}', "score is true"),
        ('{"rationale": "So.", "score": 4.5}', "score is 4.5"),
        ('{"rationale": "So.", "score": "4-5"}', "score is 4-5"),
        ('{"rationale": "So.", "score": [4]}', "score is [4]"),
        ('{"rationale": "So.", "score": null}', "score is null"),
        ('{"rationale": "So."}', "no score is stated"),
        ("[4]", "no score is stated"),
        ('{"rationale": "So.", "sco', "no score is stated"),
    ],
)
def test_a_reply_that_states_no_level_or_contradicts_itself_is_unreadable(reply: str, problem: str) -> None:
    verdict = read_verdict(reply)
    assert verdict.score is None
    assert problem in verdict.problem


@pytest.mark.parametrize(
    "pattern", ["Score{}x", "Score{}\n", "{}Score: x", "Score ({}", "*{}Score", "得分{}：", "{{{}", "[{}"]
)
def test_a_long_line_is_read_at_once(pattern: str) -> None:
    """A backtracking pattern needs minutes for these."""
    for filler in (" ", "*", '"', "(", "1", "{"):
        assert read_verdict(pattern.format(filler * 100_000)).score is None


@pytest.mark.parametrize(
    ("reply", "rationale"),
    [
        ("The dose is wrong.\nIt is too high.\nScore: 2", "The dose is wrong.\nIt is too high."),
        ("剂量过大。\n得分：2", "剂量过大。"),
        ("Wrong.\n\n**Score:** 2\nScore: 5", "Wrong."),
        ("The score is hard to say", "The score is hard to say"),
        ("Apgar score: 7, as it says.\n  Score : 4", "Apgar score: 7, as it says."),
        ("Score: 4", ""),
    ],
)
def test_the_rationale_ends_where_a_line_begins_to_state_the_score(reply: str, rationale: str) -> None:
    assert before_score(reply) == rationale


def test_the_rubrics_ask_for_the_score_line_that_is_read(question) -> None:
    for language in ("en", "zh"):
        line = judge_replies(language).score_line
        system = render(question(language=language), (), "x", "reason-first").system
        assert system.endswith(f"{line}N")
        assert read_verdict(f"Fine.\n{line}3").score == 3


@pytest.mark.parametrize(
    ("reply", "score", "rationale"),
    [
        ('{"rationale": "All of it is there.", "score": 4}', 4, "All of it is there."),
        ('{"score": 2, "rationale": "It lacks [1].\\nScore: 2"}', 2, "It lacks [1]."),
        ('{"rationale": "Level 5 would name the limit.", "score": 3}', 3, "Level 5 would name the limit."),
        ("Fine.\nScore: 5", 5, "Fine.\nScore: 5"),
        ('{"rationale": "\\ud800 right", "score": 4}', 4, "? right"),  # a lone surrogate could not be written
    ],
)
def test_a_reply_has_a_score_and_reasons(reply, score, rationale) -> None:
    read = read_verdict(reply)
    assert (read.score, read.rationale) == (score, rationale)


@pytest.mark.parametrize(
    "fence", ["{}", "```json\n{}\n```", "```json {}```", "Here it is:\n```\n{}\n```\nThat is all."]
)
@pytest.mark.parametrize(
    ("written", "rationale"),
    [
        ('{"rationale": "ok", "score": "4"}', "ok"),
        ('{"rationale": "ok", "score": "4/5"}', "ok"),
        ('{"rationale": "ok", "score": 4.0}', "ok"),
        ('{"rationale": "ok", "score": 4,}', "ok"),
        ('{"reason": "ok", "Score": 4}', "ok"),
        ('{"理由": "ok", "评分": "四分"}', "ok"),
        ("{“理由”：“ok”，“评分”：４，}", "ok"),
        ('{"rationale": "line 1\nline 2", "score": 4}', "line 1\nline 2"),
        ('{"score": 4}', ""),
    ],
)
def test_an_object_is_read_alike_alone_and_in_a_fence(written: str, rationale: str, fence: str) -> None:
    reply = fence.replace("{}", written)
    read = read_verdict(reply)
    assert read.score == 4, read.problem
    assert read.rationale == (rationale or ("" if reply[0] in "{`" else reply))
