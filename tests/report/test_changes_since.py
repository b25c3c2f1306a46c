import shutil
from pathlib import Path

import pytest

from medjudge.errors import InputError
from medjudge.report.changes import changes
from medjudge.report.contents import Contents, read_contents
from medjudge.report.page import write_page
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


def contents(run: Run) -> Contents:
    return read_contents(run)


def test_a_better_model_rose_and_the_others_did_not(run, later) -> None:
    compared = changes(contents(later), contents(run), "gpt", 0)
    assert compared is not None
    assert (compared.since, compared.questions, compared.left_out) == ("copy", 56, 0)
    assert (compared.added, compared.removed, compared.judge_changed) == ([], [], False)
    by_model = {one.model: one for one in compared.models}
    better = by_model["model-e"]
    assert better.now == 100
    assert better.lost == 0
    assert better.gained == round(56 * (better.now - better.before) / 100) == compared.all_flips
    assert better.difference.low > 0
    assert not better.difference.tie
    same = by_model["model-a"]
    assert same.now == same.before
    assert same.difference.tie
    assert len(compared.flips) == 30
    assert compared.flips[0].now == 5.0
    assert compared.flips[0].before == 1.0
    assert compared.flips[0].link.endswith("/model-e/0")


def test_only_questions_that_both_runs_ask_alike_count(run, later) -> None:
    questions = run.questions()
    questions[0] = questions[0].model_copy(update={"prompt": "Another wording?"})
    write_records(run.questions_file, questions[:50])
    kept = {question.id for question in questions[:50]}
    write_records(run.answers_file, [answer for answer in run.answers() if answer.question_id in kept])
    compared = changes(contents(later), contents(run), "gpt", 0)
    assert compared is not None
    assert (compared.questions, compared.left_out) == (49, 7)


def test_another_judge_or_other_files_of_it_are_told(run, later, tmp_path) -> None:
    assert changes(contents(later), contents(run), "mine", 0) is not None
    run.update_manifest(judges={"gpt": {"sha256": "a"}})
    later.update_manifest(judges={"gpt": {"sha256": "b"}})
    compared = changes(contents(later), contents(run), "gpt", 0)
    assert compared is not None
    assert compared.judge_changed
    for judge in ("gpt", "mine"):
        run.judgments_file(judge).unlink()
    with pytest.raises(InputError, match=r"--since .*: was judged by no judge"):
        write_page(tmp_path / "report.html", [later], since=run)


@pytest.mark.slow
def test_runs_without_a_common_question_are_refused(run, later, tmp_path) -> None:
    write_records(run.questions_file, [q.model_copy(update={"prompt": f"Other {q.prompt}"}) for q in run.questions()])
    with pytest.raises(InputError, match="no question in common"):
        write_page(tmp_path / "report.html", [later], since=run)
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_the_command_writes_what_changed(medjudge, run, later) -> None:
    done = medjudge("report", later.path, "--judge", "gpt", "--since", run.path)
    assert done.returncode == 0, done.stderr
    page = (later.path / "report.html").read_text(encoding="utf-8")
    assert "What changed since" in page
    assert "more than chance" in page
    refused = medjudge("report", later.path, "--judge", "gpt", "--since", run.path / "nowhere")
    assert refused.returncode == 2
    assert "nowhere" in refused.stderr
