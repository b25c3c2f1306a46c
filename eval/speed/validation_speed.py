"""The time for the agreement of a whole benchmark, beside the same bootstrap looped over scikit-learn's functions.

    python eval/speed/validation_speed.py

26,013 judgments (13 models, 667 questions in 571 conversations, three answers each; 5 categories, 27 subcategories;
random levels), every measure with its interval from 10,000 resamples, overall and for each category, subcategory and
model. The peer draws the same conversations, takes their rows, and calls scikit-learn and scipy once a resample. Both
are timed in turns in one process; the result is eval/results/validation-speed.json.
"""

import resource
import statistics
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.stats import kendalltau, pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score, f1_score, mean_absolute_error

from eval.lib.study import record
from medjudge.scheme import LLMEVAL_MED
from medjudge.statistics.bootstrap import RESAMPLES
from medjudge.validation.agreement import measures_of
from medjudge.validation.answers import Pairs

QUESTIONS, CONVERSATIONS, MODELS, SAMPLES, SUBCATEGORIES = 667, 571, 13, 3, 27
TURNS = 3
PEER_RESAMPLES = 5


def whole_benchmark(seed: int = 0) -> Pairs:
    """Random scores of the size of the paper's benchmark."""
    generator = np.random.default_rng(seed)
    question = np.repeat(np.arange(QUESTIONS), MODELS * SAMPLES)
    n = len(question)
    subcategory = question % SUBCATEGORIES
    physician = generator.integers(1, 6, n)
    expected = np.clip(physician + generator.normal(0, 1, n), 1, 5)
    return Pairs(
        question_id=question.astype(str).astype(object),
        model=np.tile(np.repeat(np.arange(MODELS), SAMPLES), QUESTIONS).astype(str).astype(object),
        sample=np.tile(np.arange(SAMPLES), QUESTIONS * MODELS),
        category=np.array(LLMEVAL_MED.category_ids, dtype=object)[subcategory % len(LLMEVAL_MED.category_ids)],
        subcategory=subcategory.astype(str).astype(object),
        difficulty=np.full(n, "", dtype=object),
        language=np.full(n, "zh", dtype=object),
        conversation=(question % CONVERSATIONS).astype(str).astype(object),
        judge=np.round(expected).astype(int),
        expected=expected,
        usable_probability=np.full(n, np.nan),
        physician=physician,
        unsafe=generator.random(n) < 0.05,
        raters=physician[:, None].astype(float),
        teacher=np.full(n, np.nan),
    )


def parts(pairs: Pairs) -> dict[str, Pairs]:
    """Overall, categories, subcategories and models."""
    columns = {"category": pairs.category, "subcategory": pairs.subcategory, "model": pairs.model}
    named = {
        f"{kind} {name}": pairs.only(column == name) for kind, column in columns.items() for name in sorted(set(column))
    }
    return {"overall": pairs, **named}


def with_counts(parts: Iterable[Pairs]) -> float:
    """Seconds for all measures of each part, 10,000 resamples."""
    start = time.perf_counter()
    for part in parts:
        measures_of(part)
    return time.perf_counter() - start


def overall_with_rows(pairs: Pairs, seed: int) -> float:
    """Seconds a resample for the measures that scikit-learn and scipy have, overall, by rows."""
    generator = np.random.default_rng(seed)
    _, member = np.unique(pairs.conversation, return_inverse=True)
    rows_of = [np.flatnonzero(member == cluster) for cluster in range(member.max() + 1)]
    start = time.perf_counter()
    for _ in range(PEER_RESAMPLES):
        rows = np.concatenate([rows_of[cluster] for cluster in generator.integers(0, len(rows_of), len(rows_of))])
        judge, physician, expected = pairs.judge[rows], pairs.physician[rows], pairs.expected[rows]
        usable, called = physician >= 4, judge >= 4
        cohen_kappa_score(called, usable)
        cohen_kappa_score(judge, physician, weights="quadratic")
        f1_score(usable, called)
        f1_score(~usable, ~called)
        mean_absolute_error(physician, judge)
        spearmanr(expected, physician)
        kendalltau(expected, physician)
        pearsonr(expected, physician)
        float((usable == called).mean())
        float((judge - physician).mean())
    return (time.perf_counter() - start) / PEER_RESAMPLES


def main() -> None:
    """Times both in turns and writes the result."""
    pairs = whole_benchmark()
    timed: dict[str, list[float]] = {"counts": [], "rows": [], "everything": []}
    for turn in range(TURNS):
        timed["counts"].append(with_counts([pairs]) / RESAMPLES)
        timed["rows"].append(overall_with_rows(pairs, turn))
        timed["everything"].append(with_counts(parts(pairs).values()))
    median = {name: statistics.median(values) for name, values in timed.items()}
    results: dict[str, Any] = {
        "command": "python eval/speed/validation_speed.py",
        "judgments": len(pairs.judge),
        "resamples": RESAMPLES,
        "parts": len(parts(pairs)),
        "seconds_for_all_parts": {"median": round(median["everything"], 1), "turns": timed["everything"]},
        "seconds_a_resample_counts": {"median": median["counts"], "turns": timed["counts"]},
        "seconds_a_resample_rows": {"median": median["rows"], "turns": timed["rows"]},
        "times_faster_a_resample": round(median["rows"] / median["counts"]),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
    }
    record("validation-speed", results)


if __name__ == "__main__":
    main()
