"""Measures the built-in judge: the rows of `eval/results/built-in.json`.

Most measures need the finished judge alone. Those of experts' scores and of the second stage need what its training
left in WORK: five heads, each from four fifths of the questions, and readers that have not seen a fold. The weights of
the verdicts have seen LiveQA's levels. What WORK keeps of the readers' output serves again: after a new reader, delete
`features-*` and `pieces-*` there.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from built_in_data import read_sets
from reader_judge import Made, prepare
from reader_lessons import Material
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
from medjudge.models.hardware import fast_dtype
from medjudge.records import Answer, PhysicianScore, Question
from medjudge.scale import USABLE_FROM
from medjudge.store import read_records

PROBED = 200
"""How many answers each probe changes at most."""
Rows = dict[str, Any]
"""Rows of the table by name."""


def record_rows(measures: Mapping[str, Callable[[], Rows]], judge: Path, work: Path, again: bool) -> None:
    """Takes measures and writes their rows.

    Args:
        measures: By name.
        judge: The folder of the judge that they measure.
        work: Keeps the rows in its folder `measured`.
        again: Whether measures are taken again whose rows of this judge are there.
    """
    weights = weights_sha256(judge)
    for name, measure in measures.items():
        kept = work / "measured" / f"{name.replace(' ', '-')}.json"
        if again or not kept.exists() or json.loads(kept.read_text(encoding="utf-8"))["judge"] != weights:
            kept.parent.mkdir(exist_ok=True)
            command = {"command": f'python eval/built_in.py DATA WORK "{name}"'}
            rows = {row: {**circumstances(), **command, **table} for row, table in measure().items()}
            write_whole(kept, json.dumps({"judge": weights, "rows": rows}))
        for row, table in json.loads(kept.read_text(encoding="utf-8"))["rows"].items():
            record_entry("built-in", row, table)


def weights_sha256(folder: Path) -> str:
    """Of all weights of a judge."""
    return sha256("".join(map(file_sha256, sorted(folder.rglob("*.safetensors")))).encode()).hexdigest()


def experts(made: Made) -> Rows:
    """MEDIQA's and LiveQA's answers by heads that have not seen their questions, and MEDIQA's validation file."""
    return folds_table(made.seen, made.material) | {
        "liveqa folds with references and threshold": with_references_table(made.head, made.seen, made.material),
        "records of other authors": records_table(made.seen),
        "mediqa validation": validation_table(made.head, made.seen, made.material),
        "mediqa validation without alarms": validation_table(made.head, quiet(made.seen), made.material),
    }


def second_stage(made: Made) -> Rows:
    """HealthVer and points in other words, by readers of the second stage that have not seen a fold of either."""
    readers = without_folds(made.material.work, made.material)
    return {
        "healthver folds": healthver_table(readers, made.material),
        "points in other words": words_table(readers, made.material),
    }


def verdicts(folder: Path, data: Path, work: Path) -> Rows:
    """Points whose verdict is known, and how many points better answers meet."""
    prepare(data, work, ("claims-held", "contrasts-held", "scored"))
    judge, material = finished(folder), Material(work)
    assert judge.points is not None
    return {
        "rule claims": claims_table(judge.reader, judge.points, material),
        "contrasts": contrasts_table(judge.points, material),
        "liveqa, points met": coverage_table(judge.reader, judge.points, material),
    }


def finished(folder: Path) -> ReaderJudge:
    """The finished judge, read from its folder."""
    judge = load_judge(folder, "built-in", torch.device("cpu"))
    assert isinstance(judge, ReaderJudge)
    return judge


def with_format(name: str) -> str:
    """The name of a row of times: the format of this machine's matrix products is its second part."""
    return f"{name}, {str(fast_dtype(torch.device('cpu'))).removeprefix('torch.')}"


def sample(folder: Path) -> Rows:
    """The bundled sample: agreement with its constructed levels, with intervals over questions, and the time."""
    bundled, judge = sample_folder(), finished(folder)
    questions = {question.id: question for question in read_records(bundled / "questions.jsonl", Question)}
    scores = read_records(bundled / "physician_scores.jsonl", PhysicianScore)
    constructed = {(score.question_id, score.model): score.level for score in scores}
    answers = read_records(bundled / "answers.jsonl", Answer)
    began = time.monotonic()
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
    }
    return {"sample": table, with_format("sample"): {"answers": len(answers), "seconds": round(seconds, 1)}}


def costs(folder: Path, data: Path, work: Path) -> Rows:
    """Time for real answers, and beside the ordinal judge."""
    judge = finished(folder)
    beside = cost_beside_ordinal(judge, read_sets(work).validation[:60])
    return {
        with_format("cost"): cost(judge, data, 100, seed=0),
        with_format("cost beside the ordinal judge"): beside,
    }


def quickstart(work: Path) -> Rows:
    """The time of `medjudge quickstart`, which starts with the judge in the package, without a network."""
    folder = work / "quickstart"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command, began = [str(Path(sys.executable).with_name("medjudge")), "quickstart"], time.monotonic()
    subprocess.run(command, cwd=folder, env=os.environ | {"HF_HUB_OFFLINE": "1"}, stdout=sys.stderr, check=True)
    return {with_format("quickstart"): {"seconds": round(time.monotonic() - began, 1)}}


OF_ITS_TRAINING: dict[str, Callable[[Made], Rows]] = {"experts": experts, "second stage": second_stage}
"""Measures that need what the training left in WORK."""
OF_THE_JUDGE: dict[str, Callable[[Path, Path, Path], Rows]] = {
    "verdicts": verdicts,
    "llmeval-2": lambda judge, data, work: {"llmeval-2": llmeval2(finished(judge), data, per_subject=60, seed=0)},
    "llmeval-med": lambda judge, data, work: {
        "llmeval-med": llmeval_med(finished(judge), data, per_category=80, seed=0)
    },
    "probes of mediqa": lambda judge, data, work: {
        "probes, mediqa validation": probes(finished(judge), read_sets(work).validation, PROBED)
    },
    "probes of llmeval-2": lambda judge, data, work: {
        "probes, llmeval-2": probes(finished(judge), llmeval2_lines(data, 640, seed=0), PROBED)
    },
    "cost": costs,
    "sample": lambda judge, data, work: sample(judge),
    "quickstart": lambda judge, data, work: quickstart(work),
}
"""Measures of a judge's folder by DATA and WORK, which holds the converted sets."""
