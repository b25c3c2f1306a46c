"""The studies that say how far a judge's scores in a run may be trusted."""

from typing import Any

from medjudge.store import Run


def validations(run: Run, judge: str) -> list[dict[str, Any]]:
    """The studies of a judge, oldest first: those of its card when it judged this run, then the one of this run.

    A study of an earlier version, which held nothing against a gate, counts as none.
    """
    studies = [*run.manifest().get("judges", {}).get(judge, {}).get("validated_on", []), run.agreement(judge)]
    return [study for study in studies if study is not None and "cannot_conclude" in study]
