"""Distils a simulated lenient teacher and three simulated physicians on the bundled sample: the screen in the README.

    python eval/quality/simulated_distillation.py WORK

The sample's constructed levels stand for the truth. The teacher gives one level too many to four answers in ten, and
up to two in text generation; of the physicians one is unbiased, one strict, one careless. They score two thirds of
the conversations. The result is eval/results/simulated-distillation.json.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

from eval.lib.study import Study
from medjudge.benchmark.sample import sample_folder
from medjudge.records import Judgment, PhysicianScore
from medjudge.store import Run, write_records

TEACHER = "simulated-teacher"
RATERS = {"dr-a": (0.0, 0.4), "dr-b": (-0.4, 0.5), "dr-c": (0.4, 0.9)}
"""Bias and noise in levels."""


def simulate(folder: Path, seed: int) -> None:
    """Writes the sample with simulated scores and judgments as a run folder."""
    shutil.copytree(sample_folder(), folder)
    run, generator = Run(folder), np.random.default_rng(seed)
    questions = {question.id: question for question in run.questions()}
    groups = sorted({question.group for question in questions.values()})
    scored = set(generator.permutation(groups)[: len(groups) * 2 // 3])
    scores, judgments = [], []
    for score in run.physician_scores():
        question = questions[score.question_id]
        key = {"question_id": score.question_id, "model": score.model}
        for rater, (bias, noise) in RATERS.items():
            if question.group in scored and (rater == "dr-a" or generator.random() < 0.6):
                observed = int(np.clip(round(score.level + bias + noise * generator.normal()), 1, 5))
                scores.append(PhysicianScore.model_validate({**key, "rater": rater, "score": observed}))
        for number in (1, 2):
            chances = [0.3, 0.4, 0.3] if question.category == "MTG" else [0.6, 0.4, 0.0]
            level = min(5, score.level + int(generator.choice(3, p=chances)))
            fields = {**key, "judge": TEACHER, "round": number, "score": level, "rationale": "simulated"}
            judgments.append(Judgment.model_validate(fields))
    write_records(run.physicians_file, scores)
    write_records(run.judgments_file(TEACHER), judgments)


def main(work: Path) -> None:
    """Simulates, distils, writes the summary."""
    study = Study(work)
    simulate(work / "simulated", seed=3)
    command = "medjudge distill simulated --out data --synthetic 100"
    summary = study.run(f"{command} --json", json_output=True)
    shutil.rmtree(work / "data")
    subprocess.run(command.split(), cwd=work, check=True)
    note = "Simulated scores: the figures show the method, not a judge."
    study.write("simulated-distillation", {"note": note, "summary": summary})


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/quality/simulated_distillation.py WORK")
    main(Path(sys.argv[1]))
