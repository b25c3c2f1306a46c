"""The plan of who scores what, and its files in a run folder."""

import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, field_validator

from medjudge.errors import InputError, printable
from medjudge.files import first_problem, model_from_json, read_text, write_whole
from medjudge.records import AnswerKey, invisible
from medjudge.store import Run

Which = Literal["random", "informative", "deferred"]

_NO_FILE_NAME = re.compile(r'[<>:"/\\|?*\n\t]|^[.\s]|[.\s]$')
_LONGEST_NAME, _MOST_BYTES = 80, 200
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


class PlanOptions(NamedTuple):
    """What a plan is drawn by.

    Attributes:
        raters: Their names or e-mail addresses.
        overlap: Raters per answer, 1 to the number of raters; None for 2 where there are two raters.
        each: The most answers per rater; None for no limit.
        which: `random` answers to validate a judge on, `informative` ones to correct a judge, or the `deferred` ones
            that `medjudge eval` listed.
        judge: For `informative`: a judge of this run that gives probabilities.
        teacher: For `informative`: another judge of this run, or None.
        seed: Fixes the draw, the shares and every rater's order.
    """

    raters: Sequence[str]
    overlap: int | None = None
    each: int | None = None
    which: Which = "random"
    judge: str | None = None
    teacher: str | None = None
    seed: int = 0

    def with_defaults(self) -> "PlanOptions":
        """The same, with an overlap."""
        return self._replace(overlap=min(2, len(self.raters))) if self.overlap is None else self

    def same_plan(self, other: "PlanOptions") -> bool:
        """Whether both draw the same plan; the order of the raters makes no difference."""
        first, second = (options.with_defaults()._replace(raters=sorted(options.raters)) for options in (self, other))
        return first == second

    def command_line(self) -> str:
        """The options as a user types them."""
        named = [*(("rater", rater) for rater in self.raters), *list(self._asdict().items())[1:]]
        return " ".join(f"--{name} {quote(str(value))}" for name, value in named if value is not None)


class Item(BaseModel):
    """One answer to score. Its id does not reveal the model to the rater."""

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

    `by_rater` lists each rater's item ids in that rater's order. `left_out` counts the answers that could not be
    chosen, by reason. `list_sha256` is that of the list that `deferred` answers were taken from.
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
    list_sha256: str | None = None

    @field_validator("by_rater")
    @classmethod
    def _raters_can_be_file_names(cls, by_rater: dict[str, list[str]]) -> dict[str, list[str]]:
        for name in by_rater:
            if problem := rater_problem(name):
                raise ValueError(f"rater '{name}' {problem}")
        return by_rater

    @property
    def options(self) -> PlanOptions:
        """What the plan was drawn by."""
        return PlanOptions(
            list(self.by_rater), self.overlap, self.each, self.which, self.judge, self.teacher, self.seed
        )


def rater_problem(name: str) -> str | None:
    """Why a name cannot be a rater's, whose form is a file of that name; None if it can."""
    if not name.strip() or _NO_FILE_NAME.search(name) or printable(name) != name:
        return "becomes a file name; use letters, digits, '-', '.', '_' or '@'"
    if unseen := invisible(name):
        return f"holds {unseen}, which nobody sees; type the name again"
    if unicodedata.normalize("NFC", name) != name:
        return "has accents as separate characters, so that two names could look the same; type the name again"
    if len(name) > _LONGEST_NAME or len(name.encode()) > _MOST_BYTES:
        return f"becomes a file name; use at most {_LONGEST_NAME} characters and {_MOST_BYTES} bytes"
    if name[0] in "-+=@":
        return (
            f"starts with '{name[0]}', which a shell reads as an option or a spreadsheet as a formula; choose another"
        )
    if name.partition(".")[0].strip().casefold() in _DEVICES:
        return "is the name of a device on Windows, where no form of this name can be saved; choose another"
    return None


def plan_file(run: Run) -> Path:
    """The path of a run's plan."""
    return run.path / "annotation" / "plan.json"


def read_plan(run: Run) -> Plan:
    """Reads the plan of a run.

    Raises:
        InputError: There is none, or it is invalid.
    """
    file = plan_file(run)
    if not file.exists():
        raise InputError(f"{run.path}: no plan of who scores what; `medjudge annotate export` makes one")
    return _read(file)


def read_plans(run: Run) -> list[Plan]:
    """Reads the plan of a run and the earlier ones that `write_plan` kept, the latest first.

    Raises:
        InputError: There is none, or one is invalid.
    """
    return [read_plan(run), *map(_read, reversed(_earlier_files(run)))]


def earlier_file(run: Run) -> Path:
    """The path to which the plan moves when a new one is written: plan-1.json, plan-2.json and so on."""
    files = _earlier_files(run)
    return plan_file(run).with_name(f"plan-{1 + (_number(files[-1]) if files else 0)}.json")


def _earlier_files(run: Run) -> list[Path]:
    return sorted((file for file in plan_file(run).parent.glob("plan-*.json") if _number(file)), key=_number)


def _number(file: Path) -> int:
    number = file.stem.removeprefix("plan-")
    return int(number) if number.isdecimal() else 0


def _read(file: Path) -> Plan:
    try:
        return model_from_json(Plan, read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: not a plan ({first_problem(error)}); restore it from a copy") from None


def write_plan(run: Run, plan: Plan) -> Path | None:
    """Writes `annotation/plan.json`, all of it or nothing.

    Returns:
        The file that keeps a different plan that was there before; None where there was none.
    """
    kept = earlier_file(run) if plan_file(run).exists() and read_plan(run) != plan else None
    if kept is not None:
        write_whole(kept, read_text(plan_file(run)))
    write_whole(plan_file(run), plan.model_dump_json(indent=1) + "\n")
    return kept
