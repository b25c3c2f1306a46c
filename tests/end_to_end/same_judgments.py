from pathlib import Path

import pytest

from medjudge.store import Run


def same_judgments(run: Path, other: Path) -> bool:
    """But for what other rows of a batch round in the last digits."""
    first, two = [sorted(Run(path).judgments("similarity"), key=lambda judgment: judgment.key) for path in (run, other)]
    rounded = {"probabilities", "expected"}
    assert [judgment.model_dump(exclude=rounded) for judgment in first] == [
        judgment.model_dump(exclude=rounded) for judgment in two
    ]
    return all(a.probabilities == pytest.approx(b.probabilities, abs=1e-4) for a, b in zip(first, two, strict=True))


def require_same_run(run: Path, other: Path) -> None:
    """The same answers, judgments and rates."""
    assert (run / "scores.json").read_bytes() == (other / "scores.json").read_bytes()
    answers = [
        sorted(Run(path).answers(), key=lambda answer: (answer.question_id, answer.sample)) for path in (run, other)
    ]
    assert answers[0] == answers[1]
    assert same_judgments(run, other)
