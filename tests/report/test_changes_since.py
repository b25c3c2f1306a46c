import shutil
from pathlib import Path

import pytest

from medjudge.errors import InputError
from medjudge.report.boards import judged_runs
from medjudge.report.changes import Changes, changes
from medjudge.report.contents import read_contents
from medjudge.report.page import report_page, write_page
from medjudge.store import Run, write_records


@pytest.fixture
def later(run: Run, tmp_path: Path) -> Run:
    """The same run with every answer of `model-e` scored 5 by `gpt`."""
    later = Run(Path(shutil.copytree(run.path, tmp_path / "later")))
    judgments = [
        judgment.model_copy(update={"score": 5, "expected": None, "probabilities": None})
        if judgment.model == "model-e"
        else judgment
        for judgment in later.judgments("gpt")
    ]
    write_records(later.judgments_file("gpt"), judgments)
    return later


def compared(new: Run, old: Run, judge: str = "gpt") -> Changes:
    contents = read_contents(new)
    (judged,) = [one for one in judged_runs([contents]) if one.judge == judge]
    found = changes(contents, read_contents(old), judged)
    assert found is not None
    return found


@pytest.mark.usefixtures("without_plots")
def test_a_better_model_rose_and_the_others_did_not(run, later) -> None:
    changed = compared(later, run)
    assert (changed.since, changed.questions, changed.left_out, changed.judge_changed) == ("copy", 56, 0, False)
    by_model = {one.model: one for one in changed.models}
    better, same = by_model["model-e"], by_model["model-a"]
    assert (better.now, better.lost) == (100, 0)
    assert better.gained == round(56 * (better.now - better.before) / 100) == changed.all_flips
    assert better.difference.low > 0
    assert (better.difference.tie, same.difference.tie) == (False, True)
    assert same.now == same.before
    assert len(changed.flips) == 30
    assert (changed.flips[0].before, changed.flips[0].now) == (1.0, 5.0)
    assert changed.flips[0].link.endswith("/model-e/0")
    page = report_page([later], since=run)
    assert "What changed since" in page
    assert "more than chance" in page


def test_only_questions_that_both_runs_ask_alike_count(run, later, tmp_path) -> None:
    questions = run.questions()
    questions[0] = questions[0].model_copy(update={"prompt": "Another wording?"})
    write_records(run.questions_file, questions[:50])
    kept = {question.id for question in questions[:50]}
    write_records(run.answers_file, [answer for answer in run.answers() if answer.question_id in kept])
    changed = compared(later, run)
    assert (changed.questions, changed.left_out) == (49, 7)
    write_records(run.questions_file, [q.model_copy(update={"prompt": f"Other {q.prompt}"}) for q in questions])
    with pytest.raises(InputError, match="no question in common"):
        write_page(tmp_path / "report.html", [later], since=run)
    assert not (tmp_path / "report.html").exists()


def test_another_judge_or_other_files_of_it_are_told(run, later, tmp_path) -> None:
    assert not compared(later, run, "mine").judge_changed
    run.update_manifest(judges={"gpt": {"sha256": "a"}})
    later.update_manifest(judges={"gpt": {"sha256": "b"}})
    assert compared(later, run).judge_changed
    for judge in ("gpt", "mine"):
        run.judgments_file(judge).unlink()
    with pytest.raises(InputError, match=r"--since .*: was judged by no judge"):
        write_page(tmp_path / "report.html", [later], since=run)
