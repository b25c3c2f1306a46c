"""`medjudge export`: a run in the formats of other tools."""

from importlib.util import find_spec
from pathlib import Path

from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.which_judge import judge_of_run


def export_inspect_logs(run: Path, judge: str | None = None, out: Path | None = None) -> list[Path]:
    """Writes the judgments of a run as logs of Inspect, one per model.

    Args:
        judge: Whose judgments; the last one that judged unless given.
        out: A folder, or a file that ends in `.eval` where one model answered; `RUN/inspect` unless given.

    Raises:
        InputError: inspect-ai is not installed, or the run has no judgments of the judge.
    """
    if find_spec("inspect_ai") is None:
        raise InputError("export inspect: needs inspect-ai, and Python 3.11 for it; pip install 'medjudge[inspect]'")
    from medjudge.report.inspect_logs import write_inspect_logs

    folder = Run.existing(run)
    return write_inspect_logs(folder, judge_of_run(folder, judge), out or folder.path / "inspect")
