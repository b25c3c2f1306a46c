"""The parts of a page that show one run, gathered from its records."""

import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import quote

from markupsafe import Markup

from medjudge.judge.items import judges_of_items
from medjudge.judge.panel import read_panel_record
from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateCheck, GateResult, Measures
from medjudge.records import AnswerKey, Judgment, PhysicianScore
from medjudge.report.contents import Contents, effort
from medjudge.report.words import Words, code
from medjudge.rounds import binding_by_answer, level_of, scored_rounds
from medjudge.scale import USABLE_FROM, consensus
from medjudge.scheme import ReferenceAgreement
from medjudge.store import Run
from medjudge.validation.items import ItemStudy, Verdict, item_verdicts, read_item_study
from medjudge.validation.ranking import first_of_two
from medjudge.validation.rates import UsabilityRate
from medjudge.validation.records import Study, read_study

_PARTS = ("category", "subcategory", "model", "difficulty", "language")
MOST_ROWS = 200
"""The most verdicts that the page lists."""
_NAMED = 4
"""Failed checks that the verdict names; the table holds all."""


class Unit(NamedTuple):
    """The format of a check's numbers, and whether they must be `at least` or `at most` what is required."""

    form: str
    scale: int
    unit: str
    bound: str


_UNITS = {
    CheckKind.USABLE_AGREEMENT: Unit("%.1f", 100, " %", "at least"),
    CheckKind.COHEN_KAPPA: Unit("%.2f", 1, "", "at least"),
    CheckKind.COVERAGE: Unit("%.2f", 1, "", "at least"),
    CheckKind.TEACHER_MARGIN: Unit("%+.1f", 100, " points", "at least"),
    CheckKind.PROBE_FLIPS: Unit("%.1f", 100, " %", "at most"),
}


class ShownCheck(NamedTuple):
    """A check of the gate with the way its numbers are written."""

    check: GateCheck
    unit: Unit


class ShownStudy(NamedTuple):
    """A study with what the page shows with it.

    Attributes:
        by_part: A list of groups: name, and measures by row.
        two: Which of two models is first.
    """

    study: Study
    verdict: Markup
    checks: list[ShownCheck]
    by_part: list[tuple[str, dict[str, Measures]]]
    paper: ReferenceAgreement | None
    plots: list[dict[str, str]] | None
    two: str | None


class UsabilityTable(NamedTuple):
    """Prediction-powered rates in groups (overall, by model, by category), each a list of names with their rates."""

    answers: int
    scored: int
    groups: list[tuple[str, list[tuple[str, UsabilityRate]]]]


def section(run: Contents, run_index: int, words: Words) -> dict[str, Any]:
    """Everything that `page.html` shows of one run, without the leaderboards.

    Each judge's studies as `medjudge validate` wrote them, and the answers on which it and physicians differ.
    Nothing is measured again here.

    Args:
        run_index: The run's position on the page, for links to its answers.
        words: The page's language.
    """
    judges = {}
    scored_questions = {score.question_id for score in run.scores}
    for judge, judgments in run.judgments.items():
        compared, seen = _overlaps(judgments, run.scores), run.seen(judge) & scored_questions
        read = studies_of(run.run, judge)
        studies = [study for study in read if study.changed is None]
        studied = any(study.against_kind != AgainstKind.JUDGE for study in studies)
        judges[judge] = {
            "name": judge,
            "panel": read_panel_record(run.run, judge),
            "hint": _stale(run, read, words)
            or _hint(run, judge, words, studied=studied, comparable=compared, overlap=len(seen)),
            "usability": _usability(studies),
            "effort": effort(run, judge),
            "studies": [_shown(study, words) for study in studies],
            "apart": _apart(judgments, run.scores, run_index) if compared and not seen else [],
        }
    return {
        "name": run.name,
        "notes": [words.known(note) for note in run.run.notes()],
        "provenance": _provenance(run.manifest, words),
        "judges": judges,
        "against": run.against_kind,
    }


def _overlaps(judgments: Sequence[Judgment], scores: Sequence[PhysicianScore]) -> bool:
    return bool(
        {judgment.answer_key for judgment in judgments if judgment.score is not None}
        & {score.answer_key for score in scores}
    )


def _provenance(manifest: dict[str, Any], words: Words) -> list[str]:
    """The provenance of a run, for readers who repeat it."""
    lines: list[str] = []
    benchmark = manifest.get("benchmark") or {}
    if benchmark.get("sha256"):
        counts = {"questions": benchmark["questions"], "sha256": benchmark["sha256"][:12]}
        source = words(
            "Benchmark {source}: {questions} questions, sha256 {sha256}.", source=benchmark["source"], **counts
        )
        lines.append(source)
    version = manifest.get("versions", {}).get("medjudge")
    if version and manifest.get("updated"):
        lines.append(f"medjudge {version}, {manifest['updated']}.")
    return lines


# --- How far a judge may be trusted ---------------------------------------------------------------------------------


def studies_of(run: Run, judge: str) -> list[Study]:
    """A judge's study against physicians first, then those against other judges of the run.

    Raises:
        InputError: A file of `agreement/` is not a study of this version.
    """
    studies = [read_study(run, judge), *(read_study(run, judge, other) for other in run.judges())]
    return [study for study in studies if study is not None]


def _stale(run: Contents, studies: Sequence[Study], words: Words) -> Markup | None:
    """The reason why the page leaves out a study of the run; None where every study holds."""
    study = next((study for study in studies if study.changed is not None), None)
    if study is None:
        return None
    against = f" --against {shlex.quote(study.against)}" if study.against_kind == AgainstKind.JUDGE else ""
    command = code(f"medjudge validate {shlex.quote(str(run.run.path))} --judge {shlex.quote(study.judge)}{against}")
    return words(
        "A study is stale and not shown: {reason}; {command} measures again.",
        reason=words.known(study.changed),
        command=command,
    )


def _hint(run: Contents, judge: str, words: Words, *, studied: bool, comparable: bool, overlap: int) -> Markup | None:
    """A hint at what to do to learn more, in a line.

    Args:
        studied: Whether the run holds a study of this judge already.
        comparable: Whether the run holds scores of answers that the judge scored.
        overlap: How many of the questions with scores the judge was trained or tuned on.
    """
    if studied or not comparable:
        return None
    if overlap:
        return words(
            "It was trained or tuned on {n} of the questions that have scores here, so its agreement with these scores "
            "would mean nothing.",
            n=overlap,
        )
    command = code(f"medjudge validate {shlex.quote(str(run.run.path))} --judge {shlex.quote(judge)}")
    if run.against_kind == AgainstKind.PHYSICIANS:
        return words("Physicians scored answers of this run; {command} measures the agreement.", command=command)
    return words("This run has constructed levels; {command} measures the agreement.", command=command)


def _usability(studies: Sequence[Study]) -> UsabilityTable | None:
    """Prediction-powered rates of the study against physicians, the best model first."""
    usability = next((study.usability for study in studies if study.usability), None)
    if usability is None:
        return None
    by_model = sorted(
        usability.by_model.items(), key=lambda model_and_rate: -(model_and_rate[1].prediction_powered["value"] or 0)
    )
    groups = [
        ("", [("Overall", usability.overall)]),
        ("By model", by_model),
        ("By category", list(usability.by_category.items())),
    ]
    return UsabilityTable(usability.answers, usability.scored, groups)


# --- A study, made ready for the page -------------------------------------------------------------------------------


def _shown(study: Study, words: Words) -> ShownStudy:
    by_part = {part: getattr(study, f"by_{part}") for part in _PARTS}
    return ShownStudy(
        study=study,
        verdict=_verdict(study.gate, words),
        checks=[ShownCheck(check, _UNITS[check.kind]) for check in study.gate.checks],
        by_part=[("", {"overall": study.overall}), *by_part.items()],
        paper=study.scheme.reference_agreement,
        plots=_plots(study, words),
        two=first_of_two(study.ranking, study.against) if study.ranking else None,
    )


def _verdict(gate: GateResult, words: Words) -> Markup:
    """The gate in one sentence."""
    failed = [words.known(check.check) for check in gate.in_state(CheckState.FAILED)]
    counts = {"total": len(gate.checks), "inconclusive": len(gate.in_state(CheckState.INCONCLUSIVE))}
    if gate.passed:
        if gate.usual:
            return words("The gate is passed: all {total} checks hold on these scores.", **counts)
        return words("A custom gate is passed, not the default one: all {total} checks hold.", **counts)
    if not failed:
        return words(
            "The gate is inconclusive: no check failed, but {inconclusive} of {total} cannot be decided by these "
            "scores.",
            **counts,
        )
    named = "; ".join(map(str, failed[:_NAMED]))
    if len(failed) > _NAMED:
        named = words("{named}; and {n} more", named=named, n=len(failed) - _NAMED)
    values = {**counts, "named": named, "failed": len(failed)}
    if len(failed) == 1:
        sentence = words("The gate is failed: {failed} of {total} checks does not hold ({named}).", **values)
    else:
        sentence = words("The gate is failed: {failed} of {total} checks do not hold ({named}).", **values)
    if not counts["inconclusive"]:
        return sentence
    return words.sentences(sentence, words("{inconclusive} cannot be decided by these scores.", **counts))


def _plots(study: Study, words: Words) -> list[dict[str, str]] | None:
    """Images as `data:` addresses, with their numbers as JSON; None where matplotlib, an extra, is missing."""
    if find_spec("matplotlib") is None:
        return None
    from medjudge.report.drawing import in_page
    from medjudge.report.plots import plots

    return [in_page(plot) for plot in plots(study, words)]


# --- Where judge and physicians differ ------------------------------------------------------------------------------


class Apart(NamedTuple):
    """An answer that only the judge calls usable, or on which judge and physicians are two levels apart or more."""

    question_id: str
    model: str
    judge: int
    physicians: int
    link: str

    @property
    def dangerous(self) -> bool:
        """True if only the judge calls it usable."""
        return self.judge >= USABLE_FROM > self.physicians

    @property
    def harmless(self) -> tuple[int, int, int]:
        """A key that sorts by harm: dangerous errors, the lowest level by physicians first; lenient; strict."""
        distance = abs(self.judge - self.physicians)
        if self.dangerous:
            return 0, self.physicians, -distance
        return (1 if self.judge > self.physicians else 2), -distance, 0


def _apart(judgments: Sequence[Judgment], scores: Sequence[PhysicianScore], run_index: int) -> list[Apart]:
    """The answers on which a judge and physicians differ, by harm."""
    levels = {key: consensus(score.level for score in binding) for key, binding in binding_by_answer(scores).items()}
    compared = (
        Apart(key.question_id, key.model, level_of(rounds), levels[key], answer_link(run_index, key))
        for key, rounds in scored_rounds(judgments).items()
        if key in levels
    )
    apart = [one for one in compared if one.dangerous or abs(one.judge - one.physicians) >= 2]
    return sorted(apart, key=lambda one: one.harmless)


def answer_link(run_index: int, key: AnswerKey) -> str:
    """The address of an answer within the page; `page.js` reads it."""
    return f"#answer/{run_index}/{quote(key.question_id, safe='')}/{quote(key.model, safe='')}/{key.sample}"


# --- Verdicts on items -----------------------------------------------------------------------------------------------


class ItemRow(NamedTuple):
    """One verdict: what the judge and more than half of the physicians say; `physicians` is None where nobody did.

    `tied` says that as many physicians say met as not met.
    """

    verdict: Verdict
    physicians: bool | None
    tied: bool


class ItemSection(NamedTuple):
    """A judge's verdicts on items in a run, for the page.

    Attributes:
        study: The scores by them.
        run: The run's name.
        file: Where all verdicts are.
        rows: The first of them: disagreements, then the least certain ones.
        verdicts: How many there are.
        language: The language of each question, by id.
    """

    study: ItemStudy
    run: str
    file: str
    rows: list[ItemRow]
    verdicts: int
    language: dict[str, str]


def item_sections(runs: Sequence[Run], names: Sequence[str]) -> list[ItemSection]:
    """The sections of all judges of all runs that checked items.

    Raises:
        InputError: A record breaks a rule.
    """
    return [
        _item_section(run, name, judge, study)
        for run, name in zip(runs, names, strict=True)
        for judge in judges_of_items(run)
        if (study := read_item_study(run, judge)) is not None
    ]


def _item_section(run: Run, name: str, judge: str, study: ItemStudy) -> ItemSection:
    verdicts = item_verdicts(run, judge, run.item_scores())
    verdicts.sort(key=lambda one: (not one.disagrees, abs(one.probability - 0.5)))
    rows = [ItemRow(one, said := one.consensus, said is None and bool(one.physicians)) for one in verdicts[:MOST_ROWS]]
    language = {question.id: question.language for question in run.questions()}
    return ItemSection(study, name, f"items/{judge}.jsonl", rows, len(verdicts), language)
