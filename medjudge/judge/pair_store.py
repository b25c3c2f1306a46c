"""Where a run folder keeps pairs: judges' in `pairs/JUDGE.jsonl`, physicians' in `physician_pairs.jsonl`."""

from pathlib import Path
from typing import TypeVar

from medjudge.pair_records import PairJudgment, PhysicianPair
from medjudge.store import Run, read_records

_Pair = TypeVar("_Pair", PairJudgment, PhysicianPair)


def pairs_file(run: Run, judge: str) -> Path:
    """The pairs of a judge."""
    return run.path / "pairs" / f"{judge}.jsonl"


def comparison_file(run: Run, judge: str) -> Path:
    """What `medjudge compare` found by a judge's pairs."""
    return run.path / "pairs" / f"{judge}.json"


def physician_pairs_file(run: Run) -> Path:
    """The pairs that physicians compared."""
    return run.path / "physician_pairs.jsonl"


def pair_judgments(run: Run, judge: str) -> list[PairJudgment]:
    """The pairs of a judge; none where it compared none."""
    return _read(pairs_file(run, judge), PairJudgment)


def physician_pairs(run: Run) -> list[PhysicianPair]:
    """The pairs that physicians compared; none where there are none."""
    return _read(physician_pairs_file(run), PhysicianPair)


def compared_by(run: Run) -> list[str]:
    """The judges with a comparison in the run, sorted."""
    return sorted(file.stem for file in (run.path / "pairs").glob("*.json"))


def _read(path: Path, record: type[_Pair]) -> list[_Pair]:
    return read_records(path, record, growing=True) if path.exists() else []
