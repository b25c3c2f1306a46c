"""Measures the built-in judge: the rows of `eval/results/built-in.json`.

The five heads that are measured on experts' scores each come from four fifths of the questions; the weights of the
verdicts have seen LiveQA's levels. Measures of experts' scores and of verdicts are taken of what WORK keeps of the
readers' output: after a new reader, delete `features-*` and `pieces-*` there.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from built_in_data import read_sets
from reader_judge import Made
from reader_measures import (
    cost,
    cost_beside_ordinal,
    interval,
    judged,
    llmeval2,
    llmeval2_lines,
    llmeval_med,
    probes,
    untrained,
)
from reader_tables import (
    claims_table,
    contrasts_table,
    coverage_table,
    folds_table,
    healthver_table,
    quiet,
    records_table,
    validation_table,
    with_references_table,
    words_table,
)
from reader_verdicts import without_folds
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score
from study import circumstances, record_entry

from medjudge.benchmark.sample import sample_folder
from medjudge.files import file_sha256, write_whole
from medjudge.judge.folder import load_judge
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.records import Answer, PhysicianScore, Question
from medjudge.scale import USABLE_FROM
from medjudge.store import read_records

PROBED = 200
"""How many answers each probe changes at most."""
Measure = Callable[[Made, Path], dict[str, Any]]
"""Gives rows by name; its second argument is DATA."""


def record_rows(made: Made, data: Path, names: Sequence[str]) -> None:
    """Takes the measures that are named, or those that WORK does not keep of this judge yet, and writes their rows."""
    judge = weights_sha256(made.folder)
    for name in names or MEASURES:
        kept = made.material.work / "measured" / f"{name.replace(' ', '-')}.json"
        if names or not kept.exists() or json.loads(kept.read_text(encoding="utf-8"))["judge"] != judge:
            kept.parent.mkdir(exist_ok=True)
            command = {"command": f'python eval/built_in.py DATA WORK "{name}"'}
            rows = {row: {**circumstances(), **command, **table} for row, table in MEASURES[name](made, data).items()}
            write_whole(kept, json.dumps({"judge": judge, "rows": rows}))
        for row, table in json.loads(kept.read_text(encoding="utf-8"))["rows"].items():
            record_entry("built-in", row, table)


def weights_sha256(folder: Path) -> str:
    """Of all weights of a judge."""
    return sha256("".join(map(file_sha256, sorted(folder.rglob("*.safetensors")))).encode()).hexdigest()


def experts(made: Made, data: Path) -> dict[str, Any]:
    """MEDIQA's and LiveQA's answers by heads that have not seen their questions, and MEDIQA's validation file."""
    return folds_table(made.seen, made.material) | {
        "liveqa folds with references and threshold": with_references_table(made.head, made.seen, made.material),
        "records of other authors": records_table(made.seen),
        "mediqa validation": validation_table(made.head, made.seen, made.material),
        "mediqa validation without alarms": validation_table(made.head, quiet(made.seen), made.material),
    }


def second_stage(made: Made, data: Path) -> dict[str, Any]:
    """HealthVer and points in other words, by readers of the second stage that have not seen a fold of either."""
    readers = without_folds(made.material.work, made.material)
    return {
        "healthver folds": healthver_table(readers, made.material),
        "points in other words": words_table(readers, made.material),
    }


def verdicts(made: Made, data: Path) -> dict[str, Any]:
    """Points whose verdict is known, and how many points better answers meet."""
    return {
        "rule claims": claims_table(made.reader, made.points, made.material),
        "contrasts": contrasts_table(made.points, made.material),
        "liveqa, points met": coverage_table(made.reader, made.points, made.material),
    }


def finished(made: Made) -> ReaderJudge:
    """The finished judge, read from its folder."""
    judge = load_judge(made.folder, "built-in", torch.device("cpu"))
    assert isinstance(judge, ReaderJudge)
    return judge


def sample(made: Made, data: Path) -> dict[str, Any]:
    """The bundled sample: agreement with its constructed levels, with intervals over questions, and the time."""
    folder = sample_folder()
    questions = {question.id: question for question in read_records(folder / "questions.jsonl", Question)}
    scores = read_records(folder / "physician_scores.jsonl", PhysicianScore)
    constructed = {(score.question_id, score.model): score.level for score in scores}
    answers = read_records(folder / "answers.jsonl", Answer)
    judge, began = finished(made), time.monotonic()
    judgments = judged(judge, [(questions[answer.question_id], answer) for answer in answers])
    seconds = time.monotonic() - began
    near = untrained(judge, [(questions[answer.question_id], answer) for answer in answers])
    near_level = np.array([constructed[answer.question_id, answer.model] for answer in answers])
    read = {key: each for key, each in judgments.items() if each.probabilities is not None}
    groups = [question for question, _ in read]
    level = np.array([constructed[key] for key in read])
    called = np.array([each.score or 0 for each in read.values()]) >= USABLE_FROM
    expected = np.array([each.probabilities for each in read.values()]) @ np.arange(1, 6)
    usable = level >= USABLE_FROM
    language = np.array([questions[question].language for question, _ in read])
    table = {
        "answers": len(judgments),
        "unscored": len(judgments) - len(read),
        "constructed usable": round(float(usable.mean()), 4),
        "called usable": interval(groups, lambda at: called[at].mean()),
        "called usable by language": {
            each: {
                name: f"{int((called & of_level)[language == each].sum())} of {int(of_level[language == each].sum())}"
                for name, of_level in (("usable", usable), ("unusable", ~usable))
            }
            for each in ("en", "zh")
        },
        "cohen_kappa": interval(groups, lambda at: cohen_kappa_score(usable[at], called[at])),
        "spearman": interval(groups, lambda at: spearmanr(expected[at], level[at])[0]),
        "spearman of the untrained nearness": interval(
            [answer.question_id for answer in answers], lambda at: spearmanr(near[at], near_level[at])[0]
        ),
        "seconds": round(seconds, 1),
    }
    return {"sample": table}


def costs(made: Made, data: Path) -> dict[str, Any]:
    """Time for real answers, and beside the ordinal judge."""
    judge = finished(made)
    return {
        "cost": cost(judge, data, 100, seed=0),
        "cost beside the ordinal judge": cost_beside_ordinal(judge, read_sets(made.material.work).validation[:60]),
    }


def quickstart(made: Made, data: Path) -> dict[str, Any]:
    """The time of `medjudge quickstart`, which starts with the judge in the package, without a network."""
    folder = made.material.work / "quickstart"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command, began = [str(Path(sys.executable).with_name("medjudge")), "quickstart"], time.monotonic()
    subprocess.run(command, cwd=folder, env=os.environ | {"HF_HUB_OFFLINE": "1"}, stdout=sys.stderr, check=True)
    return {"quickstart": {"seconds": round(time.monotonic() - began, 1)}}


MEASURES: dict[str, Measure] = {
    "experts": experts,
    "second stage": second_stage,
    "verdicts": verdicts,
    "llmeval-2": lambda made, data: {"llmeval-2": llmeval2(finished(made), data, per_subject=60, seed=0)},
    "llmeval-med": lambda made, data: {"llmeval-med": llmeval_med(finished(made), data, per_category=80, seed=0)},
    "probes of mediqa": lambda made, data: {
        "probes, mediqa validation": probes(finished(made), read_sets(made.material.work).validation, PROBED)
    },
    "probes of llmeval-2": lambda made, data: {
        "probes, llmeval-2": probes(finished(made), llmeval2_lines(data, 640, seed=0), PROBED)
    },
    "cost": costs,
    "sample": sample,
    "quickstart": quickstart,
}
