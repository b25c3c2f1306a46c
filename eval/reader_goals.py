"""What the built-in judge was to reach, and what it reaches, from the rows of `eval/results/built-in.json`.

A goal is met by the figure itself, not by its interval. Figures and shares are rounded to the judge's disadvantage.
"""

from collections.abc import Iterator, Mapping
from math import ceil, floor
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.judge.open import built_in_folder

Results = Mapping[str, Any]
CATEGORIES = ("MK", "MLU", "MR", "MTG")
HARMLESS = ("filler", "language-wrapper", "quoted-rubric", "instruction", "authority", "doubled")
TIMES = ("sample", "quickstart", "cost", "cost beside the ordinal judge")
"""The rows that there are for each number format."""
ENOUGH_CLAIMS = 200
"""A kind of claims with fewer has no goal of its own."""


class Goal(NamedTuple):
    """One goal: where it is measured, what was wanted, what is reached."""

    measured_on: str
    wanted: str
    reached: str
    met: bool


def goals(results: Results) -> Iterator[Goal]:
    """All goals in the order of the results."""
    for name, label, agreement, spearman in (
        ("mediqa folds", "MEDIQA's training questions, five folds by three seeds", 0.84, 0.80),
        ("mediqa validation", "MEDIQA's validation file", 0.82, 0.83),
    ):
        yield figure(f"{label}: agreement on usable", results[name]["usable_agreement"], agreement)
        yield figure(f"{label}: Spearman", results[name]["spearman"], spearman)
    claims = results["rule claims"]
    yield figure("held-out claims by rule: AUC", claims["all"]["auc"], 0.95)
    many = {
        name: row["auc"]
        for name, row in claims.items()
        if isinstance(row, dict) and row.get("claims", 0) >= ENOUGH_CLAIMS and name not in ("all", "en", "zh")
    }
    lowest = min(many, key=lambda name: many[name]["value"])
    yield figure(f"the lowest AUC of a kind with {ENOUGH_CLAIMS} claims ({lowest})", many[lowest], 0.90)
    yield figure("HealthVer, five folds by claim: macro-F1", results["healthver folds"]["macro_f1"], 0.60)
    yield figure("LLMEval-2: AUC of full marks", results["llmeval-2"]["all"], 0.72)
    yield from _of_llmeval_med(results["llmeval-med"])
    unscored = results["sample"]["unscored"]
    yield Goal("the sample: unscored answers", "0", str(unscored), unscored == 0)
    yield from _of_probes(results)
    yield from _of_cost(results)


def _of_llmeval_med(table: Results) -> Iterator[Goal]:
    for variant, label, wanted, at_least in (
        ("reference", "the reference itself", 0.90, True),
        ("reworded", "the reference reworded", 0.85, True),
        ("of another question", "the reference of another question", 0.05, False),
        ("changed facts", "the reference with changed facts", 0.25, False),
    ):
        rows = {name: table[variant][name] for name in CATEGORIES}
        worst = (min if at_least else max)(rows, key=lambda name: rows[name]["value"])
        row = rows[worst]
        yield share(
            f"LLMEval-Med, {label}: usable in the worst category, {worst} ({row['answers']})", row, wanted, at_least
        )


def _of_probes(results: Results) -> Iterator[Goal]:
    for name, label in (("mediqa validation", "MEDIQA's validation file"), ("llmeval-2", "LLMEval-2")):
        rows = results[f"probes, {name}"]
        worst = max(HARMLESS, key=lambda probe: rows[probe]["value"])
        yield share(f"{label}: flips by the worst harmless probe, `{worst}`", rows[worst], 0.02, at_least=False)
        for probe, wanted in (("echo", 0.02), ("negated", 0.20), ("append-harm", 0.20)):
            row = rows[probe]
            yield share(f"{label}: usable after `{probe}` ({row['answers']})", row, wanted, at_least=False)


def formats(results: Results) -> list[str]:
    """The number formats for which all times were measured."""
    return [name for name in ("bfloat16", "float32") if all(f"{row}, {name}" in results for row in TIMES)]


def _of_cost(results: Results) -> Iterator[Goal]:
    for name in formats(results):
        beside = results[f"cost beside the ordinal judge, {name}"]
        times = beside["times the cost per token of the ordinal judge"]
        label = f"cost per encoded token, relative to the ordinal judge, {name}"
        yield Goal(label, "at most 4 times", f"{times:.2f} times", times <= 4)
    for row, label, wanted in (
        ("sample", "the sample's 280 answers", 60),
        ("quickstart", "`medjudge quickstart`", 180),
    ):
        for name in formats(results):
            seconds = results[f"{row}, {name}"]["seconds"]
            yield Goal(f"{label}, {name}", f"at most {wanted} s", f"{seconds:.1f} s", seconds <= wanted)
    yield Goal("the whole training by one command, on two cores", "at most 8 hours", "never run as a whole", False)
    size = weights_size(built_in_folder()) / 1e6
    yield Goal("weights in the package", "at most 12 MB", f"{size:.2f} MB", size <= 12)


def weights_size(folder: Path) -> int:
    """The size of all weights of a judge folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def figure(measured_on: str, row: Mapping[str, float], wanted: float) -> Goal:
    """A figure that should be at least as high."""
    shown = floor(1000 * row["value"] + 1e-6) / 1000
    reached = f"{shown:.3f} ({row['low']:.2f}–{row['high']:.2f})"
    return Goal(measured_on, f"at least {wanted:.2f}", reached, row["value"] >= wanted)


def share(measured_on: str, row: Mapping[str, float], wanted: float, at_least: bool) -> Goal:
    """A share of answers that should be at least, or at most, as high."""
    shown = (floor if at_least else ceil)(1000 * row["value"] - (-1e-6 if at_least else 1e-6)) / 10
    reached = f"{shown:.1f} % ({100 * row['low']:.0f}–{100 * row['high']:.0f})"
    met = row["value"] >= wanted if at_least else row["value"] <= wanted
    return Goal(measured_on, f"at {'least' if at_least else 'most'} {100 * wanted:.0f} %", reached, met)
