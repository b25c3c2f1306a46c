"""Measures the built-in judge: the rows of `eval/results/built-in.json`.

Most measures need the finished judge alone. Those of experts' scores and of the second stage need what its training
left in WORK: five heads, each from four fifths of the questions, and readers that have not seen a fold. The weights of
the verdicts have seen LiveQA's levels. What WORK keeps of the readers' output serves again: after a new reader or rule,
delete `features-*` and `pieces-*` there.
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
    points_of_full_marks,
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
from study import REPOSITORY, circumstances, record_entry

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
RULES = ("judge", "text", "languages")
"""The parts of the package that hold the judge's rules."""
_SOURCES = {".py", ".yaml"}


def record_rows(measures: Mapping[str, Callable[[], Rows]], judge: Path, work: Path, again: bool) -> None:
    """Takes measures and writes their rows.

    Args:
        measures: By name.
        judge: The folder of the judge that they measure.
        work: Keeps the rows in its folder `measured`.
        again: Whether measures are taken again whose rows of this judge and its rules are there.
    """
    measured = judge_sha256(judge)
    for name, measure in measures.items():
        kept = work / "measured" / f"{name.replace(' ', '-')}.json"
        if again or not kept.exists() or json.loads(kept.read_text(encoding="utf-8"))["judge"] != measured:
            kept.parent.mkdir(exist_ok=True)
            command = {"command": f'python eval/built_in.py DATA WORK "{name}"'}
            rows = {row: {**circumstances(), **command, **table} for row, table in measure().items()}
            write_whole(kept, json.dumps({"judge": measured, "rows": rows}))
        for row, table in json.loads(kept.read_text(encoding="utf-8"))["rows"].items():
            record_entry("built-in", row, table)


def judge_sha256(folder: Path) -> str:
    """Of all weights of a judge, and of the rules beside them."""
    rules = [
        path for part in RULES for path in (REPOSITORY / "medjudge" / part).rglob("*.*") if path.suffix in _SOURCES
    ]
    return sha256("".join(map(file_sha256, sorted([*folder.rglob("*.safetensors"), *rules]))).encode()).hexdigest()


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


def sample_work() -> tuple[list[tuple[Question, Answer]], np.ndarray]:
    """The bundled sample's answers with their questions, and their constructed levels, (n,)."""
    bundled = sample_folder()
    questions = {question.id: question for question in read_records(bundled / "questions.jsonl", Question)}
    scores = read_records(bundled / "physician_scores.jsonl", PhysicianScore)
    constructed = {(score.question_id, score.model): score.level for score in scores}
    answers = read_records(bundled / "answers.jsonl", Answer)
    work = [(questions[answer.question_id], answer) for answer in answers]
    return work, np.array([constructed[answer.question_id, answer.model] for answer in answers])


def sample(folder: Path) -> Rows:
    """The bundled sample: agreement with its constructed levels, with intervals over questions, and the time."""
    judge = finished(folder)
    work, constructed = sample_work()
    began = time.monotonic()
    judgments = list(judged(judge, work).values())
    seconds = time.monotonic() - began
    near = untrained(judge, work)
    scored = np.array([each.probabilities is not None for each in judgments])
    groups = [question.id for (question, _), taken in zip(work, scored, strict=True) if taken]
    level = constructed[scored]
    called = np.array([each.score or 0 for each in judgments])[scored] >= USABLE_FROM
    expected = np.array([each.probabilities for each in judgments if each.probabilities]) @ np.arange(1, 6)
    usable = level >= USABLE_FROM
    language = np.array([question.language for question, _ in work])[scored]
    table = {
        "answers": len(judgments),
        "unscored": int((~scored).sum()),
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
            [question.id for question, _ in work], lambda at: spearmanr(near[at], constructed[at])[0]
        ),
    }
    return {"sample": table, with_format("sample"): {"answers": len(work), "seconds": round(seconds, 1)}}


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
    "llmeval-2 points": lambda judge, data, work: {
        "llmeval-2, points met": points_of_full_marks(finished(judge), data)
    },
    "llmeval-med": lambda judge, data, work: {"llmeval-med": llmeval_med(finished(judge), data, seed=0)},
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
