"""A folder of small runs: the same questions, judged in three months, while one model became better."""

from pathlib import Path

from medjudge.files import file_sha256
from medjudge.records import Answer, Judgment, Question
from medjudge.store import Run, write_records

QUESTIONS = 36


def add_run(path: Path, month: int, usable: dict[str, int]) -> Run:
    """A run of which so many answers of each model are usable to judge `mine`."""
    run = Run(path)
    questions = [
        Question(id=f"q{n}", group=f"q{n}", prompt=f"What about {n}?", category="MK", language="en")
        for n in range(QUESTIONS)
    ]
    ids = [question.id for question in questions]
    answers = [Answer(question_id=id, model=model, text=f"As to {id}.") for model in usable for id in ids]
    judgments = [
        Judgment(question_id=id, model=model, judge="mine", score=5 if n < usable[model] else 2)
        for model in usable
        for n, id in enumerate(ids)
    ]
    write_records(run.questions_file, questions)
    write_records(run.answers_file, answers)
    write_records(run.judgments_file("mine"), judgments)
    run.update_manifest(
        updated=f"2026-{month:02}-01T09:30:00+00:00",
        versions={"medjudge": "0.1.0"},
        judge="mine",
        judges={"mine": {"sha256": "a" * 64}},
        benchmark={"source": "data/ward.jsonl", "questions": QUESTIONS, "sha256": file_sha256(run.questions_file)},
    )
    return run


def three_months(folder: Path) -> Path:
    """Runs `july`, `august` and `september` in a folder."""
    for month, (name, usable) in enumerate({"july": 9, "august": 9, "september": 27}.items(), 7):
        add_run(folder / name, month, {"model-a": 18, "model-b": usable})
    return folder
