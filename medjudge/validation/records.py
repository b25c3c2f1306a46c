"""A validation study, `agreement/JUDGE.json`: the record, its file, and whether its figures still hold."""

import json
from hashlib import sha256
from shlex import quote
from typing import Any

from medjudge.files import read_text, write_json
from medjudge.judge.study_summary import AgainstKind, Measures, Outcome, StudySummary, read_result
from medjudge.provenance import digest
from medjudge.statistics.estimates import Record, estimate_text
from medjudge.store import Run
from medjudge.validation.comparison import PhysicianPairStudy
from medjudge.validation.confidence import Confidence
from medjudge.validation.items import PhysicianItemStudy
from medjudge.validation.other_judges import LeaveOutStudy, PanelStudy, TeacherComparison
from medjudge.validation.physicians import PhysicianAgreement
from medjudge.validation.probe_effect import ProbeStudy
from medjudge.validation.ranking import Ranking
from medjudge.validation.rates import Usability

FIGURES_CHANGED = "the file of its study was changed by hand"
SCORES_CHANGED = "scores were changed or removed after it was measured"
JUDGMENTS_CHANGED = "judgments, answers or questions were changed after it was measured"


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
    probes: ProbeStudy | None = None
    leave_out: LeaveOutStudy | None = None
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


def read_study(run: Run, judge: str, against: str | None = None) -> Study | None:
    """The study of a judge that `medjudge validate` wrote into a run; None where there is none.

    Args:
        against: The judge that it was compared with; physicians (or constructed levels) unless given.

    Raises:
        InputError: The file is not a study of this version.
    """
    file = run.agreement_file(judge, against)
    other = f" --against {quote(against)}" if against else ""
    study = read_result(Study, file, f"medjudge validate {quote(str(run.path))} --judge {quote(judge)}{other}")
    return study and study.model_copy(update={"changed": _why_changed(run, study, json.loads(read_text(file)))})


def write_study(run: Run, study: Study, against: str | None, scores_are_of_run: bool) -> Study:
    """Writes `agreement/JUDGE.json` with the hashes of what it was made from, and returns it with them.

    Args:
        scores_are_of_run: Whether the physicians' scores are those of the run, and not of a file elsewhere.
    """
    judgments = len(run.judgments(study.judge))
    scores = len(run.judgments(against) if against else run.physician_scores()) if scores_are_of_run else None
    made = _made_from(run, study.judge, against, judgments, scores, study.model_dump(mode="json"))
    study = study.model_copy(update={"made_from": made})
    write_json(run.agreement_file(study.judge, against), study.model_dump(mode="json"))
    return study


def _why_changed(run: Run, study: Study, fields: dict[str, Any]) -> str | None:
    """The part of a study's material that was changed since; None where nothing was, or no hash was kept."""
    made = study.made_from
    if made is None:
        return None
    against = study.against if study.against_kind == AgainstKind.JUDGE else None
    now = _made_from(run, study.judge, against, made.judgments, made.scores, fields)
    if now.figures_sha256 != made.figures_sha256:
        return FIGURES_CHANGED
    if now.scores_sha256 != made.scores_sha256:
        return SCORES_CHANGED
    return JUDGMENTS_CHANGED if now.judgments_sha256 != made.judgments_sha256 else None


def _made_from(
    run: Run, judge: str, against: str | None, judgments: int, scores: int | None, fields: dict[str, Any]
) -> MadeFrom:
    """The hashes of the first judgments and scores of a run. What was added later is no part of them.

    Agreed scores are an exception, since they replace some.
    """
    texts, scores_sha256 = run.texts(), ""
    if scores is not None and against is not None:
        scores_sha256 = digest(run.judgments(against), texts, scores)
    elif scores is not None:
        scores_sha256 = digest(run.physician_scores(), texts, scores) + digest(run.adjudicated(), texts)
    figures = {name: value for name, value in fields.items() if name != "made_from"}
    return MadeFrom(
        judgments=judgments,
        judgments_sha256=digest(run.judgments(judge), texts, judgments),
        scores=scores,
        scores_sha256=scores_sha256,
        figures_sha256=sha256(json.dumps(figures, sort_keys=True).encode()).hexdigest(),
    )
