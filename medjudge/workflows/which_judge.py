"""Which judge of a run is meant when none is named."""

from medjudge.errors import InputError
from medjudge.store import Run


def likely_judge(run: Run) -> str | None:
    """The judge that judged last, else the only one; None where neither is known."""
    judges = run.judges()
    last = run.last_judge
    if last in judges:
        return last
    return judges[0] if len(judges) == 1 else None


def judge_of_run(run: Run, name: str | None = None) -> str:
    """The judge whose judgments of a run to use.

    Args:
        name: The judge that was asked for; None for the likely one.

    Raises:
        InputError: The run has no judgments, none of this judge, or of several and none of them judged last.
    """
    judges = run.judges()
    judge = name or likely_judge(run)
    if judge is not None and judge in judges:
        return judge
    if not judges:
        raise InputError(f"{run.path}: no judgments in it; run `medjudge eval` first")
    raise InputError(f"{run.path}: give --judge, one of {', '.join(judges)}")
