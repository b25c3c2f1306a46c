"""The parts of a page that show one judge in one run, gathered from the run's records."""

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from medjudge.judge.panel import PanelRecord, read_panel_record
from medjudge.judge.study_summary import AgainstKind
from medjudge.records import Judgment, PhysicianScore
from medjudge.report.boards import JudgedRun, answer_link
from medjudge.report.changes import Changes, changes
from medjudge.report.contents import Contents
from medjudge.report.words import Words, code
from medjudge.rounds import binding_by_answer, level_of, scored_rounds
from medjudge.scale import USABLE_FROM, consensus
from medjudge.store import Run
from medjudge.validation.items import ItemStudy, Verdict, item_verdicts, read_item_study
from medjudge.validation.rates import Usability
from medjudge.validation.records import Study, read_study

_MOST_ROWS = 200
"""The most verdicts that the page lists."""


class JudgePart(NamedTuple):
    """A judge in a run, besides its rates.

    Attributes:
        hint: What to do to learn more of it.
        usability: Prediction-powered rates, the best model first.
        studies: As `medjudge validate` wrote them; nothing is measured again.
        apart: The answers on which it and physicians differ, by harm.
    """

    run: Contents
    judged: JudgedRun
    panel: PanelRecord | None
    hint: Markup | None
    usability: Usability | None
    studies: list[Study]
    apart: list["Apart"]
    changes: Changes | None


def judge_part(run: Contents, judged: JudgedRun, words: Words, since: Contents | None = None) -> JudgePart:
    """Everything that the page shows of a judge in a run, without the leaderboard.

    Args:
        words: The page's language.
        since: An earlier run.

    Raises:
        InputError: A file of `agreement/` is not a study of this version, or the runs have no question in common.
    """
    judge, judgments = judged.judge, run.judgments[judged.judge]
    scored = {judgment.answer_key for judgment in judgments if judgment.score is not None}
    compared = any(score.answer_key in scored for score in run.scores)
    seen = run.seen(judge) & {score.question_id for score in run.scores}
    read = studies_of(run.run, judge)
    studies = [study for study in read if study.changed is None]
    return JudgePart(
        run,
        judged,
        read_panel_record(run.run, judge),
        _hint(run, judge, read, words, len(seen)) if compared or len(read) > len(studies) else None,
        _usability(studies),
        studies,
        _apart(judgments, run.scores, judged.place) if compared and not seen else [],
        None if since is None else changes(run, since, judged),
    )


def provenance(manifest: dict[str, Any], words: Words) -> list[str]:
    """The provenance of a run, for readers who repeat it."""
    lines: list[str] = []
    benchmark = manifest.get("benchmark") or {}
    if benchmark.get("sha256"):
        values = {"source": benchmark["source"], "questions": benchmark.get("questions", 0)}
        sha256 = benchmark["sha256"][:12]
        lines.append(words("Benchmark {source}: {questions} questions, sha256 {sha256}.", sha256=sha256, **values))
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


def _hint(run: Contents, judge: str, studies: Sequence[Study], words: Words, overlap: int) -> Markup | None:
    """The next step: where a study is stale, or where nothing was measured against the scores of the run.

    Args:
        overlap: How many of the questions with scores the judge was trained or tuned on.
    """
    command = f"medjudge validate {shlex.quote(str(run.run.path))} --judge {shlex.quote(judge)}"
    stale = next((study for study in studies if study.changed is not None), None)
    if stale is not None:
        against = f" --against {shlex.quote(stale.against)}" if stale.against_kind == AgainstKind.JUDGE else ""
        return words(
            "A study is stale and not shown: {reason}; {command} measures again.",
            reason=words.known(stale.changed),
            command=code(command + against),
        )
    if any(study.against_kind != AgainstKind.JUDGE for study in studies):
        return None
    if overlap:
        return words(
            "It was trained or tuned on {n} of the questions that have scores here, so its agreement with these scores "
            "would mean nothing.",
            n=overlap,
        )
    if run.against_kind == AgainstKind.PHYSICIANS:
        return words("Physicians scored answers of this run; {command} measures the agreement.", command=code(command))
    return words("This run has constructed levels; {command} measures the agreement.", command=code(command))


def _usability(studies: Sequence[Study]) -> Usability | None:
    """The prediction-powered rates of the study against physicians, the best model first."""
    rates = next((study.usability for study in studies if study.usability), None)
    if rates is None:
        return None
    best_first = sorted(rates.by_model.items(), key=lambda model: -(model[1].prediction_powered["value"] or 0))
    return rates.model_copy(update={"by_model": dict(best_first)})


# --- Where judge and physicians differ ------------------------------------------------------------------------------


class Apart(NamedTuple):
    """An answer that only the judge calls usable, or on which judge and physicians are two levels apart or more."""

    question_id: str
    model: str
    judge: int
    physicians: int
    dangerous: bool
    link: str


def _apart(judgments: Sequence[Judgment], scores: Sequence[PhysicianScore], place: int) -> list[Apart]:
    """The answers on which a judge and physicians differ, by harm."""
    binding, by_harm = binding_by_answer(scores), []
    for key, rounds in scored_rounds(judgments).items():
        if key in binding:
            judge, physicians = level_of(rounds), consensus(score.level for score in binding[key])
            dangerous, distance = judge >= USABLE_FROM > physicians, abs(judge - physicians)
            if dangerous or distance >= 2:
                # Dangerous errors, the lowest level by physicians first; then lenient ones; then strict ones.
                harm = (not dangerous, judge < physicians, physicians if dangerous else -distance, -distance)
                row = Apart(key.question_id, key.model, judge, physicians, dangerous, answer_link(place, key))
                by_harm.append((harm, row))
    return [row for _, row in sorted(by_harm, key=lambda pair: pair[0])]


# --- Verdicts on items -----------------------------------------------------------------------------------------------


class ItemSection(NamedTuple):
    """A judge's verdicts on items in a run, for the page.

    Attributes:
        rows: The first verdicts: disagreements, then the least certain ones.
        verdicts: How many there are.
        language: The language of each question, by id.
    """

    study: ItemStudy
    rows: list[Verdict]
    verdicts: int
    language: dict[str, str]


def item_section(run: Run, judge: str) -> ItemSection | None:
    """The section of a judge that checked items; None where these are not scored yet.

    Raises:
        InputError: A record breaks a rule.
    """
    study = read_item_study(run, judge)
    if study is None:
        return None
    verdicts = item_verdicts(run, judge, run.item_scores())
    verdicts.sort(key=lambda one: (not one.disagrees, abs(one.probability - 0.5)))
    language = {question.id: question.language for question in run.questions()}
    return ItemSection(study, verdicts[:_MOST_ROWS], len(verdicts), language)
