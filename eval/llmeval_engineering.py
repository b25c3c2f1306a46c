"""An engineering run over all of LLMEval-Med: every question answered three times and judged, by tiny random models.

    python eval/llmeval_engineering.py DATA WORK

DATA is the folder with LLMEval-Med's dataset.json, WORK an empty folder. The models have two layers and random weights,
so the scores mean nothing; the run shows that every question passes every station, and what resources that takes. The
result is eval/results/llmeval-engineering.json.
"""

import json
import sys
from pathlib import Path
from typing import Any

from study import REPOSITORY, Study


def main(data: Path, work: Path) -> None:
    """Runs the study."""
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    study.run("python $MEDJUDGE/eval/tiny_models.py models")
    checked = study.run("medjudge data check $DATA/dataset.json --json", json_output=True)
    sample = "$(python -c 'from medjudge.benchmark.sample import sample_folder; print(sample_folder())')"
    study.run(f'medjudge distill "{sample}" --out data')
    study.run(
        "accelerate launch --cpu --num_processes 1 $MEDJUDGE/recipes/train_judge.py --config"
        " $MEDJUDGE/configs/judges/tiny-generative.yaml --model_name_or_path models/tiny-lm"
    )
    judged = "medjudge eval --benchmark $DATA/dataset.json --run run --offline --json"
    # Exit 1: some answers stay unscored, which is counted below.
    first = study.run(
        f"{judged} --model models/tiny-lm --samples 3 --max-new-tokens 64 --judge judges/tiny-generative",
        json_output=True,
        allowed=(0, 1),
    )
    second = study.run(f"{judged} --judge similarity", json_output=True, allowed=(0, 1))
    study.run("medjudge report run")
    lines = (work / "run" / "answers.jsonl").read_text(encoding="utf-8").splitlines()
    answers = [json.loads(line) for line in lines]
    study.write(
        "llmeval-engineering",
        {
            "note": "Engineering run: two-layer models with random weights; the rates mean nothing.",
            "benchmark": {name: checked[name] for name in ("questions", "conversations", "categories")},
            "oddities": len(checked["oddities"]),
            "answers": len(answers),
            "answers_not_generated": sum(not answer["text"] for answer in answers),
            "judges": {
                "tiny-generative": _summary(work, "tiny-generative"),
                "similarity": _summary(work, "similarity"),
            },
            "rates": {"tiny-generative": _rates(first), "similarity": _rates(second)},
        },
    )


def _summary(work: Path, judge: str) -> dict[str, object]:
    lines = (work / "run" / "judgments" / f"{judge}.jsonl").read_text(encoding="utf-8").splitlines()
    judgments = [json.loads(line) for line in lines]
    reasons: dict[str, int] = {}
    for judgment in judgments:
        if judgment["error"]:
            reasons[judgment["error"]] = reasons.get(judgment["error"], 0) + 1
    return {
        "judgments": len(judgments),
        "unscored": reasons,
        "answers_cut": sum(judgment["answer_tokens_cut"] > 0 for judgment in judgments),
    }


def _rates(scores: dict[str, Any]) -> dict[str, float]:
    (rates,) = scores["models"].values()
    return {column: rates[column]["rate"] for column in ("OP", "MK", "MLU", "MR", "MSE", "MTG")}


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/llmeval_engineering.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
