"""Where a run folder keeps judges' verdicts on items (`items/JUDGE.jsonl`) and the scores by them (`.json`)."""

from pathlib import Path

from medjudge.item_records import ItemJudgment
from medjudge.store import Run, read_records


def item_judgments_file(run: Run, judge: str) -> Path:
    """A judge's verdicts on items."""
    return run.path / "items" / f"{judge}.jsonl"


def item_study_file(run: Run, judge: str) -> Path:
    """The scores by a judge's verdicts on items."""
    return run.path / "items" / f"{judge}.json"


def item_judgments(run: Run, judge: str) -> list[ItemJudgment]:
    """A judge's verdicts on items; none where it gave none."""
    path = item_judgments_file(run, judge)
    return read_records(path, ItemJudgment, growing=True) if path.exists() else []


def judges_of_items(run: Run) -> list[str]:
    """The judges with verdicts on items in the run, sorted."""
    return sorted(file.stem for file in (run.path / "items").glob("*.jsonl"))
