"""What the page shows of a run, gathered from its records."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from medjudge.records import AnswerKey, Judgment, PhysicianScore
from medjudge.report.contents import Contents
from medjudge.scale import consensus
from medjudge.store import Run
from medjudge.validation.paper import PAPER_AGREEMENT

_PARTS = ("category", "subcategory", "model", "difficulty", "language")
_DIFFERENCES = 30
_NAMED = 4
"""Failed checks that the verdict names; the table holds all."""


def section(run: Contents, place: int) -> dict[str, Any]:
    """Everything that `page.html` shows of one run beside the leaderboards.

    Each judge's studies as `medjudge validate` wrote them, and the answers on which judge and physicians differ most.
    Nothing is measured again here.

    Args:
        place: The run's place on the page, for links to its answers.
    """
    judges = {}
    differing: list[dict[str, Any]] = []
    asked = {score.question_id for score in run.scores}
    for judge, judgments in run.judgments.items():
        compared, seen = _overlaps(judgments, run.scores), run.seen(judge) & asked
        studies = studies_of(run.run, judge)
        judges[judge] = {
            "name": judge,
            "hint": _hint(run.run, judge, run.against if compared else None, len(seen)),
            "usability": _usability(studies),
            "studies": [_study(one) for one in studies],
        }
        if compared and not seen:
            differing += _differing(judgments, run.scores, place)
    differing.sort(key=lambda one: -abs(one["score"] - one["physician"]))
    return {
        "name": run.name,
        "notes": _notes(run.manifest),
        "judges": judges,
        "against": run.against,
        "differing": len(differing),
        "furthest": differing[:_DIFFERENCES],
    }


def _overlaps(judgments: Sequence[Judgment], scores: Sequence[PhysicianScore]) -> bool:
    return bool(
        {judgment.answer_key for judgment in judgments if judgment.score is not None}
        & {score.answer_key for score in scores}
    )


def _notes(manifest: dict[str, Any]) -> list[str]:
    notes = []
    if benchmark := manifest.get("benchmark"):
        notes.append(
            f"Benchmark {benchmark['source']}: {benchmark['questions']} questions, sha256 {benchmark['sha256'][:12]}."
        )
    notes += manifest.get("notes", [])
    if manifest.get("updated"):
        notes.append(f"medjudge {manifest['versions']['medjudge']}, {manifest['updated']}.")
    return notes


# --- How far a judge may be trusted ---------------------------------------------------------------------------------


def studies_of(run: Run, judge: str) -> list[dict[str, Any]]:
    """A judge's study against physicians first, then those against other judges of the run; none of older versions."""
    names = (judge, *(f"{judge}-against-{other}" for other in run.judges()))
    return [study for study in map(run.agreement, names) if study is not None and _is_current(study)]


def _is_current(study: Mapping[str, Any]) -> bool:
    """Whether this version wrote it; an older one's lacks most of what the page shows."""
    return "cannot_conclude" in study


def _hint(run: Run, judge: str, against: str | None, overlap: int) -> str | None:
    """What to do for more, in a line."""
    study, command = run.agreement(judge), f"`medjudge validate {run.path} --judge {judge}`"
    if study is not None:
        outdated = f"An older version of medjudge measured its agreement; run {command} again."
        return None if _is_current(study) else outdated
    if against is None:
        return None
    if overlap:
        return (
            f"It was trained or tuned on {overlap} of the questions that have scores here, so that its agreement with "
            "these scores would mean nothing."
        )
    scored = "Physicians scored answers of this run" if against == "physicians" else f"This run has {against}"
    return f"{scored}; {command} measures the agreement."


def _usability(studies: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Prediction-powered rates of the study against physicians, the best model first."""
    study = next((one for one in studies if one["usability"] and one["against"] == "physicians"), None)
    if study is None:
        return None
    rates = study["usability"]
    groups = [
        ("", [("Overall", rates["overall"])]),
        ("By model", sorted(rates["by_model"].items(), key=lambda one: -(one[1]["prediction_powered"]["value"] or 0))),
        ("By category", rates["by_category"].items()),
    ]
    return {**rates, "groups": groups}


# --- A study, made ready to be shown --------------------------------------------------------------------------------


def _study(study: dict[str, Any]) -> dict[str, Any]:
    return {
        **study,
        "verdict": _verdict(study["gate"]),
        "checks": [{**check, **_unit(check["check"])} for check in study["gate"]["checks"]],
        "by_part": [("", {"overall": study["overall"]}), *((part, study[f"by_{part}"]) for part in _PARTS)],
        "paper": PAPER_AGREEMENT,
        "plots": _plots(study),
    }


def _verdict(gate: Mapping[str, Any]) -> str:
    """The gate in one sentence."""
    named = {
        result: [check["check"] for check in gate["checks"] if check["result"] == result]
        for result in ("failed", "not shown")
    }
    total, failed, not_shown = len(gate["checks"]), named["failed"], named["not shown"]
    if gate["passed"]:
        return f"The gate is passed: all {total} checks hold on these scores."
    if failed:
        told = "; ".join(failed[:_NAMED]) + (f"; and {len(failed) - _NAMED} more" if len(failed) > _NAMED else "")
        rest = f" {len(not_shown)} cannot be decided by these scores." if not_shown else ""
        return f"The gate is failed: {len(failed)} of {total} checks {_do(failed)} not hold ({told}).{rest}"
    return (
        f"The gate is not shown to be passed: no check failed, but {len(not_shown)} of {total} cannot be decided by "
        "these scores."
    )


def _do(names: Sequence[str]) -> str:
    return "does" if len(names) == 1 else "do"


def _unit(check: str) -> dict[str, Any]:
    """How a check's numbers are written, and on which side of what is required they must lie."""
    if check.startswith("flips"):
        return {"form": "%.1f", "scale": 100, "unit": " %", "asked": "at most"}
    if check.startswith("usable agreement minus"):
        return {"form": "%+.1f", "scale": 100, "unit": " points", "asked": "at least"}
    if check.startswith("usable agreement"):
        return {"form": "%.1f", "scale": 100, "unit": " %", "asked": "at least"}
    return {"form": "%.2f", "scale": 1, "unit": "", "asked": "at least"}


def _plots(study: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """Images as `data:` addresses; None where matplotlib, an extra, is missing."""
    if find_spec("matplotlib") is None:
        return None
    from medjudge.report.drawing import as_svg
    from medjudge.report.plots import plots

    return [
        {"alt": one.alt, "src": f"data:image/svg+xml;base64,{b64encode(as_svg(one.figure).encode()).decode()}"}
        for one in plots(study)
    ]


# --- Where judge and physicians differ ------------------------------------------------------------------------------


def _differing(judgments: Sequence[Judgment], scores: Sequence[PhysicianScore], place: int) -> list[dict[str, Any]]:
    levels: dict[AnswerKey, list[int]] = {}
    for score in scores:
        levels.setdefault(score.answer_key, []).append(score.level)
    return [
        {
            "question_id": one.question_id,
            "model": one.model,
            "judge": one.judge,
            "score": one.score,
            "physician": consensus(levels[one.answer_key]),
            "link": answer_link(place, one.answer_key),
        }
        for one in judgments
        if one.score is not None
        and one.answer_key in levels
        and abs(one.score - consensus(levels[one.answer_key])) >= 2
    ]


def answer_link(place: int, key: AnswerKey) -> str:
    """The address of an answer within the page; `page.js` reads it."""
    return f"#answer/{place}/{quote(key.question_id, safe='')}/{quote(key.model, safe='')}/{key.sample}"
