"""A small run to be scored: a conversation, both languages, MTG, and texts that spreadsheet programs trip over."""

from pathlib import Path
from typing import Any

from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import Plan, PlanOptions, write_plan
from medjudge.records import Answer, Judgment, Question
from medjudge.store import Run, write_records

MODELS = ("secret-model-7b", "hidden-model-70b")


def question(question_id: str, category: str = "MK", **fields: Any) -> Question:
    base = {"id": question_id, "category": category, "group": question_id, "language": "en"}
    return Question.model_validate({**base, "prompt": f"What about {question_id}?", **fields})


def answer(question_id: str, model: str, text: str = "", sample: int = 0) -> Answer:
    return Answer(question_id=question_id, model=model, sample=sample, text=text or f"An answer to {question_id}.")


def judgment(of: Answer, usable: float | None, judge: str = "j") -> Judgment:
    """A judgment with this P(usable); None for one that failed."""
    key: dict[str, Any] = {"question_id": of.question_id, "model": of.model, "sample": of.sample, "judge": judge}
    if usable is None:
        return Judgment(**key, score=None, error="out of memory")
    return Judgment(**key, score=5 if usable >= 0.5 else 1, probabilities=[1 - usable, 0, 0, 0, usable])


def build_run(path: Path, words: int = 60) -> Run:
    """Seven questions, two models, fourteen answers, one of them so many words long."""
    run = Run(path)
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
    comments = {
        "first": "=SUM(A1:A3)\x0b\x1f and _x0041_ and x005F_ 🩺",
        "third": "- 建议就医。\n" * 30,
        "fourth": "+49 30 1234 " + "long " * words,
        "fifth": "",
        "sixth": "  Dear colleague,\r\n\tthe patient\n\n",
    }
    write_records(run.questions_file, questions)
    answers = [
        answer(question.id, model, comments.get(question.id) or f"Answer {question.id}, number {number}.")
        for question in questions
        for number, model in enumerate(MODELS)
    ]
    write_records(run.answers_file, answers)
    return run


def planned(run: Run, **options: Any) -> Plan:
    """Makes and writes a plan; dr-a and dr-b both score everything unless options say otherwise."""
    plan = draw_plan(run, PlanOptions(**{"raters": ["dr-a", "dr-b"], "overlap": 2, **options}))
    write_plan(run, plan)
    return plan
