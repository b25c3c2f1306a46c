"""Judgments and scores count only for the texts that they were made from."""

import json
from pathlib import Path
from typing import Any

import pytest
from calls import SAMPLE_QUESTION

from medjudge.annotate.add_scores import add_records
from medjudge.annotate.tasks import ITEMS, PAIRS
from medjudge.errors import InputError
from medjudge.item_records import ItemScore
from medjudge.judge.pairs import pair_judgments, pairs_file, physician_pairs
from medjudge.pair_records import PairJudgment, PhysicianPair
from medjudge.provenance import stamped
from medjudge.records import Answer, Judgment, PhysicianScore, Question
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run, write_records

PROBABILITIES = [0.0, 0.1, 0.2, 0.5, 0.2]


def question(**changes: Any) -> Question:
    return Question(**{**SAMPLE_QUESTION, **changes})


def judgment(**changes: Any) -> Judgment:
    fields = {"question_id": "q1", "model": "m", "judge": "j", "score": 4, "expected": 3.8}
    return Judgment(**{**fields, "probabilities": PROBABILITIES, **changes})


def score(level: int = 4) -> PhysicianScore:
    return PhysicianScore(question_id="q1", model="m", rater="a", score=level)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run")
    run.write_questions([question()], LLMEVAL_MED)
    write_records(run.answers_file, [Answer(question_id="q1", model="m", text="So it is.")])
    with run.lock():
        for made in stamped([judgment()], run.texts()):
            run.append(run.judgments_file("j"), made.model_dump_json())
    add_records(run, [score()])
    return run


@pytest.mark.parametrize("field", ["prompt", "reference", "checklist", "category"])
def test_another_question_under_the_same_id_has_no_judgment_and_no_score(run: Run, field: str, capsys) -> None:
    assert [made.score for made in run.judgments("j")] == [4]
    assert [made.level for made in run.physician_scores()] == [4]
    run.write_questions([question(**{field: "MR" if field == "category" else "Changed."})], LLMEVAL_MED)
    assert run.judgments("j") == []
    assert run.physician_scores() == []
    told = capsys.readouterr().err
    assert f"{run.judgments_file('j')}: 1 line is left out" in told
    assert f"{run.physicians_file}: 1 line is left out" in told


def test_what_was_left_out_stays_in_the_file_and_counts_again_with_its_text(run: Run) -> None:
    before = run.answers()
    write_records(run.answers_file, [Answer(question_id="q1", model="m", text="Another text.")])
    assert run.judgments("j") == []
    with run.lock():
        for made in stamped([judgment(score=2, expected=None, probabilities=None)], run.texts()):
            run.append(run.judgments_file("j"), made.model_dump_json())
    add_records(run, [score(2)])
    assert [made.score for made in run.judgments("j")] == [2]
    add_records(run, [score(1)], replace=True)
    assert [made.level for made in run.physician_scores()] == [1]
    write_records(run.answers_file, before)
    assert [made.score for made in run.judgments("j")] == [4]
    assert [made.level for made in run.physician_scores()] == [4]


def test_items_and_pairs_of_changed_texts_are_left_out_too(run: Run) -> None:
    answers = [*run.answers(), Answer(question_id="q1", model="n", text="Not so.")]
    write_records(run.answers_file, answers)
    key = {"question_id": "q1", "rater": "a"}
    add_records(run, [ItemScore(**key, model="m", item="So.", verdict="met")], task=ITEMS)
    add_records(run, [PhysicianPair(**key, first="m", second="n", preferred="first")], task=PAIRS)
    judged = PairJudgment(question_id="q1", first="n", second="m", judge="j", preferred="tie")
    write_records(pairs_file(run, "j"), stamped([judged], run.texts()))
    assert [len(read) for read in (run.item_scores(), physician_pairs(run), pair_judgments(run, "j"))] == [1, 1, 1]
    write_records(run.answers_file, [answers[0], answers[1].model_copy(update={"text": "Changed."})])
    assert [len(read) for read in (run.item_scores(), physician_pairs(run), pair_judgments(run, "j"))] == [1, 0, 0]
    run.write_questions([question(reference="Changed.")], LLMEVAL_MED)
    assert run.item_scores() == []


def test_records_without_a_hash_still_count_and_are_known_again(run: Run) -> None:
    write_records(run.physicians_file, [score()])
    assert add_records(run, [score()])._asdict() == {"new": 0, "same": 1, "replaced": 0}
    write_records(run.judgments_file("j"), [judgment()])
    assert "texts" not in json.loads(run.judgments_file("j").read_text())
    run.write_questions([question(prompt="Changed.")], LLMEVAL_MED)
    assert [made.score for made in run.judgments("j")] == [4]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"judge": "other"}, "judge: 'other' in the file of j"),
        ({"score": 5}, "score: 5 is not the median of its probabilities"),
        ({"expected": 4.6}, "expected: 4.6 is not the mean of its probabilities, 3.8000"),
    ],
)
def test_a_judgment_that_contradicts_its_file_or_itself_is_refused(run: Run, changes: dict, problem: str) -> None:
    write_records(run.judgments_file("j"), [judgment(**changes)])
    with pytest.raises(InputError, match="line 1: ") as raised:
        run.judgments("j")
    assert problem in str(raised.value)
