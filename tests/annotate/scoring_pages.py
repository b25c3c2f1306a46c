"""What the tests of the scoring pages share: a planned run, its plan's items, and the scores that it holds."""

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from medjudge.annotate.access import Access
from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import PlanOptions, read_plan, write_plan
from medjudge.annotate.serve import annotation_app
from medjudge.annotate.tasks import LEVELS, Task
from medjudge.store import Run, write_records

HERE, TOKEN = "http://127.0.0.1:8000", "t0ken"
MODEL = "secret-model-9"


def planned_run(path: Path, questions: list[Any], answers: list[Any], raters: tuple[str, ...] = ("dr-a",)) -> Run:
    run = Run(path)
    write_records(run.questions_file, questions)
    write_records(run.answers_file, answers)
    write_plan(run, draw_plan(run, PlanOptions(raters, overlap=len(raters), seed=3)))
    return run


def client_of(run: Run, rater: str = "dr-a", task: Task = LEVELS, plan: Any = None) -> TestClient:
    """A browser that opened the rater's link."""
    app = annotation_app(run, plan or task.read_plan(run), Access({TOKEN: rater}), task)
    client = TestClient(app, base_url=HERE, follow_redirects=False)
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    client.headers["origin"] = HERE
    return client


def items_of(run: Run, rater: str = "dr-a") -> list[str]:
    return read_plan(run).by_rater[rater]


def scores_of(run: Run) -> list[tuple[str, int | None, str | None]]:
    return [(score.question_id, score.score, score.comment) for score in run.physician_scores()]
