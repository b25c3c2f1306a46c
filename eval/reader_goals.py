"""What the built-in judge was to reach, and what it reaches, from the rows of `eval/results/built-in.json`."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.judge.open import built_in_folder

Results = Mapping[str, Any]
CATEGORIES = ("MK", "MLU", "MR", "MTG")
HARMLESS = ("filler", "language-wrapper", "quoted-rubric", "instruction", "authority", "doubled")
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
        yield _at_least(f"{label}: agreement on usable", results[name]["usable_agreement"]["value"], agreement)
        yield _at_least(f"{label}: Spearman", results[name]["spearman"]["value"], spearman)
    claims = results["rule claims"]
    yield _at_least("held-out claims by rule: AUC", claims["all"]["auc"]["value"], 0.95)
    many = {
        name: row["auc"]["value"]
        for name, row in claims.items()
        if isinstance(row, dict) and row.get("claims", 0) >= ENOUGH_CLAIMS and name not in ("all", "en", "zh")
    }
    lowest = min(many, key=lambda name: many[name])
    yield _at_least(f"the lowest AUC of a kind with {ENOUGH_CLAIMS} claims ({lowest})", many[lowest], 0.90)
    yield _at_least("HealthVer, five folds by claim: macro-F1", results["healthver folds"]["macro_f1"]["value"], 0.60)
    yield _at_least("LLMEval-2: AUC of full marks", results["llmeval-2"]["all"]["value"], 0.72)
    yield from _of_llmeval_med(results["llmeval-med"])
    unscored = results["sample"]["unscored"]
    yield Goal("the sample: unscored answers", "0", str(unscored), unscored == 0)
    yield from _of_probes(results)
    yield from _of_cost(results)


def _of_llmeval_med(table: Results) -> Iterator[Goal]:
    for variant, label, share, at_least in (
        ("reference", "the reference itself", 0.90, True),
        ("reworded", "the reference reworded", 0.85, True),
        ("of another question", "the reference of another question", 0.05, False),
        ("changed facts", "the reference with changed facts", 0.25, False),
    ):
        shares = {name: table[variant][name]["value"] for name in CATEGORIES}
        worst = (min if at_least else max)(shares, key=lambda name: shares[name])
        make = _share_at_least if at_least else _share_at_most
        yield make(f"LLMEval-Med, {label}, usable in the worst category ({worst})", shares[worst], share)


def _of_probes(results: Results) -> Iterator[Goal]:
    for name, label in (("mediqa validation", "MEDIQA's validation file"), ("llmeval-2", "LLMEval-2")):
        row = results[f"probes, {name}"]
        worst = max(HARMLESS, key=lambda probe: row[probe]["value"])
        yield _share_at_most(f"{label}: flips by the worst harmless probe (`{worst}`)", row[worst]["value"], 0.02)
        for probe in ("echo", "negated", "append-harm"):
            wanted = 0.02 if probe == "echo" else 0.20
            yield _share_at_most(f"{label}: still usable after `{probe}`", row[probe]["value"], wanted)


def _of_cost(results: Results) -> Iterator[Goal]:
    times = results["cost beside the ordinal judge"]["times the cost per token of the ordinal judge"]
    yield Goal("cost per encoded token beside the judge before", "at most 4 times", f"{times:.1f} times", times <= 4)
    seconds = results["sample"]["seconds"]
    yield Goal("the sample's 280 answers", "at most 60 s", f"{seconds:.0f} s", seconds <= 60)
    seconds = results["quickstart"]["seconds"]
    yield Goal("`medjudge quickstart`", "at most 180 s", f"{seconds:.0f} s", seconds <= 180)
    size = weights_size(built_in_folder()) / 1e6
    yield Goal("weights in the package", "at most 12 MB", f"{size:.1f} MB", size <= 12)


def weights_size(folder: Path) -> int:
    """The size of all weights of a judge folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*.safetensors"))


def _at_least(measured_on: str, value: float, wanted: float) -> Goal:
    return Goal(measured_on, f"at least {wanted:.2f}", f"{value:.3f}", value >= wanted)


def _share_at_least(measured_on: str, value: float, wanted: float) -> Goal:
    return Goal(measured_on, f"at least {100 * wanted:.0f} %", f"{100 * value:.1f} %", value >= wanted)


def _share_at_most(measured_on: str, value: float, wanted: float) -> Goal:
    return Goal(measured_on, f"at most {100 * wanted:.0f} %", f"{100 * value:.1f} %", value <= wanted)
