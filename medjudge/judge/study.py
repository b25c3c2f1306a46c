"""What a validation found: the record in `agreement/JUDGE.json`, and the summary of it that `judge.json` keeps.

`medjudge.validation` fills these records. They live here because a judge card holds them, and cards are read by the
floors below validation.
"""

from enum import Enum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from medjudge.judge.alt_test_study import AltTestResult
from medjudge.judge.drift_study import DriftStudy
from medjudge.judge.item_study import PhysicianItemStudy
from medjudge.judge.pair_study import PhysicianPairStudy
from medjudge.judge.panel_study import PanelStudy
from medjudge.scheme import LLMEVAL_MED, SchemeSummary
from medjudge.statistics.estimates import Estimate, estimate_text

Measures = dict[str, Estimate]
"""Name of a measure (`usable_agreement`, `cohen_kappa`, …) -> its estimate."""


class AgainstKind(str, Enum):
    """What a judge was compared with. Only physicians can validate it."""

    PHYSICIANS = "physicians"
    JUDGE = "judge"
    CONSTRUCTED = "constructed levels"

    __str__ = str.__str__


class CheckKind(str, Enum):
    """What a check of the gate looks at; the values are the keys of a scheme's gate."""

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


class _Model(BaseModel):
    # Fields that a later version adds are ignored, so that its judges and studies can still be read.
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


# --- The gate ---------------------------------------------------------------------------------------------------------


class GateCheck(_Model):
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


class GateResult(_Model):
    """`passed`: true where every check passed, false where one failed, null where none failed but one is inconclusive.

    `usual` says whether the requirements were those of the scheme.
    """

    passed: bool | None
    usual: bool
    checks: list[GateCheck]

    def in_state(self, state: CheckState) -> list[GateCheck]:
        """The checks with this result."""
        return [check for check in self.checks if check.state == state]


# --- Physicians among each other --------------------------------------------------------------------------------------


class RaterAgreement(_Model):
    """Agreement of raters with each other on the `answers` that two or more of them scored."""

    answers: int
    usable_agreement: Estimate
    cohen_kappa: Estimate
    quadratic_kappa: Estimate
    krippendorff_alpha: Estimate


class PhysicianAgreement(RaterAgreement):
    """The ceiling for a judge, and whether it could take a physician's place: on `usable` and on the `level`."""

    alt_test: dict[Literal["usable", "level"], AltTestResult]


# --- The other parts of a study ---------------------------------------------------------------------------------------


class McNemar(_Model):
    """Answers on which only one of two judges agrees with the physicians."""

    judge_only: int
    teacher_only: int
    p_value: float | None


class NonInferiority(_Model):
    """`shown`: whether the judge loses at most `margin` against its teacher; null where the scores do not suffice."""

    margin: float
    shown: bool | None


class TeacherComparison(_Model):
    """Judge and teacher, each against the physicians, on the `n` answers that all three scored."""

    teacher: str
    n: int
    conversations: int
    of_judge: Measures
    of_teacher: Measures
    difference: Measures
    mcnemar: McNemar
    non_inferiority: NonInferiority


class ModelRates(_Model):
    """Usability rates (0..1) of one answering model, by physicians, judge and teacher, on the same `n` answers."""

    n: int
    physicians: float
    judge: float
    teacher: float | None


class Ranking(_Model):
    """Whether the judge orders the answering models as the physicians do."""

    models: dict[str, ModelRates]
    spearman: Estimate
    kendall_tau_b: Estimate
    pairwise_accuracy: Estimate


CalibrationPoint = TypedDict(
    "CalibrationPoint",
    {
        "from": float,
        "to": float,
        "predicted": float,
        "observed": float,
        "low": float,
        "high": float,
        "n": int,
    },
)
"""One bin of the calibration curve: the range of P(usable) from the judge, and the observed share of usable answers."""


class RiskPoint(TypedDict):
    """The share of errors (`risk`) where the judge decides only its surest answers (`coverage`), both 0..1."""

    coverage: float
    risk: float


class SetQuality(_Model):
    """Of conformal sets, on held-out conversations; see `statistics.conformal`."""

    coverage: float | None
    mean_size: float | None
    certain: float | None


class ConformalSets(_Model):
    """Thresholds of conformal sets, and their quality.

    The thresholds are None where there are too few conversations, `usable` and `level` where the sets could not be
    checked on held-out ones; `why` says so.
    """

    error_rate: float
    why: str | None = None
    calibrated_on: int | None = None
    usable_threshold: float | None = None
    level_threshold: float | None = None
    usable: SetQuality | None = None
    level: SetQuality | None = None


class Confidence(_Model):
    """Whether the judge's P(usable) can be trusted, on `n` answers."""

    n: int
    brier: Estimate
    ece: float
    curve: list[CalibrationPoint]
    risk_coverage: list[RiskPoint]
    area_under_risk_coverage: float
    conformal: ConformalSets


class UsabilityRate(_Model):
    """The share of answers that physicians would call usable: prediction-powered, by physicians and by judge alone.

    `more_scores` is the number of further scores that an interval of the planned width needs; None where no number
    suffices or none was planned.
    """

    answers: int
    scored: int
    prediction_powered: Estimate
    physicians_only: Estimate
    judge_only: float | None
    power_tuning: float | None
    more_scores: int | None
    note: str | None


class Usability(_Model):
    """Usability rates of all answers that the judge judged; `width` is the planned full width of an interval."""

    answers: int
    scored: int
    width: float | None
    overall: UsabilityRate
    by_category: dict[str, UsabilityRate]
    by_model: dict[str, UsabilityRate]


class ProbeEffect(_Model):
    """How much a probe moves the judge; see `validation.probe_effect`."""

    n: int
    conversations: int
    skipped: int
    unscored: int
    shift: Estimate
    flips: Estimate
    to_usable: Estimate
    to_unusable: Estimate


class ProbeStudy(_Model):
    """The effects of all probes on `answers` answers; `not_applied` names the probes that changed none of them."""

    answers: int
    effects: dict[str, ProbeEffect]
    not_applied: list[str]


class LeaveOutRow(_Model):
    """A judge that never saw `left_out` beside one that did, on the same answers; see `validation.leave_out`.

    `removed` counts the training lines that the former did without.
    """

    left_out: str | None
    n: int
    coverage: float
    conversations: int
    unseen: Measures | None
    seen: Measures | None
    difference: Measures | None
    removed: int | None = None


class LeaveOutStudy(_Model):
    """One row for each model or category left out of training, and one of all their answers."""

    by: Literal["model", "category"]
    config: str
    rows: list[LeaveOutRow]


class MadeFrom(_Model):
    """What a study was made from, so that a later change of it is noticed; see `provenance.digest`.

    Attributes:
        judgments: How many judgments there were, and `judgments_sha256` their hash with that of their texts.
        scores: How many scores of the other side the run held; None where they came from a file outside the run.
        figures_sha256: Of the study itself, without these hashes.
    """

    judgments: int
    judgments_sha256: str
    scores: int | None
    scores_sha256: str
    figures_sha256: str


# --- The study --------------------------------------------------------------------------------------------------------


class _Outcome(_Model):
    """What a study and its summary in `judge.json` share.

    A gate result and a calibration hold for what they were measured with: `judge_sha256`, `rubrics_sha256` (empty where
    the judge reads none), the scheme's sha256, and `models`, which counts the scored answers of each model.
    `against` is the name of the other side, `against_kind` what it is. `file` is the file that the scores came from,
    `sha256` its hash (empty where the other side is a judge), `judge_sha256` identifies the judge's files, and
    `quantization` says how its base was quantised for this study (None: as it was trained). `changed` is found when a
    study is read: why its figures no longer hold; None where they do.
    """

    schema_version: Literal[1] = 1
    file: str = ""
    sha256: str = ""
    judge_sha256: str = ""
    rubrics_sha256: str = ""
    quantization: str | None = None
    models: dict[str, int] = {}
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
    weaknesses: list[str]
    cannot_conclude: list[str]
    gate: GateResult
    changed: str | None = Field(default=None, exclude=True)


class StudySummary(_Outcome):
    """One entry of `validated_on` in `judge.json`."""

    conformal: ConformalSets | None = None


class Study(_Outcome):
    """`agreement/JUDGE.json`, and the object of `medjudge validate --json`.

    In the confusion tables the judge's levels are the rows. The parts that were not asked for, or that the scores do
    not allow, are None.
    """

    judge: str
    conversations_by_category: dict[str, int]
    by_subcategory: dict[str, Measures]
    by_model: dict[str, Measures]
    by_difficulty: dict[str, Measures]
    by_language: dict[str, Measures]
    confusion: list[list[int]]
    confusion_usable: list[list[int]]
    confusion_by_category: dict[str, list[list[int]]]
    physicians: PhysicianAgreement | None
    teacher: TeacherComparison | None
    ranking: Ranking | None
    confidence: Confidence | None
    usability: Usability | None
    probes: ProbeStudy | None
    leave_out: LeaveOutStudy | None
    pairs: PhysicianPairStudy | None = None
    items: PhysicianItemStudy | None = None
    panel: PanelStudy | None = None
    since: DriftStudy | None = None
    made_from: MadeFrom | None = None

    def summary(self) -> StudySummary:
        """What the judge card keeps."""
        shared = {name: getattr(self, name) for name in _Outcome.model_fields}
        return StudySummary(**shared, conformal=self.confidence.conformal if self.confidence else None)

    def __repr__(self) -> str:
        """The result in one line, for a notebook."""
        verdict = {True: "gate passed", False: "gate failed", None: "gate inconclusive"}[self.gate.passed]
        agreement, kappa = self.overall["usable_agreement"], self.overall["cohen_kappa"]
        return (
            f"Study({self.judge} against {self.against}, {self.n} answers in {self.conversations} conversations: "
            f"{verdict}; usable agreement {estimate_text(agreement)}, Cohen's kappa {estimate_text(kappa)})"
        )

    __str__ = __repr__
