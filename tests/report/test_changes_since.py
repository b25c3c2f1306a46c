from pathlib import Path

import pytest
from folder_of_runs import add_run

from medjudge.errors import InputError
from medjudge.report.boards import judged_runs
from medjudge.report.changes import Changes, changes
from medjudge.report.contents import read_contents
from medjudge.report.page import report_page
from medjudge.store import Run, write_records


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """No answer of `model-b` is usable, and the last one is at level 1."""
    run = add_run(tmp_path / "earlier", 7, {"model-a": 18, "model-b": 0})
    *others, last = run.judgments("mine")
    write_records(run.judgments_file("mine"), [*others, last.model_copy(update={"score": 1})])
    return run


@pytest.fixture
def later(tmp_path: Path) -> Run:
    return add_run(tmp_path / "later", 8, {"model-a": 18, "model-b": 36})


def compared(new: Run, old: Run) -> Changes:
    contents = read_contents(new)
    (judged,) = judged_runs([contents])
    found = changes(contents, read_contents(old), judged)
    assert found is not None
    return found


def test_a_better_model_rose_and_the_others_did_not(run, later) -> None:
    changed = compared(later, run)
    assert (changed.since, changed.questions, changed.left_out, changed.judge_changed) == ("earlier", 36, 0, False)
    same, better = changed.models
    assert (better.before, better.now, better.gained, better.lost) == (0, 100, 36, 0)
    assert better.difference.low > 0
    assert (better.difference.tie, same.difference.tie) == (False, True)
    assert same.now == same.before == 50
    assert [(flip.before, flip.now) for flip in changed.flips] == [(1.0, 5.0)] + [(2.0, 5.0)] * 35
    assert changed.flips[0].link == "#answer/0/q35/model-b/0"
    page = report_page([later], since=run)
    assert "What changed since" in page
    assert "more than chance" in page
    assert "The 30 that changed most:" in page
    assert page.split('aria-label="Answers that changed"')[1].split("</table>")[0].count('href="#answer/') == 30


def test_only_questions_that_both_runs_ask_alike_count(run, later) -> None:
    questions = run.questions()
    questions[0] = questions[0].model_copy(update={"prompt": "Another wording?"})
    write_records(run.questions_file, questions[:30])
    write_records(run.answers_file, [*run.answers()[:30], *run.answers()[36:66]])
    changed = compared(later, run)
    assert (changed.questions, changed.left_out) == (29, 7)
    write_records(run.questions_file, [q.model_copy(update={"prompt": f"Other {q.prompt}"}) for q in questions])
    with pytest.raises(InputError, match="no question in common"):
        report_page([later], since=run)


def test_other_files_of_the_judge_or_another_judge_are_told(run, later) -> None:
    later.update_manifest(judges={"mine": {"sha256": "b"}})
    assert compared(later, run).judge_changed
    run.judgments_file("mine").unlink()
    with pytest.raises(InputError, match=r"--since .*: was judged by no judge"):
        report_page([later], since=run)
