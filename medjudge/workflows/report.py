"""`medjudge report`: usability rates of runs, their leaderboards, the HTML page, plots, and tables for papers."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from typing import Any

from medjudge.errors import InputError
from medjudge.files import write_json, write_whole
from medjudge.judge.pairs import compared_by
from medjudge.judge.panel import PanelRecord, read_panel_record
from medjudge.report.boards import Board, JudgedRun, judged_runs, leaderboards
from medjudge.report.contents import read_runs
from medjudge.report.page import report_page
from medjudge.report.tables import Kind, agreement_csv, latex, markdown, rates_csv
from medjudge.store import Run
from medjudge.validation.status import ValidationStatus
from medjudge.validation.usability import (
    Coverage,
    ModelUsability,
    QuestionCounts,
    best_first,
    count_questions,
    coverage,
    score_models,
)
from medjudge.validation.validations import statuses_in
from medjudge.workflows.run_folder import judge_of_run


@dataclass(frozen=True)
class Scores:
    """The content of `scores.json` of a run, and how many answers no judgment scored.

    Attributes:
        judge: The judge's name.
        validation_status: The judge's, overall (`OP`) and by category.
        models: Rates by model, the highest first.
        coverage: The numbers of answers, and of those without a score, by reason.
        questions: The numbers of questions, and of those without an answer or a score.
        truncated: By model, the number of answers that ended at the token limit.
        panel: What each member did and cost, where these are the judgments of a panel.
    """

    judge: str
    validation_status: dict[str, ValidationStatus]
    models: dict[str, ModelUsability]
    coverage: Coverage
    questions: QuestionCounts
    truncated: dict[str, int]
    panel: PanelRecord | None = None

    def as_json(self) -> dict[str, Any]:
        """The object of `scores.json`."""
        return {
            "judge": self.judge,
            "validation_status": {part: status._asdict() for part, status in self.validation_status.items()},
            "models": {model: rates.as_json() for model, rates in self.models.items()},
            "answers": {**self.coverage._asdict(), "reasons": dict(self.coverage.reasons)},
            "questions": self.questions._asdict(),
            "truncated": self.truncated,
            **({"panel": self.panel.model_dump(mode="json")} if self.panel else {}),
        }


def write_scores(run: Run, judge_name: str) -> Scores:
    """Writes `scores.json`, the usability rates from a judge's judgments, and returns what it holds."""
    answers, scheme = run.answers(), run.scheme()
    judgments = run.judgments(judge_name)
    models = list(dict.fromkeys(answer.model for answer in answers))
    statuses = statuses_in(run, judge_name)
    questions, keys = run.questions(), [answer.key for answer in answers]
    rates = best_first(score_models(questions, judgments, models, scheme, keys))
    counts = count_questions(questions, keys, judgments)
    panel = read_panel_record(run, judge_name)
    truncated = {model: sum(answer.truncated for answer in answers if answer.model == model) for model in models}
    scores = Scores(judge_name, statuses, rates, coverage(keys, judgments), counts, truncated, panel)
    write_json(run.path / "scores.json", scores.as_json())
    return scores


@dataclass(frozen=True)
class Report:
    """The files written, and what they say.

    Attributes:
        page: The HTML page.
        leaderboards: One for each benchmark and judge, because rates of different ones do not compare.
        plots: The plot files, if any.
        notes: What the runs say about their data.
    """

    page: Path
    leaderboards: list[Board]
    plots: list[Path]
    notes: list[str]

    def as_json(self) -> dict[str, Any]:
        """The object that `report --json` prints."""
        boards = [board.as_json() for board in self.leaderboards]
        # One leaderboard is the whole answer; rates of different benchmarks or judges stay apart.
        only = {name: boards[0][name] for name in ("models", "validation_status")} if len(boards) == 1 else {}
        return {**only, "leaderboards": boards, "plots": [str(file) for file in self.plots]}

    def __repr__(self) -> str:
        models = sum(len(board.models) for board in self.leaderboards)
        return f"{self.page}: {len(self.leaderboards)} leaderboards, {models} models, {len(self.plots)} plots"


def write_report(
    runs: Sequence[Path | str],
    *,
    judge: str | None = None,
    html: Path | None = None,
    plots: Path | None = None,
    language: str = "en",
    since: Path | str | None = None,
) -> Report:
    """Writes the HTML page of one or several runs, and `scores.json` of each.

    Args:
        runs: Run folders.
        judge: Whose judgments; of each run the last one that judged unless given.
        html: Where the page goes; `report.html` of the first run unless given.
        plots: A folder for plots of rates, agreement and calibration, as SVG; none are written unless given.
        language: What the page is written in, `en` or `zh`.
        since: An earlier run; the page says what changed since then.

    Raises:
        InputError: A folder is not a run, it has no judgments, or plots are asked for without matplotlib.
    """
    if html is not None and html.is_dir():
        raise InputError(f"--html {html}: is a folder; name the file in it that is to be written")
    if plots is not None and find_spec("matplotlib") is None:
        raise InputError("--plots: plots need matplotlib; pip install 'medjudge[report]'")
    folders = [Run.existing(Path(path)) for path in runs]
    earlier = None if since is None else Run.existing(Path(since))
    # A run that only compares models has no leaderboard.
    judged = [folder for folder in folders if folder.judges() or judge or not compared_by(folder)]
    boards = leaderboards(_judged(judged, judge))
    page = html or folders[0].path / "report.html"
    write_whole(page, report_page(folders, language, earlier))
    files = []
    if plots is not None:
        from medjudge.report.plots import write_plots  # matplotlib is an extra

        files = write_plots(plots, folders, language)
    return Report(page, boards, files, list(dict.fromkeys(note for folder in folders for note in folder.notes())))


def _judged(runs: Sequence[Run], judge: str | None) -> list[JudgedRun]:
    """The runs, each by the judge that was asked for or judged last; writes `scores.json` of each."""
    judges = [judge_of_run(run, judge) for run in runs]
    for run, judge_name in zip(runs, judges, strict=True):
        write_scores(run, judge_name)
    return judged_runs(read_runs(runs, judges))


def tables_for_papers(
    runs: Sequence[Path | str], format: str, kinds: Sequence[Kind] = (), judge: str | None = None
) -> tuple[str, list[str]]:
    """Tables of the judges' scores in the paper's layout; `scores.json` of each run is written, too.

    Args:
        runs: Run folders.
        format: csv, latex or markdown.
        kinds: Which tables; all that the format holds unless given.
        judge: Whose judgments; of each run the last one that judged unless given.

    Returns:
        The text, and the notes for which its format has no place.

    Raises:
        InputError: Agreement is asked for and no judge is validated, or one CSV is to hold tables of different columns.
    """
    if format == "csv" and "agreement" in kinds and len(kinds) > 1:
        raise InputError("--format csv: agreement has columns of its own; give --table agreement alone")
    judged = _judged([Run.existing(Path(path)) for path in runs], judge)
    if "agreement" in kinds and not any(run.study for run in judged):
        raise InputError(
            f"--table agreement: nothing is measured yet; run "
            f"`medjudge validate {quote(str(judged[0].path))} --judge {quote(judged[0].judge)}`"
        )
    if format != "csv":
        return {"latex": latex, "markdown": markdown}[format](judged, kinds), []
    text = agreement_csv(judged) if "agreement" in kinds else rates_csv(judged, kinds)
    return text, list(dict.fromkeys(note for run in judged for note in run.notes))
