"""Notes and refusals of `medjudge eval` before the first judgment, and the questions that it uses."""

from pathlib import Path

import pytest
from calls import SAMPLE_QUESTION
from calls import refused_with as refused

from medjudge.errors import InputError
from medjudge.judge.folder import JudgeCard
from medjudge.judge.open import ApiRef, FolderRef, PanelRef
from medjudge.judge.panel import PanelSettings
from medjudge.workflows.preflight import preflight
from medjudge.workflows.run_folder import Choice, chosen

ENGLISH = FolderRef(
    "mine", Path("mine"), JudgeCard(kind="ordinal", base_model="b", max_length=64, only_languages=["en"])
)
SIMILARITY = FolderRef("similarity", Path("s"), JudgeCard(kind="similarity", base_model="b", max_length=64))


def test_the_preflight_counts_what_the_judge_can_read_and_refuses_nearly_none(question) -> None:
    questions = [question(id=f"q{number}", language="zh" if number < 2 else "en") for number in range(5)]
    counts = "5 questions, 3 of them with an answer; the judge can read 2 of these; it cannot read 1 in zh"
    assert preflight(ENGLISH, questions, {"q0", "q2", "q3"}) == counts
    to_come = "5 questions, answers from 1 model to come; the judge can read 1 of these"
    assert preflight(ENGLISH, questions, {"q2"}, 1) == f"{to_come}; --answered-only leaves the others out"
    chinese = [question(id=f"q{number}", language="zh") for number in range(40)]
    with pytest.raises(InputError, match=r"can read 0 of 40 answered questions; it cannot read 40 in zh.*--judge"):
        preflight(ENGLISH, chinese, {q.id for q in chinese})
    mixed = [*chinese, question(id="e")]
    with pytest.raises(InputError, match="can read 1 of 41"):
        preflight(ENGLISH, mixed, {q.id for q in mixed})
    few = preflight(ENGLISH, [*mixed, question(id="f"), question(id="g")], {"e", "f", "g"})
    assert "can read 3 of these" in few
    bare = [question(id="a", reference=None)]
    with pytest.raises(InputError, match="1 without a reference"):
        preflight(SIMILARITY, bare, {"a"})
    assert "can read 1 of these" in preflight(ApiRef("gpt"), bare, {"a"})
    panel = PanelRef("both", (ENGLISH, ApiRef("gpt")), PanelSettings(members=["mine", "gpt"]), "panel:mine,gpt")
    with pytest.raises(InputError, match=r"panel:mine,gpt: member mine: leave it out of the panel; .* 40 in zh"):
        preflight(panel, chinese, {q.id for q in chinese})
    with pytest.raises(InputError, match="none of the 1 questions has an answer"):
        preflight(ENGLISH, bare, set())


def test_eval_refuses_before_it_writes_anything(medjudge, jsonl, tmp_path) -> None:
    questions = jsonl("questions.jsonl", {**SAMPLE_QUESTION, "prompt": "多少?", "language": "zh", "reference": None})
    answers = jsonl("answers.jsonl", {"question_id": "q1", "model": "m", "text": "4 g"})
    asked = ("eval", "--benchmark", questions, "--judge", "similarity", "--answers")
    refused(medjudge(*asked, answers), "can read 0 of 1 answered questions")
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    refused(medjudge(*asked, empty), "no answer in it")
    strangers = jsonl("strangers.jsonl", *[{"question_id": f"x{n}", "model": "m", "text": "x"} for n in range(3)])
    refused(medjudge(*asked, strangers), "(3 of 3 answers belong to none); its ids look like 'q1'")
    assert not (tmp_path / "runs").exists()


def test_questions_are_chosen_by_id_and_by_category_and_bring_their_earlier_turns(question, tmp_path) -> None:
    questions = [
        question(id="a", category="MK"),
        question(id="b1", category="MK", group="b"),
        question(id="b2", category="MK", group="b", round=2),
        question(id="c", category="MSE"),
        question(id="d", category="MSE"),
    ]
    ids = tmp_path / "ids.txt"
    ids.write_text("b2\n\nd\n")
    assert [q.id for q in chosen(questions, Choice(ids=ids), ())] == ["b1", "b2", "d"]
    assert [q.id for q in chosen(questions, Choice(per_category=1), ())] == ["a", "c"]
    assert [q.id for q in chosen(questions, Choice(answered_only=True), {"b2"})] == ["b1", "b2"]
    assert [q.id for q in chosen(questions, Choice(), (), 2)] == ["a", "b1"]
    ids.write_text("a\nx\n")
    with pytest.raises(InputError, match=r"line 2: 'x' is no question of the benchmark \(1 of 2 are none\); its ids"):
        chosen(questions, Choice(ids=ids), ())
    ids.write_text("\n")
    with pytest.raises(InputError, match="no id in it"):
        chosen(questions, Choice(ids=ids), ())
