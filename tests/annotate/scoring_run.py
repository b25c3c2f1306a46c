"""Small runs to be scored, their plans, and browsers that opened a rater's link."""

from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from medjudge.annotate.access import Access
from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import Plan, PlanOptions, read_plan, write_plan
from medjudge.annotate.serve import annotation_app
from medjudge.annotate.tasks import LEVELS, Task
from medjudge.records import Answer, Question
from medjudge.store import Run, write_records

MODELS = ("secret-model-7b", "hidden-model-70b")
HERE, TOKEN = "http://127.0.0.1:8000", "t0ken"
SETTLED = 450
"""Milliseconds after which a screen takes scores."""


def question(question_id: str, category: str = "MK", **fields: Any) -> Question:
    base = {"id": question_id, "category": category, "group": question_id, "language": "en"}
    return Question.model_validate({**base, "prompt": f"What about {question_id}?", **fields})


def answer(question_id: str, model: str = MODELS[0], text: str = "", **fields: Any) -> Answer:
    return Answer(question_id=question_id, model=model, text=text or f"An answer to {question_id}.", **fields)


def run_of(path: Path, questions: list[Question], answers: list[Answer]) -> Run:
    run = Run(path)
    write_records(run.questions_file, questions)
    write_records(run.answers_file, answers)
    return run


def build_run(path: Path, words: int = 60) -> Run:
    """A conversation, both languages, MTG, and texts that spreadsheet programs trip over, one so many words long.

    Seven questions and two models.
    """
    turns = {"group": "talk", "reference": "One right answer.", "checklist": "Core:\n1. the dose"}
    questions = [
        question("first", prompt="=1+1 is what?", round=1, **turns),
        question("second", prompt="And then?", round=2, **turns),
        question("third", "MR", language="zh", prompt="患者发热三天，如何处理？", reference="先查血常规。" * 60),
        question("fourth", "MLU", prompt="<b>Extract</b> & translate"),
        question("fifth", "MSE", reference="#N/A"),
        question("sixth", "MTG", prompt="Write a letter."),
        question("seventh", "MTG", language="zh", prompt="写一份出院小结。"),
    ]
    texts = {
        "first": "=SUM(A1:A3)\x0b\x1f and _x0041_ and x005F_ 🩺",
        "third": "- 建议就医。\n" * 30,
        "fourth": "+49 30 1234 " + "long " * words,
        "sixth": "  Dear colleague,\r\n\tthe patient\n\n",
    }
    answers = [
        answer(question.id, model, texts.get(question.id, f"Answer {question.id}, number {number}."))
        for question in questions
        for number, model in enumerate(MODELS)
    ]
    return run_of(path, questions, answers)


def planned(run: Run, **options: Any) -> Plan:
    """Makes and writes a plan; dr-a and dr-b both score everything unless options say otherwise."""
    plan = draw_plan(run, PlanOptions(**{"raters": ["dr-a", "dr-b"], "overlap": 2, **options}))
    write_plan(run, plan)
    return plan


def items_of(run: Run, rater: str = "dr-a") -> list[str]:
    return read_plan(run).by_rater[rater]


def scores_of(run: Run) -> list[tuple[str, int | None, str | None]]:
    return [(score.question_id, score.score, score.comment) for score in run.physician_scores()]


def client_of(run: Run, rater: str = "dr-a", task: Task = LEVELS, plan: Plan | None = None) -> TestClient:
    """A browser that opened the rater's link."""
    app = annotation_app(run, plan or task.read_plan(run), Access({TOKEN: rater}), task)
    client = TestClient(app, base_url=HERE, follow_redirects=False)
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    client.headers["origin"] = HERE
    return client


def press(page: Any, *keys: str) -> None:
    """Presses keys, the last of which leads to another screen; each is held a little, which must count once."""
    page.wait_for_load_state()
    page.wait_for_timeout(SETTLED)
    with page.expect_navigation(timeout=60_000):
        for key in keys:
            page.keyboard.down(key)
            page.keyboard.down(key)
            page.keyboard.up(key)
    page.wait_for_selector("h1")
    page.wait_for_load_state()
