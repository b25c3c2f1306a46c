"""The studies that say how far a judge's scores in a run may be trusted."""

from typing import Any

from medjudge.store import Run


def validations(run: Run, judge: str) -> list[dict[str, Any]]:
    """The studies of a judge, oldest first: those of its card when it judged this run, then the one of this run."""
    studies: list[dict[str, Any]] = run.manifest().get("judges", {}).get(judge, {}).get("validated_on", [])
    own = run.agreement(judge)
    return studies if own is None else [*studies, own]
