"""Runs in which most questions have no answer, or answers ended at the token limit."""

import html
import io
import re
from pathlib import Path

import pytest
from folder_of_runs import add_run
from rich.console import Console

from medjudge.cli.output import leaderboard_table
from medjudge.records import Answer
from medjudge.report.page import report_page
from medjudge.report.verdict import few_answers_line
from medjudge.store import Run, write_records
from medjudge.validation.usability import truncated_line
from medjudge.workflows.report import tables_for_papers, write_scores


def text_of(page: str) -> str:
    page = re.sub(r"<style.*?</style>|<script.*?</script>|</?(?:bdi|b|code)(?: [^>]*)?>", "", page, flags=re.S)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """36 questions: `full` answered all, and `few` 12 of them, 7 usably; 3 of its answers ended at the token limit."""
    run = add_run(tmp_path / "run", 7, {"full": 18, "few": 7})
    answers = []
    for answer in run.answers():
        number = int(answer.question_id[1:])
        if answer.model == "full" or number < 12:
            cut = answer.model == "few" and number < 3
            answers.append(answer.model_copy(update={"finish_reason": "length" if cut else "stop"}))
    kept = {answer.key for answer in answers}
    write_records(run.answers_file, answers)
    write_records(run.judgments_file("mine"), [j for j in run.judgments("mine") if j.answer_key in kept])
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
