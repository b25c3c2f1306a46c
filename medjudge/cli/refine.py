"""`medjudge refine`: better checklists from what judge and physicians disagree on."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Optional

import typer

from medjudge.cli import groups, options
from medjudge.cli.options import SERVERS, flags, option

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(kw_only=True)
class Refine(groups.Screen, groups.Judging):
    """The options of `medjudge refine`."""

    run: options.RunFolder
    judge: options.JudgeOrJudgments = "local"
    proposer: Optional[str] = option(
        None,
        "PROPOSER",
        "The model that writes the new texts: openai:MODEL or a chat model's folder. Omit it to only list the "
        "disagreements.",
    )
    dry_run: bool = option(False, None, "Only list disagreements and causes; propose nothing.")
    limit: Optional[int] = option(None, "N", "Request at most N proposals, largest disagreements first.", min=1)
    held_out: float = option(
        0.5,
        "SHARE",
        "Share of each question's models that decide about changes.",
        min=0.05,
        max=0.95,
    )
    out: Optional[Path] = option(None, "FOLDER", "Folder for the results. Default: refinement/ in the run folder.")
    seed: options.Seed = 0
    proposer_base_url: Optional[str] = option(None, "URL", "Server of the proposer, if not --base-url.", SERVERS)


@flags
def refine(options: Refine) -> None:
    """Improve checklists where judge and physicians disagree.

    A change is kept only if it brings the judge closer to the physicians on held-out answers, with an interval above 0.
    The run's questions stay as they are; the improved ones are in refinement/questions.jsonl. Exits with 1 if a
    proposal was unreadable or an answer could not be scored.
    """
    from medjudge.store import Run

    Run.existing(options.run)
    from medjudge.cli.output import console
    from medjudge.workflows.refine import RefineOptions, refine_checklists

    run, judge = options.run, options.judge
    refinement = refine_checklists(
        run,
        judge,
        proposer=None if options.dry_run else options.proposer,
        options=RefineOptions(
            options.seed,
            options.held_out,
            options.limit,
            options.out,
            options.judging(),
            options.proposer_base_url,
            options.offline,
        ),
    )
    summary, folder = refinement.summary, refinement.folder
    screen = console(options.as_json, summary)
    _print_disagreements(screen, summary)
    _print_unscored(screen, summary, run)
    if summary["proposals"] is not None:
        _print_changes(screen, summary, folder, run)
    elif refinement.why_not_refinable:
        screen.print(
            f"\n{folder / 'disagreements.jsonl'}; no proposals for judge {summary['judge']}: "
            f"{refinement.why_not_refinable}"
        )
    else:
        command = f"medjudge refine {quote(str(run))} --judge {quote(judge)} --proposer ..."
        screen.print(f"\n{folder / 'disagreements.jsonl'}; next: {command}")
    if not refinement.complete:
        raise typer.Exit(1)


def _print_disagreements(screen: "Console", summary: dict[str, Any]) -> None:
    from medjudge.cli.output import bare_table

    screen.print(
        f"Judge {summary['judge']} against {summary['raters']} physicians: {summary['scored_answers']} answers, "
        f"{summary['held_out_answers']} of them held out and not examined here"
    )
    found = summary["disagreements"]
    screen.print(f"{len(found)} disagreements\n")
    table = bare_table()
    for column in ("", "n", "judge minus\nphysicians", "size", "suggested\ncause", "evidence"):
        table.add_column(column, justify="right" if column == "n" else "left", overflow="fold")
    for one in found:
        levels = (f"{one['shift']:+.1f}", f"{one['size']:.1f}")
        table.add_row(one["name"], str(one["answers"]), *levels, one["cause_suggested"], one["evidence"])
    if found:
        screen.print(table)


def _print_unscored(screen: "Console", summary: dict[str, Any], run: Path) -> None:
    """The reason why the command exits with 1 where physicians scored answers that the judge did not."""
    from medjudge.store import Run

    judge, not_judged, reasons = summary["judge"], summary["not_judged"], summary["unscored_why"]
    if not_judged:
        screen.print(
            f"{not_judged} scored answers have no judgment of {judge} and are left out: run the `medjudge eval` that "
            f"made {Run(run).judgments_file(judge)} again, or add them to it"
        )
    if reasons:
        why = "; ".join(f"{count}: {reason[:160]}" for reason, count in reasons.items())
        screen.print(
            f"{sum(reasons.values())} scored answers could not be scored by {judge} and are left out ({why}); the same "
            "command repeats failed requests, the rest needs another judge"
        )


def _print_changes(screen: "Console", summary: dict[str, Any], folder: Path, run: Path) -> None:
    counts = summary["proposals"]
    screen.print(
        f"\n{counts['proposed']} proposals from {counts['asked']} requests ({counts['declined']} without a change, "
        f"{counts['unreadable']} unreadable, {counts['failed']} failed); {len(summary['kept'])} kept"
    )
    for why, count in counts["left_out"].items():
        screen.print(f"  not requested for {count}: {why}")
    for change in summary["kept"]:
        screen.print(
            f"  kept      {change['name']}: {change['improvement']:.2f} levels closer to the physicians on "
            f"held-out answers ({change['low']:.2f} to {change['high']:.2f})"
        )
    for change in summary["not_kept"]:
        screen.print(f"  not kept  {change['name']}: {change['why']}")
    screen.print(
        f"\n{folder / 'changes.diff'}; next: medjudge eval --benchmark {quote(str(folder / 'questions.jsonl'))} "
        f"--answers {quote(str(run / 'answers.jsonl'))} --run {quote(f'{run}-refined')}"
    )
