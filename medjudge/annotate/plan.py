"""The plan of who scores what, and its files in a run folder."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, read_text, write_whole
from medjudge.records import AnswerKey
from medjudge.store import Run

Which = Literal["random", "informative"]


class Item(BaseModel):
    """One answer to be scored. The id tells a rater nothing of the model."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    id: str
    question_id: str
    model: str
    sample: int

    @property
    def key(self) -> AnswerKey:
        return AnswerKey(self.question_id, self.model, self.sample)


class Plan(BaseModel):
    """Who scores what: `annotation/plan.json` of a run.

    `by_rater` holds each rater's item ids in the order that the rater sees them. `left_out` counts the answers that
    could not be chosen, by reason.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    seed: int
    which: Which
    judge: str | None = None
    teacher: str | None = None
    overlap: int = 1
    each: int | None = None
    items: list[Item]
    by_rater: dict[str, list[str]]
    left_out: dict[str, int] = {}


def plan_file(run: Run) -> Path:
    """Where a run's plan lies."""
    return run.path / "annotation" / "plan.json"


def read_plan(run: Run) -> Plan:
    """The plan of a run.

    Raises:
        InputError: There is none, or it cannot be read.
    """
    file = plan_file(run)
    if not file.exists():
        raise InputError(f"{run.path}: no plan of who scores what; `medjudge annotate export` makes one")
    return _read(file)


def read_plans(run: Run) -> list[Plan]:
    """The plan of a run, and after it the earlier ones that `write_plan` kept, the latest first.

    Raises:
        InputError: There is none, or one cannot be read.
    """
    return [read_plan(run), *map(_read, reversed(_earlier_files(run)))]


def earlier_file(run: Run) -> Path:
    """Where the plan of a run is kept once another one is written: plan-1.json, plan-2.json and so on."""
    there = _earlier_files(run)
    return plan_file(run).with_name(f"plan-{1 + (_number(there[-1]) if there else 0)}.json")


def _earlier_files(run: Run) -> list[Path]:
    return sorted((file for file in plan_file(run).parent.glob("plan-*.json") if _number(file)), key=_number)


def _number(file: Path) -> int:
    number = file.stem.removeprefix("plan-")
    return int(number) if number.isdecimal() else 0


def _read(file: Path) -> Plan:
    try:
        return Plan.model_validate_json(read_text(file))
    except ValidationError as error:
        raise InputError(f"{file}: not a plan ({first_problem(error)}); restore it from a copy") from None


def write_plan(run: Run, plan: Plan) -> Path | None:
    """Writes `annotation/plan.json`, all of it or nothing.

    Returns:
        The file in which another plan that was there is kept; None where there was none.
    """
    kept = earlier_file(run) if plan_file(run).exists() and read_plan(run) != plan else None
    if kept is not None:
        write_whole(kept, read_text(plan_file(run)))
    write_whole(plan_file(run), plan.model_dump_json(indent=1) + "\n")
    return kept
