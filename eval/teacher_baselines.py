"""What judges without training on them say of three scored sets: the baselines that a distilled judge has to beat.

    python eval/teacher_baselines.py DATA WORK [JUDGE …]

DATA holds halluqa/, evouna/ and liveqa-med/. Of each set, whole questions with 300 answers
are judged by `medjudge eval` and compared with GPT-4's or people's levels: the area under the ROC curve for full marks,
and quadratic kappa, with intervals from a bootstrap over questions. The result is eval/results/teacher-baselines.json.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from run_parts import MEASURED, drawn_part
from sklearn.metrics import roc_auc_score
from study import Study, record_entry

from medjudge.records import AnswerKey
from medjudge.statistics.measures import confusion, quadratic_kappa
from medjudge.store import Run

SETS = {
    "halluqa": "halluqa $DATA/halluqa",
    "evouna": "evouna $DATA/evouna",
    "liveqa-2479": "liveqa-2479 $DATA/liveqa-med/reference-answers.xml $DATA/liveqa-med/qrels-2479-answers.zip",
}
TEACHER = "gpt-4"
DRAWS, SEED = 1000, 0


def levels_of(run: Run) -> dict[AnswerKey, int]:
    """People's levels, and where a set has none, the teacher's."""
    people = {score.answer_key: score.level for score in run.physician_scores()}
    return people or {each.answer_key: each.score for each in run.judgments(TEACHER) if each.score is not None}


def compared(run: Run, judge: str) -> dict[str, Any]:
    """AUC of full marks and quadratic kappa of a judge's scores, with 95 % intervals over questions."""
    truth = levels_of(run)
    scored = [each for each in run.judgments(judge) if each.score is not None and each.answer_key in truth]
    level = np.array([truth[each.answer_key] for each in scored])
    score = np.array([each.score for each in scored])
    expected = np.array([each.expected for each in scored])
    questions = np.array([each.question_id for each in scored])
    rows_of = [np.flatnonzero(questions == name) for name in np.unique(questions)]
    generator = np.random.default_rng(SEED)

    def measures(rows: np.ndarray) -> list[float]:
        full = level[rows] == 5
        auc = roc_auc_score(full, expected[rows]) if 0 < full.sum() < len(rows) else float("nan")
        return [float(auc), float(quadratic_kappa(confusion(score[rows], level[rows])))]

    drawn = [
        measures(np.concatenate([rows_of[at] for at in generator.integers(len(rows_of), size=len(rows_of))]))
        for _ in range(DRAWS)
    ]
    low, high = np.nanpercentile(np.array(drawn), [2.5, 97.5], axis=0)
    values = measures(np.arange(len(scored)))
    found = {
        name: {"value": round(value, 3), "low": round(least, 3), "high": round(most, 3)}
        for name, value, least, most in zip(("auc_full_marks", "quadratic_kappa"), values, low, high, strict=True)
    }
    return {**found, "answers": len(scored), "questions": len(rows_of), "unscored": len(truth) - len(scored)}


def main() -> None:
    """Judges and compares every set by every judge, and writes an entry for each set."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("DATA", type=Path)
    parser.add_argument("WORK", type=Path)
    parser.add_argument("JUDGE", nargs="*", default=["similarity", "built-in"])
    options = parser.parse_args()
    study = Study(options.WORK, DATA=options.DATA.resolve())
    for name, source in SETS.items():
        study.run(f"medjudge data convert {source} --out {name}")
        run = drawn_part(Run(options.WORK / name), Run(options.WORK / f"{name}-{MEASURED}"), MEASURED)
        result = {}
        for judge in options.JUDGE:
            study.run(
                f"medjudge eval --benchmark {run.path.name}/questions.jsonl --answers {run.path.name}/answers.jsonl "
                f"--judge {judge} --run {run.path.name}",
                allowed=(0, 1),
            )
            result[judge] = compared(run, judge.rstrip("/").split("/")[-1])
            print(name, judge, result[judge], flush=True)
        record_entry("teacher-baselines", name, {"commands": study.commands, "judges": result})


if __name__ == "__main__":
    main()
