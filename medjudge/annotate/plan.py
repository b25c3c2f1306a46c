"""The plans of who scores, compares or marks what, and their files in a run folder."""

import re
import unicodedata
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Literal, NamedTuple

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, field_validator

from medjudge.errors import InputError, printable
from medjudge.files import first_problem, model_from_json, read_text, write_whole
from medjudge.records import CONSTRUCTED, AnswerKey, invisible
from medjudge.store import Run

Which = Literal["random", "informative", "deferred"]
"""`informative` is read in plans of earlier versions only."""
SCORES_PLAN = "plan.json"
"""The file of the plan of scores."""

_NO_FILE_NAME = re.compile(r'[<>:"/\\|?*\n\t]|^[.\s]|[.\s]$')
_LONGEST_NAME, _MOST_BYTES = 80, 200
_DEVICES = {"con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))}


class PlanOptions(NamedTuple):
    """The options of a plan.

    Attributes:
        raters: Their names or e-mail addresses.
        overlap: Raters per answer or pair, 1 to the number of raters; None for 2 where there are two raters.
        each: The most answers or pairs per rater; None for no limit.
        which: `random` answers to validate a judge on, or the `deferred` ones that `medjudge eval` listed.
        seed: Fixes the draw, the shares, every rater's order, and which answer of a pair is A.
        models: For pairs: the models to compare, at least two.
    """

    raters: Sequence[str]
    overlap: int | None = None
    each: int | None = None
    which: Which = "random"
    seed: int = 0
    models: Sequence[str] = ()

    def with_defaults(self) -> "PlanOptions":
        """The same, with an overlap."""
        return self._replace(overlap=min(2, len(self.raters))) if self.overlap is None else self

    def same_plan(self, other: "PlanOptions") -> bool:
        """True if both draw the same plan; the order of the raters makes no difference."""
        first, second = (
            options.with_defaults()._replace(raters=sorted(options.raters), models=sorted(options.models))
            for options in (self, other)
        )
        return first == second

    def command_line(self) -> str:
        """The options as a user types them."""
        single = self._asdict() | {"models": ",".join(self.models) or None}
        del single["raters"]
        if self.which == "random":
            del single["which"]
        named = [*(("rater", rater) for rater in self.raters), *single.items()]
        return " ".join(f"--{name} {quote(str(value))}" for name, value in named if value is not None)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())


class Item(_Strict):
    """One answer to score, or whose items are marked. Its id does not reveal the model to the rater."""

    id: str
    question_id: str
    model: str
    sample: int

    @property
    def keys(self) -> tuple[AnswerKey, ...]:
        """The answers that a rater sees."""
        return (AnswerKey(self.question_id, self.model, self.sample),)


class Pair(_Strict):
    """One pair to compare: `first` is shown as A. Its id does not reveal the models."""

    id: str
    question_id: str
    first: str
    second: str
    sample: int

    @property
    def keys(self) -> tuple[AnswerKey, ...]:
        """The answers that a rater sees."""
        return tuple(AnswerKey(self.question_id, model, self.sample) for model in (self.first, self.second))


class Plan(_Strict):
    """Who scores, compares or marks what: a file in the folder `annotation` of a run.

    `by_rater` lists each rater's item ids in that rater's order. `left_out` counts the answers that could not be
    chosen, by reason. `list_sha256` is that of the list that `deferred` answers were taken from.
    """

    model_config = ConfigDict(extra="ignore")  # earlier versions wrote more fields

    seed: int
    which: Which = "random"
    overlap: int = 1
    each: int | None = None
    models: list[str] = []
    items: list[Item | Pair] = Field(validation_alias=AliasChoices("items", "answers"))
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
        """The options that the plan was drawn by."""
        fields = {name: getattr(self, name) for name in PlanOptions._fields if name != "raters"}
        return PlanOptions(list(self.by_rater), **fields)


class RaterProgress(NamedTuple):
    """The number of answers or pairs that a rater has, and of those that are done."""

    answers: int
    scored: int

    @property
    def open(self) -> int:
        return self.answers - self.scored


def check_raters(raters: Sequence[str], overlap: int) -> None:
    """Checks the names of raters, and how many of them get the same answer.

    Raises:
        InputError: A name cannot be a rater's or is repeated, or there are not as many raters.
    """
    for name in raters:
        if problem := rater_problem(name):
            raise InputError(f"--rater '{name}': {problem}")
        if name.casefold() == CONSTRUCTED:
            raise InputError(f"--rater {name}: this name is kept for levels that no physician gave; choose another")
    folded = [name.casefold() for name in raters]
    if repeated := [name for name in raters if folded.count(name.casefold()) > 1]:
        raise InputError(f"--rater {repeated[0]}: named twice; name each rater once")
    if not raters:
        raise InputError("--rater: name at least one rater")
    if not 1 <= overlap <= len(raters):
        raise InputError(
            f"--overlap {overlap}: each answer goes to that many raters, and there are {len(raters)}; take 1 to "
            f"{len(raters)}"
        )


def rater_problem(name: str) -> str | None:
    """The reason why a name cannot be a rater's, whose form is a file of that name; None if it can."""
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


def plan_file(run: Run, name: str = SCORES_PLAN) -> Path:
    """The path of a run's plan."""
    return run.path / "annotation" / name


def read_plan(run: Run, name: str = SCORES_PLAN, command: str = "annotate") -> Plan:
    """Reads a plan of a run.

    Args:
        command: The one whose `export` makes such a plan.

    Raises:
        InputError: There is none, or it is invalid.
    """
    file = plan_file(run, name)
    if not file.exists():
        raise InputError(f"{run.path}: no plan of who scores what; `medjudge {command} export` makes one")
    return _read(file)


def read_plans(run: Run, name: str = SCORES_PLAN, command: str = "annotate") -> list[Plan]:
    """Reads a plan of a run, and the earlier ones that `write_plan` kept.

    Raises:
        InputError: There is none, or one is invalid.
    """
    earlier = plan_file(run, name)
    return [read_plan(run, name, command), *map(_read, sorted(earlier.parent.glob(f"{earlier.stem}-[0-9]*.json")))]


def earlier_file(run: Run, name: str = SCORES_PLAN) -> Path:
    """The path to which the plan moves when a new one is written: plan-1.json, plan-2.json and so on."""
    file = plan_file(run, name)
    names = (file.with_stem(f"{file.stem}-{number}") for number in count(1))
    return next(name for name in names if not name.exists())


def _read(file: Path) -> Plan:
    try:
        return model_from_json(Plan, read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: not a plan ({first_problem(error)}); restore it from a copy") from None


def write_plan(run: Run, plan: Plan, name: str = SCORES_PLAN) -> Path | None:
    """Writes a plan of a run, all of it or nothing.

    Returns:
        The file that keeps a different plan that was there before; None where there was none.
    """
    file, kept = plan_file(run, name), None
    if file.exists() and _read(file) != plan:
        kept = earlier_file(run, name)
        write_whole(kept, read_text(file))
    write_whole(file, plan.model_dump_json(indent=1) + "\n")
    return kept
