"""A validation study: the record in `agreement/JUDGE.json`."""

from medjudge.judge.study_summary import Measures, Outcome, StudySummary
from medjudge.statistics.estimates import Record, estimate_text
from medjudge.validation.comparison import PhysicianPairStudy
from medjudge.validation.confidence import Confidence
from medjudge.validation.items import PhysicianItemStudy
from medjudge.validation.other_judges import LeaveOutStudy, PanelStudy, TeacherComparison
from medjudge.validation.physicians import PhysicianAgreement
from medjudge.validation.probe_effect import ProbeStudy
from medjudge.validation.ranking import Ranking
from medjudge.validation.rates import Usability


class MadeFrom(Record):
    """The material of a study, so that a later change of it is noticed; see `provenance.digest`.

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


class Study(Outcome):
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
    made_from: MadeFrom | None = None

    def summary(self) -> StudySummary:
        """The part that the judge card keeps."""
        return StudySummary(**{name: getattr(self, name) for name in Outcome.model_fields})

    def __repr__(self) -> str:
        """The result in one line, for a notebook."""
        verdict = {True: "gate passed", False: "gate failed", None: "gate inconclusive"}[self.gate.passed]
        verdict = f"custom {verdict}" if not self.gate.usual else verdict
        agreement, kappa = self.overall["usable_agreement"], self.overall["cohen_kappa"]
        return (
            f"Study({self.judge} against {self.against}, {self.n} answers in {self.conversations} conversations: "
            f"{verdict}; usable agreement {estimate_text(agreement)}, Cohen's kappa {estimate_text(kappa)})"
        )

    __str__ = __repr__
