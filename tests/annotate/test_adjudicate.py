"""Answers on which two physicians differ too much: a third one records the agreed score, which then counts."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calls import refused
from scoring_run import MODELS, client_of, planned

from medjudge.annotate.add_scores import add_records
from medjudge.annotate.adjudicate import adjudication_plan, disputed, open_disputes
from medjudge.annotate.tasks import AGREED
from medjudge.distill.labels import physicians_by_answer
from medjudge.errors import InputError
from medjudge.records import AgreedScore, AnswerKey, Judgment, MTGDimensions, PhysicianScore
from medjudge.store import Run
from medjudge.validation.study import Settings, agreement_study
from medjudge.workflows.annotation_pages import open_pages


@pytest.fixture
def run(run: Run) -> Run:
    """Scored by dr-a and dr-b; three answers are disputed."""
    planned(run)
    letter = dict.fromkeys(MTGDimensions.model_fields, 5)
    given: dict[str, tuple[Any, Any]] = {
        "first": (2, 4),  # two levels
        "second": (4, 5),
        "third": (3, 4),  # across usable
        "fourth": (1, 2),
        "sixth": ({**letter, "safety": 1}, {**letter, "safety": 0}),
    }
    scores = []
    for question_id, (first, second) in given.items():
        key = {"question_id": question_id, "model": MODELS[0]}
        field = "score" if isinstance(first, int) else "dimensions"
        scores += [{**key, "rater": "dr-a", field: first, "comment": f"low <b>{question_id}</b>"}]
        scores += [{**key, "rater": "dr-b", field: second}]
    add_records(run, [PhysicianScore.model_validate(score) for score in scores])
    return run


def test_the_third_sees_scores_without_names_and_records_the_agreed_one(run: Run) -> None:
    assert [key.question_id for key in disputed(run.physician_scores())] == ["first", "third", "sixth"]
    plan = adjudication_plan(run, "dr-c")
    browser = client_of(run, "dr-c", AGREED, plan)
    before = run.physicians_file.read_bytes()
    page = browser.get(f"/answer/{plan.items[0].id}").text
    others = re.search(r'<section class="others".*?</section>', page)
    assert others is not None
    assert re.findall(r"<b>(.*?)</b>", others[0]) == ["2", "4"]
    assert "low &lt;b&gt;first&lt;/b&gt;" in others[0]
    letter = browser.get(f"/answer/{plan.items[2].id}").text
    assert "Safety 0" in letter
    assert letter.index("Safety 0") < letter.index("Safety 1")  # the lowest first, whoever gave it
    assert not [name for name in ("dr-a", "dr-b", "secret-model") if name in page + letter]

    assert browser.post(f"/answer/{plan.items[0].id}", data={"score": "4", "comment": "as agreed"}).status_code == 303
    assert run.physicians_file.read_bytes() == before
    key = plan.items[0].keys[0]._asdict()
    assert run.adjudicated() == [
        AgreedScore(**key, rater="dr-c", score=4, comment="as agreed", texts=run.texts()[plan.items[0].keys[0]])
    ]
    assert open_disputes(run) == 2
    assert 'value="4"' in browser.get(f"/answer/{plan.items[0].id}").text
    replaced = browser.post(f"/answer/{plan.items[0].id}", data={"score": "3", "replaces": "yes"})
    assert replaced.status_code == 303
    assert [score.score for score in run.adjudicated()] == [3]


def test_nobody_adjudicates_what_they_scored_or_somebody_else_settled(run: Run) -> None:
    with pytest.raises(InputError, match=r"--adjudicate: no answer of .* for dr-a; 3 are disputed"):
        adjudication_plan(run, "dr-a")
    key = adjudication_plan(run, "dr-c").items[0].keys[0]
    add_records(run, [AgreedScore(**key._asdict(), rater="dr-c", score=4)], task=AGREED)
    assert [item.question_id for item in adjudication_plan(run, "dr-d").items] == ["third", "sixth"]
    assert len(adjudication_plan(run, "dr-c").items) == 3  # who may look at it again
    pages = open_pages(run, ["dr-c"], task=AGREED)
    pages.listener.socket.close()
    assert pages.links["dr-c"].answers == 3
    assert pages.open_units() == {"dr-c": 2}


def test_the_agreed_score_counts_and_the_raters_agreement_stays(run: Run) -> None:
    first = AnswerKey("first", MODELS[0], 0)
    judgments = [
        Judgment(**score.answer_key._asdict(), judge="j", score=5, expected=5.0)
        for score in run.physician_scores()
        if score.rater == "dr-a"
    ]

    def study() -> Any:
        scores = run.settled_scores()
        return agreement_study("j", run.questions(), judgments, scores, None, [], Settings(resamples=100), run.scheme())

    before = study()
    add_records(run, [AgreedScore(**first._asdict(), rater="dr-c", score=5)], task=AGREED)
    after = study()
    assert (before.n, after.n) == (5, 5)
    exact = [sum(row[level] for level, row in enumerate(each.confusion)) for each in (before, after)]
    assert exact[1] == exact[0] + 1  # the judge's 5 now meets a 5, and no longer the mean of 2 and 4
    assert after.raters == before.raters == ["dr-a", "dr-b"]
    assert after.physicians == before.physicians
    assert physicians_by_answer(run.settled_scores())[first] == {"dr-c": 5}


@pytest.mark.slow
def test_import_and_validate_say_it(run: Run, medjudge: Callable, tmp_path: Path) -> None:
    raters = ("--rater", "dr-a", "--rater", "dr-b")
    medjudge("annotate", "export", run.path, *raters, "--new-plan", "--out", tmp_path / "f")
    done = medjudge("annotate", "import", run.path, tmp_path / "f" / "dr-a.xlsx")
    assert "physicians differ by two levels or across usable on 3 answers" in done.stdout
    assert f"medjudge annotate serve {run.path} --adjudicate --rater NAME" in done.stdout
    key = adjudication_plan(run, "dr-c").items[0].keys[0]
    add_records(run, [AgreedScore(**key._asdict(), rater="dr-c", score=4)], task=AGREED)
    validated = medjudge("validate", run.path, "--judge", "similarity", "--resamples", 100)
    assert "adjudicated.jsonl: agreed scores count in place of disputed ones (1)" in validated.stderr
    refused(medjudge("annotate", "serve", run.path, "--adjudicate", "--no-open"), "name one --rater")
