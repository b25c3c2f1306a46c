"""The study's split for a judge of any config: `medjudge distill` and `train` on one part, `validate` on the other."""

from pathlib import Path
from typing import Any

import numpy as np
from real_calibration import TEACHER
from study import REPOSITORY, Study

from medjudge.store import Run, write_records

HELD_OUT = 0.2
PEOPLE = 3200
SEED = 0


def split(source: Run, folder: Path, people: int = PEOPLE) -> tuple[Run, Run]:
    """Writes two runs: answers to learn from, of which people scored some, and answers to unseen questions.

    Args:
        source: A run with people's scores and the teacher's judgments.
        folder: Gets `learn` and `held-out`.
        people: How many of people's scores the first one holds.
    """
    groups = sorted({question.group for question in source.questions()})
    draw = np.random.default_rng(SEED)
    held = set(draw.permutation(groups)[: max(1, round(HELD_OUT * len(groups)))].tolist())
    learn, held_out = Run(folder / "learn"), Run(folder / "held-out")
    _write(source, learn, set(groups) - held, people)
    _write(source, held_out, held, None)
    return learn, held_out


def _write(source: Run, target: Run, groups: set[str], people: int | None) -> None:
    questions = [question for question in source.questions() if question.group in groups]
    ids = {question.id for question in questions}
    target.path.mkdir(parents=True, exist_ok=True)
    target.write_questions(questions, source.scheme())
    write_records(target.answers_file, [answer for answer in source.answers() if answer.question_id in ids])
    scores = [score for score in source.physician_scores() if score.question_id in ids]
    if people is not None:
        chosen = np.random.default_rng(SEED).permutation(len(scores))[:people]
        scores = [scores[at] for at in sorted(chosen)]
    write_records(target.physicians_file, scores)
    judgments = [judgment for judgment in source.judgments(TEACHER) if judgment.question_id in ids]
    write_records(target.judgments_file(TEACHER), judgments)


def trained_by(study: Study, source: Path, config: Path) -> dict[str, Any]:
    """What `medjudge validate --teacher gpt-4` says of a judge of this config on questions that it did not see."""
    folder = f"config-{config.stem}"
    if not (study.folder / folder / "held-out").exists():
        split(Run(source), study.folder / folder)
    data, judge = f"{folder}/data", f"{folder}/{config.stem}"
    shipped = config.resolve().is_relative_to(REPOSITORY)
    file = f"$MEDJUDGE/{config.resolve().relative_to(REPOSITORY)}" if shipped else str(config.resolve())
    study.run(f"medjudge distill {folder}/learn --out {data}")
    study.run(
        f"medjudge train --config {file} --train-file {data}/train.jsonl "
        f"--validation-file {data}/validation.jsonl --output-dir {judge}"
    )
    found: dict[str, Any] = study.run(
        f"medjudge validate {folder}/held-out --judge {judge} --teacher {TEACHER} --margin 0.02 --offline --json",
        json_output=True,
        allowed=(0, 1),
    )
    return {"config": config.name, "overall": found["overall"], "teacher": found.get("teacher")}
