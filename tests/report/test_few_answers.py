"""Runs in which most questions have no answer, or answers ended at the token limit."""

import io
from pathlib import Path

import pytest
from browsing import text_of
from folder_of_runs import add_run
from rich.console import Console

from medjudge.cli.output import leaderboard_table
from medjudge.records import Answer
from medjudge.report.page import report_page
from medjudge.report.verdict import few_answers_line
from medjudge.store import Run, write_records
from medjudge.validation.usability import truncated_line
from medjudge.workflows.report import tables_for_papers, write_scores


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """36 questions: `full` answered all, and `few` 12 of them, 7 usably; 3 of its answers ended at the token limit."""
    run = add_run(tmp_path / "run", 7, {"full": 18, "few": 7})
    full, few = [answer for answer in run.answers() if answer.model == "full"], run.answers()[36:48]
    cut = [answer.model_copy(update={"finish_reason": "length"}) for answer in few[:3]]
    write_records(run.answers_file, [*full, *cut, *few[3:]])
    write_records(run.judgments_file("mine"), run.judgments("mine")[:48])
    return run


def test_most_questions_without_an_answer_come_first_and_make_no_rate(run: Run) -> None:
    scores = write_scores(run, "mine")
    said = few_answers_line(scores.models)
    assert said is not None
    assert said.startswith("Most questions have no answer: few answered 12 of 36. ")
    assert "eval --answered-only" in said
    screen = io.StringIO()
    Console(file=screen, width=200).print(leaderboard_table(scores.models, "", scores.validation_status))
    row = next(line.split() for line in screen.getvalue().splitlines() if line.startswith("few"))
    assert row[1:4] == ["7", "of", "12"]
    assert "19.4" not in screen.getvalue()
    text = tables_for_papers([run.path], "markdown")[0]
    assert "| few | 7 of 12 |" in text
    assert said.split(" ")[0] in text
    page = text_of(report_page([run]))
    assert "Most questions have no answer: few answered 12 of 36. " in page
    assert page.index("Most questions have no answer") < page.index("Usability rate by judge")
    assert "7 of 12" in page
    assert "19.4" not in page
    assert "few只回答了36个问题中的12个" in text_of(report_page([run], "zh")).replace(" ", "")


def test_answers_that_ended_at_the_token_limit_are_counted_by_model(run: Run) -> None:
    scores = write_scores(run, "mine")
    assert scores.as_json()["truncated"] == {"full": 0, "few": 3}
    assert truncated_line(scores.truncated) == "answers that ended at the token limit: few 3"
    assert "few 3 answers ended at the token limit" in text_of(report_page([run]))
    assert not Answer(question_id="q", model="m", text="x", finish_reason="stop").truncated
