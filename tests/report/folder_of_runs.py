"""A folder of small runs: the same questions, judged in three months, while one model became better."""

from pathlib import Path

from medjudge.files import file_sha256
from medjudge.records import Answer, Judgment, Question
from medjudge.store import Run, write_records


def add_run(path: Path, month: int, usable: dict[str, int], questions: int = 36, sha256: str = "a") -> Run:
    """A run of which so many answers of each model are usable to judge `mine`."""
    run, ids = Run(path), [f"q{n}" for n in range(questions)]
    asked = [Question(id=id, group=id, prompt=f"What about {id[1:]}?", category="MK", language="en") for id in ids]
    answers = [Answer(question_id=id, model=model, text=f"As to {id}.") for model in usable for id in ids]
    judgments = [
        Judgment(question_id=id, model=model, judge="mine", score=5 if n < usable[model] else 2)
        for model in usable
        for n, id in enumerate(ids)
    ]
    write_records(run.questions_file, asked)
    write_records(run.answers_file, answers)
    write_records(run.judgments_file("mine"), judgments)
    run.update_manifest(
        updated=f"2026-{month:02}-01T09:30:00+00:00",
        versions={"medjudge": "0.1.0"},
        judge="mine",
        judges={"mine": {"sha256": sha256}},
        benchmark={"source": "data/ward.jsonl", "questions": questions, "sha256": file_sha256(run.questions_file)},
    )
    return run


def three_months(folder: Path) -> Path:
    """Runs `july`, `august` and `september` in a folder."""
    for month, (name, usable) in enumerate({"july": 9, "august": 9, "september": 27}.items(), 7):
        add_run(folder / name, month, {"model-a": 18, "model-b": usable})
    return folder
