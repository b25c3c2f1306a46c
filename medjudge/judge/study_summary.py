"""The summary of a validation that `judge.json` keeps: agreement and the acceptance gate."""

from enum import Enum
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, Field

from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_text
from medjudge.scheme import LLMEVAL_MED, SchemeSummary
from medjudge.statistics.estimates import Estimate, Record

Measures = dict[str, Estimate]
"""Name of a measure (`usable_agreement`, `cohen_kappa`, …) -> its estimate."""


class AgainstKind(str, Enum):
    """The other side of a comparison. Only physicians can validate it."""

    PHYSICIANS = "physicians"
    JUDGE = "judge"
    CONSTRUCTED = "constructed levels"

    __str__ = str.__str__


class CheckKind(str, Enum):
    """The subject of a check of the gate; the values are the keys of a scheme's gate."""

    USABLE_AGREEMENT = "usable_agreement"
    COHEN_KAPPA = "cohen_kappa"
    COVERAGE = "coverage"
    TEACHER_MARGIN = "teacher_margin"
    PROBE_FLIPS = "probe_flips"

    __str__ = str.__str__


class CheckState(str, Enum):
    """The result of a check. Inconclusive: the scores do not suffice to pass or fail it."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"

    __str__ = str.__str__


class GateCheck(Record):
    """One requirement of the gate.

    `part` is the category of a `usable_agreement` check and the probe of a `probe_flips` check (None where no answer
    was probed); None for all other kinds. `check` names the check for people, and `why` explains its state; both are
    for reading only. `n` counts the answers behind the value.
    """

    kind: CheckKind
    part: str | None
    check: str
    required: float
    value: float | None
    low: float | None
    high: float | None
    n: int
    state: CheckState
    why: str


class GateResult(Record):
    """`passed`: true where every check passed, false where one failed, null where none failed but one is inconclusive.

    `usual` says whether the requirements were those of the scheme.
    """

    passed: bool | None
    usual: bool
    checks: list[GateCheck]

    def in_state(self, state: CheckState) -> list[GateCheck]:
        """The checks with this result."""
        return [check for check in self.checks if check.state == state]


class Outcome(Record):
    """The part that a study and its summary in `judge.json` share.

    A gate result and a calibration hold for what they were measured with: `judge_sha256`, `rubrics_sha256` (empty where
    the judge reads none), the scheme's sha256, and `models`, which counts the scored answers of each model.
    `against` is the name of the other side, `against_kind` what it is. `file` is the file that the scores came from,
    `sha256` its hash (empty where the other side is a judge), `judge_sha256` identifies the judge's files, and
    `quantization` says how its base was quantised for this study (None: as it was trained). `confusion_usable`
    counts answers that are not usable and usable to the judge (rows) and to the other side (columns). `changed` is
    found when a study is read: why its figures no longer hold; None where they do.
    """

    schema_version: Literal[1] = 1
    file: str = ""
    sha256: str = ""
    judge_sha256: str = ""
    rubrics_sha256: str = ""
    quantization: str | None = None
    models: dict[str, int] = Field(default_factory=dict)
    scheme: SchemeSummary = Field(default_factory=lambda: LLMEVAL_MED.summary)
    against: str
    against_kind: AgainstKind
    n: int
    questions: int
    conversations: int
    raters: list[str]
    coverage: float
    interval: str
    overall: Measures
    by_category: dict[str, Measures]
    confusion_usable: list[list[int]] = Field(default_factory=list)
    weaknesses: list[str]
    cannot_conclude: list[str]
    gate: GateResult
    changed: str | None = Field(default=None, exclude=True)

    @property
    def danger(self) -> str:
        """The judge's errors in the dangerous direction, as a predicate; empty where a study did not record it."""
        return self._errors("unusable", "usable")

    @property
    def strictness(self) -> str:
        """The judge's errors in the other direction, as a predicate; empty where a study did not record it."""
        return self._errors("usable", "unusable")

    def _errors(self, truth: str, called: str) -> str:
        if not self.confusion_usable:
            return ""
        column, row = int(truth == "usable"), int(called == "usable")
        cases = sum(judged[column] for judged in self.confusion_usable)
        return f"calls {self.confusion_usable[row][column]} of {cases} {truth} answers {called}"


class StudySummary(Outcome):
    """One entry of `validated_on` in `judge.json`."""


_Result = TypeVar("_Result", bound=BaseModel)


def read_result(record: type[_Result], file: Path, command: str) -> _Result | None:
    """Reads the result that a command wrote as JSON; None where there is no file.

    Args:
        command: The command to run again where the file is not valid, for the message.

    Raises:
        InputError: The file is not such a record.
    """
    if not file.exists():
        return None
    try:
        return model_from_json(record, read_text(file))
    except ValueError as error:
        raise InputError(f"{file}: {first_problem(error)}; run `{command}` again") from None
