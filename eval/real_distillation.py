"""GPT-4's judgments and people's scores distilled into a local judge: LLMEval-2, 8,800 answers scored by both.

    python eval/real_distillation.py DATA WORK [--unseen DIR] [--config FILE] [--prices FILE] [--minutes 2] [--hour 40]

DATA holds llmeval-2/. WORK is a folder for intermediate files; what finished there is not repeated. The result is
eval/results/real-distillation.json:

1. teacher: GPT-4 against people, by subject and type of question, and the order of the models.
2. calibration: four maps from GPT-4's score to people's levels, on conversations that they did not see.
3. judges: local judges by whose labels they learned from, on unseen questions, models and subjects; and recipe trials.
   An adapter on the same encoder is trained on one split.
4. few scores: errors of the models' rates and of their order, by how many answers people scored; two plots in docs/.
5. cascade: the local judge, then GPT-4, then people; agreement against cost.

--unseen prints the same tables for a converted folder with people's scores and GPT-4's that the study never saw: its
judges learn from all of LLMEval-2. --config trains a judge of that config on four fifths of the questions instead,
through `medjudge distill` and `medjudge train`, and validates it on the others. Both write nothing but WORK.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from real_calibration import TEACHER, calibrations, scored_by_both
from real_cascade import Costs, cascade_table
from real_cells import Cell, Cells, Elsewhere, judges_table, teacher_row
from real_config import trained_by
from real_few import few_table
from real_material import SEEDS, material_of
from real_paired import levels_of
from real_plots import write_plots
from real_trials import trials_table
from study import REPOSITORY, Study

from medjudge.chat_api.prices import price_of, read_prices
from medjudge.records import Judgment
from medjudge.store import Run, write_records

MEASURES = ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman", "bias", "n")
RUN, LOCAL = "llmeval2", "distilled"
PRICE_OF = "gpt-4o"
"""The model whose price stands for GPT-4's."""
ADAPTER = REPOSITORY / "configs" / "judges" / "e5-ordinal.yaml"
_BEST = Cell("questions", "both", 3200, 0)


def main(options: argparse.Namespace) -> None:
    """Runs what is not finished yet, and writes the results."""
    work: Path = options.WORK
    study = Study(work, DATA=options.DATA.resolve(), MEDJUDGE=REPOSITORY)
    prices = read_prices(options.prices)
    costs = Costs(price_of(PRICE_OF, prices, options.prices), options.minutes, options.hour)
    study.run(f"medjudge data convert llmeval2 $DATA/llmeval-2/human-score $DATA/llmeval-2/gpt-score --out {RUN}")
    if options.config:
        print(json.dumps(trained_by(study, work / RUN, options.config), indent=2))
        return
    cells = Cells(material_of(work / RUN, work, work / "axes.npz"), work)
    if options.unseen:
        print(json.dumps(unseen(study, cells, options.unseen.resolve(), costs), indent=2))
        return
    results = {
        "command": "python eval/real_distillation.py DATA WORK",
        "seeds": list(SEEDS),
        "teacher": kept(study, "teacher", lambda: teacher(study, RUN)),
        "calibration": kept(study, "calibration", lambda: calibrations(scored_by_both(work / RUN))),
        **judged(study, cells, costs),
        "trials": kept(study, "trials", lambda: trials_table(cells)),
        "adapter": kept(study, "adapter", lambda: trained_by(study, work / RUN, ADAPTER)),
    }
    results["plots"] = write_plots(results["few scores"], REPOSITORY / "docs")
    study.write("real-distillation", results)
    results["validated"] = kept(study, "validated", lambda: validated(study, cells))
    results["seconds"] = cells.seconds
    study.write("real-distillation", results)
    print(json.dumps(summary(results), indent=2))


def judged(study: Study, cells: Cells, costs: Costs) -> dict[str, Any]:
    """Parts 3 to 5, but for the trials."""
    return {
        "judges": kept(study, "judges", lambda: {"gpt-4": teacher_row(cells.material), **judges_table(cells)}),
        "few scores": few_table(cells),
        "cascade": cascade_table(cells, costs),
    }


def kept(study: Study, name: str, make: Callable[[], Any]) -> Any:
    """A part of the results with the commands that it took, made once."""
    path = study.folder / "parts" / f"{name}.json"
    if not path.exists():
        before = len(study.commands)
        made = {"result": make(), "commands": study.commands[before:]}
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(made, ensure_ascii=False))
        del study.commands[before:]
    part = json.loads(path.read_text())
    study.commands += part["commands"]
    return part["result"]


def teacher(study: Study, run: str) -> dict[str, Any]:
    """GPT-4 against people."""
    found = study.run(f"medjudge validate {run} --judge {TEACHER} --json", json_output=True, allowed=(0, 1))

    def row(measures: dict[str, Any]) -> dict[str, Any]:
        return {name: measures[name] for name in MEASURES}

    return {
        "overall": row(found["overall"]),
        "by_subject": {name: row(measures) for name, measures in found["by_category"].items()},
        "by_subject_and_type": {name: row(measures) for name, measures in found["by_subcategory"].items()},
        "by_model": {name: row(measures) for name, measures in found["by_model"].items()},
        "order_of_models": found["ranking"],
    }


def validated(study: Study, cells: Cells) -> dict[str, Any]:
    """The best judge by the command that a user would type: its judgments are written into the run."""
    run, probabilities = Run(study.folder / RUN), cells.probabilities(_BEST)
    levels = levels_of(probabilities).tolist()
    judgments = [
        Judgment(**key._asdict(), judge=LOCAL, score=level, expected=_mean(row), probabilities=row)
        for key, level, row in zip(cells.material.keys, levels, _rounded(probabilities.tolist()), strict=True)
    ]
    write_records(run.judgments_file(LOCAL), judgments)
    command = f"medjudge validate {RUN} --judge {LOCAL} --teacher {TEACHER} --margin 0.02 --json"
    found = study.run(command, json_output=True, allowed=(0, 1))
    return {"overall": {name: found["overall"][name] for name in MEASURES}, "teacher": found["teacher"]}


def _rounded(rows: list[list[float]]) -> list[list[float]]:
    return [[round(value / sum(row), 6) for value in row] for row in rows]


def _mean(row: list[float]) -> float:
    return sum(level * value for level, value in enumerate(row, 1)) / sum(row)


def unseen(study: Study, home: Cells, folder: Path, costs: Costs) -> dict[str, Any]:
    """The tables for answers that nothing was learned from; what they take is kept in WORK by the folder's name."""
    work = study.folder / f"unseen-{folder.name}"
    work.mkdir(exist_ok=True)
    material = material_of(folder, work, study.folder / "axes.npz")
    own = Study(work, DIR=folder)
    return {
        "teacher": kept(own, "teacher", lambda: teacher(own, "$DIR")),
        "calibration": calibrations(scored_by_both(folder)),
        **judged(own, Elsewhere(home.material, material, work), costs),
    }


def summary(results: dict[str, Any]) -> dict[str, Any]:
    """The few numbers that the screen shows."""
    by_subject = results["teacher"]["by_subject"]
    shown: dict[str, Any] = {
        "teacher's kappa": results["teacher"]["overall"]["cohen_kappa"],
        "its bias by subject": {name: row["bias"]["value"] for name, row in by_subject.items()},
        "log loss of held-out labels": {name: row["log_loss"]["after"] for name, row in results["calibration"].items()},
    }
    for unseen_what in ("unseen questions", "unseen models", "unseen subjects"):
        for name, row in results["judges"][unseen_what].items():
            shown[f"{unseen_what}, {name}"] = {
                "usable agreement less gpt-4's": row["difference from gpt-4"]["usable_agreement"],
                "share of its kappa": row["share of gpt-4's kappa"],
            }
    return shown


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("DATA", type=Path)
    parser.add_argument("WORK", type=Path)
    parser.add_argument("--unseen", type=Path, metavar="DIR", help="a converted folder with both scores")
    parser.add_argument("--config", type=Path, metavar="FILE", help="a judge's training config")
    parser.add_argument(
        "--prices", type=Path, metavar="FILE", help=f"prices of tokens; {PRICE_OF}'s stands for GPT-4's"
    )
    parser.add_argument("--minutes", type=float, default=2.0, help="that a person takes for an answer")
    parser.add_argument("--hour", type=float, default=40.0, help="what a person's hour costs, in USD")
    return parser.parse_args()


if __name__ == "__main__":
    main(_options())
