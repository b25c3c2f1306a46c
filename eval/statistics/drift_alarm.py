"""The rate of alarms of `medjudge validate --since`, in 200 simulated comparisons of each design.

    python eval/statistics/drift_alarm.py

Where nothing has changed, an alarm is false; elsewhere it is the power to see a fall of agreement. Conversations differ
in how hard they are for the judge, and some of them are in both studies. The result is eval/results/drift-alarm.json.
"""

import time
from typing import Any, NamedTuple

import numpy as np

from eval.lib.study import record
from medjudge.validation.answers import Pairs
from medjudge.validation.drift import Earlier, drift

CATEGORIES = ("MK", "MLU", "MR", "MSE", "MTG")


class Design(NamedTuple):
    """Two studies of `conversations` each with three answers per conversation.

    A share `shared` of the conversations is in both. The judge is right with probability 0.85 on average, with standard
    deviation `spread` between conversations; `fall` is by how much less it is right in the second study.
    """

    conversations: int
    shared: float
    spread: float
    fall: float


DESIGNS = [
    Design(conversations, shared, 0.15, fall)
    for fall in (0.0, 0.15)
    for conversations in (30, 100)
    for shared in (0.0, 0.5, 1.0)
]


def simulated(design: Design, seed: int) -> tuple[Pairs, Pairs]:
    """The pairs of both studies."""
    generator = np.random.default_rng(seed)
    total = 2 * design.conversations
    strength = 0.85 * 0.15 / design.spread**2 - 1
    ease = generator.beta(0.85 * strength, 0.15 * strength, total)
    first = np.arange(design.conversations)
    second = first + round(design.conversations * (1 - design.shared))
    return _pairs(first, ease, generator), _pairs(second, np.maximum(ease - design.fall, 0), generator)


def _pairs(conversations: np.ndarray, ease: np.ndarray, generator: np.random.Generator) -> Pairs:
    conversation = np.repeat(conversations, 3)
    physician = generator.integers(2, 6, len(conversation))
    right = generator.random(len(conversation)) < ease[conversation]
    # A wrong verdict lies on the other side of usable, two levels away.
    judge = np.where(right, physician, np.where(physician >= 4, physician - 2, physician + 2))
    text = conversation.astype(str).astype(object)
    category = np.array([CATEGORIES[number % len(CATEGORIES)] for number in conversation], dtype=object)
    columns: dict[str, Any] = dict.fromkeys(Pairs._fields, text)
    return Pairs(**{**columns, "category": category, "conversation": text, "judge": judge, "physician": physician})


def alarms(design: Design, comparisons: int, rate: float = 0.05) -> float:
    """The share of comparisons with an alarm."""
    raised = 0
    for seed in range(comparisons):
        then, now = simulated(design, seed)
        raised += bool(drift(Earlier("then", then, ""), now, "", rate, seed).alarm)
    return raised / comparisons


def main(comparisons: int = 200) -> None:
    """Simulates and writes the result."""
    start = time.monotonic()
    rows = [{**design._asdict(), "alarms": alarms(design, comparisons)} for design in DESIGNS]
    record(
        "drift-alarm",
        {
            "command": "python eval/statistics/drift_alarm.py",
            "comparisons": comparisons,
            "false_alarm_rate": 0.05,
            "designs": rows,
            "seconds": round(time.monotonic() - start),
        },
    )


if __name__ == "__main__":
    main()
