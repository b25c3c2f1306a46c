"""GPT-4's judgments and people's scores distilled into a local judge: LLMEval-2, 8,800 answers scored by both.

    python eval/real_distillation.py DATA WORK

DATA holds llmeval-2/. WORK is a folder for intermediate files; a command that finished there is not repeated. The
result is eval/results/real-distillation.json:

1. teacher: GPT-4 against people, by subject and type of question, and the order of the models.
2. calibration: four maps from GPT-4's score to people's levels, on conversations that they did not see.
"""

import json
import sys
from pathlib import Path
from typing import Any

from real_calibration import TEACHER, calibrations, scored_by_both
from study import REPOSITORY, Study

MEASURES = ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman", "bias", "n")
RUN = "llmeval2"


def main(data: Path, work: Path) -> None:
    """Runs what is not finished yet, and writes the results."""
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    study.run(f"medjudge data convert llmeval2 $DATA/llmeval-2/human-score $DATA/llmeval-2/gpt-score --out {RUN}")
    results = {"teacher": teacher(study), "calibration": calibrations(scored_by_both(work / RUN))}
    study.write("real-distillation", results)
    print(json.dumps(summary(results), indent=2))


def teacher(study: Study) -> dict[str, Any]:
    """GPT-4 against people."""
    found = study.run(f"medjudge validate {RUN} --judge {TEACHER} --json", json_output=True, allowed=(0, 1))

    def row(measures: dict[str, Any]) -> dict[str, Any]:
        return {name: measures[name] for name in MEASURES}

    return {
        "overall": row(found["overall"]),
        "by_subject": {name: row(measures) for name, measures in found["by_category"].items()},
        "by_subject_and_type": {name: row(measures) for name, measures in found["by_subcategory"].items()},
        "by_model": {name: row(measures) for name, measures in found["by_model"].items()},
        "order_of_models": found["ranking"],
    }


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """The few numbers that the screen shows."""
    by_subject = results["teacher"]["by_subject"]
    return {
        "teacher's kappa": results["teacher"]["overall"]["cohen_kappa"],
        "its bias by subject": {name: row["bias"]["value"] for name, row in by_subject.items()},
        "log loss of held-out labels": {name: row["log_loss"]["after"] for name, row in results["calibration"].items()},
    }


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/real_distillation.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
