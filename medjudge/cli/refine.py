"""`medjudge refine`: better checklists and rubrics from what judge and physicians disagree on."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.refine.proposers import Proposer
    from medjudge.store import Run


def refine(
    run: options.RunFolder,
    judge: options.JudgeOrJudgments = "local",
    proposer: Annotated[
        Optional[str],
        typer.Option(help="Who writes: openai:MODEL, a chat model's folder, or editor. None: as --dry-run."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list disagreements and causes.")] = False,
    limit: Annotated[
        Optional[int], typer.Option(min=1, help="At most N proposals, the surest disagreements first.")
    ] = None,
    held_out: Annotated[
        float, typer.Option(min=0.05, max=0.95, help="Share of models a question, and of conversations, that decide.")
    ] = 0.5,
    fdr: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of the listed disagreements that may be noise.")
    ] = 0.1,
    fdr_kept: Annotated[
        float, typer.Option(min=0.001, max=0.5, help="Share of the kept changes that may be noise.")
    ] = 0.2,
    out: Annotated[Optional[Path], typer.Option(help="Folder for the results; refinement/ of the run.")] = None,
    seed: options.Seed = 0,
    rounds: options.Rounds = 1,
    base_url: options.BaseUrl = None,
    proposer_base_url: Annotated[
        Optional[str],
        typer.Option(metavar="URL", help="Server of the proposer, if another.", rich_help_panel=options.SERVERS),
    ] = None,
    concurrency: options.Concurrency = 8,
    tokens_per_minute: options.TokensPerMinute = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
    as_json: options.AsJson = False,
) -> None:
    """Mend checklists and rubrics where judge and physicians disagree beyond noise.

    A change is kept only where agreement on held-out physicians' scores improves by more than its standard error. The
    run's questions stay; the new ones are refinement/questions.jsonl. Exits with 1 where a proposal could not be read
    or an answer not be scored.
    """
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.cli.output import console, print_json
    from medjudge.judge.open import check_judge_ref, resolve_judge
    from medjudge.models.hardware import choose_device
    from medjudge.store import Run
    from medjudge.workflows.judge import JudgeOptions
    from medjudge.workflows.refine import Wanted, refine_run, require_reader, why_not_refined

    choose_device(device)
    folder = Run.existing(run)
    place = out or run / "refinement"
    chosen = resolve_judge(judge, folder)
    at_most = Limit(max_cost, prices)
    check_judge_ref(chosen, base_url, offline, at_most)
    open_proposer = None
    if proposer is not None and not dry_run:
        require_reader(chosen)
        server = Server(proposer_base_url or base_url, concurrency, tokens_per_minute)
        open_proposer = _proposer(proposer, folder, place, device, server, at_most, seed, offline)
    judging_server = Server(base_url, concurrency, tokens_per_minute)
    judging = JudgeOptions(device=device, rounds=rounds, server=judging_server, limit=at_most)
    wanted = Wanted(seed, held_out, fdr, fdr_kept, limit)
    with folder.lock():
        summary = refine_run(folder, chosen, judging, wanted, place, open_proposer)
    if as_json:
        print_json(summary)
    screen = console(as_json)
    _print_disagreements(screen, summary)
    _print_left_out(screen, summary, folder.judgments_file(chosen.name))
    if summary["proposals"] is not None:
        _print_changes(screen, summary, place)
    elif why := why_not_refined(chosen):
        screen.print(f"\n{place / 'disagreements.jsonl'}; no proposals for judge {chosen.name}: {why}")
    else:
        screen.print(f"\n{place / 'disagreements.jsonl'}; next: medjudge refine {run} --judge {judge} --proposer ...")
    lost = summary["proposals"] or {}
    if summary["unscored"] or any(lost.get(name) for name in ("unreadable", "failed", "unscored")):
        raise typer.Exit(1)


def _proposer(
    spec: str, run: "Run", place: Path, device: str, server: "Server", limit: "Limit", seed: int, offline: bool
) -> "Callable[[], Proposer]":
    """Finds out before any work whether the proposer may run; it is loaded when something is asked."""
    from medjudge.answer.transformers_engine import require_chat_model
    from medjudge.chat_api.client import check_server
    from medjudge.chat_api.spending import Spending
    from medjudge.judge.folder import CARD_FILE, read_card
    from medjudge.refine.proposers import ApiProposer, EditorProposer, LocalProposer

    if spec == "editor":
        editor = EditorProposer(place / "editing")
        return lambda: editor
    if spec.startswith("openai:"):
        name = spec.removeprefix("openai:")
        if not name:
            raise InputError("--proposer openai: no model named; write for example --proposer openai:gpt-4o")
        check_server(f"--proposer {spec}", name, server.base_url, offline, limit)
        return lambda: ApiProposer(name, server, Spending(run, limit), seed)
    model = spec
    if (Path(spec) / CARD_FILE).is_file():
        card = read_card(Path(spec))
        if card.kind != "generative":
            raise InputError(f"--proposer {spec}: an {card.kind} judge writes no text; take a chat model's folder")
        # A judge's adapter makes it write scores; the model underneath writes text.
        model = card.base_model
    require_chat_model(model)
    return lambda: LocalProposer(model, device)


def _print_disagreements(screen: "Console", summary: dict[str, Any]) -> None:
    from rich.table import Table

    found = summary["disagreements"]
    screen.print(
        f"Judge {summary['judge']} against {summary['raters']} physicians: {summary['scored_answers']} answers; "
        f"{summary['held_out_answers']} of them are held out and not looked at here"
    )
    screen.print(f"{len(found)} disagreements beyond noise (false discovery rate {summary['fdr']:g})\n")
    table = Table(box=None, pad_edge=False, header_style="bold", collapse_padding=True)
    for column in ("", "n", "judge minus\nphysicians", "size\n(noise)", "adjusted\np", "cause suggested", "evidence"):
        table.add_column(column, justify="right" if column == "n" else "left", overflow="fold")
    for one in found:
        table.add_row(
            one["name"],
            str(one["answers"]),
            f"{one['shift']:+.1f}",
            f"{one['size']:.1f} ({one['noise']:.1f})",
            f"{one['adjusted_p']:.3f}" if one["adjusted_p"] >= 0.001 else "<0.001",
            one["cause_suggested"],
            one["evidence"],
        )
    if found:
        screen.print(table)
    items = summary["flawed_items"]
    told = items["why"] or f"{items['listed']} of {items['questions']} questions in flawed_items.jsonl"
    screen.print(f"Questions that tell able models from others badly: {told}")


def _print_left_out(screen: "Console", summary: dict[str, Any], judgments: Path) -> None:
    """Why the command exits with 1 where physicians scored answers that the judge did not."""
    judge, lost, never = summary["judge"], summary["unscored"], summary["not_judged"]
    if never:
        screen.print(
            f"{never} scored answers have no judgment of {judge} and are left out: run the `medjudge eval` that made "
            f"{judgments} again, or add them to it"
        )
    if lost > never:
        why = "; ".join(f"{count}: {reason[:160]}" for reason, count in summary["unscored_why"].items())
        screen.print(
            f"{lost - never} scored answers could not be scored by {judge} and are left out ({why}); the same command "
            "makes failed requests again, the rest needs another judge"
        )


def _print_changes(screen: "Console", summary: dict[str, Any], place: Path) -> None:
    counts = summary["proposals"]
    screen.print(
        f"\n{counts['proposed']} proposals of {counts['asked']} asked for ({counts['declined']} without a change, "
        f"{counts['unreadable']} unreadable, {counts['failed']} requests failed); {len(summary['kept'])} kept"
    )
    for why, count in counts["left_out"].items():
        screen.print(f"  not asked for {count}: {why}")
    for one in summary["kept"]:
        screen.print(
            f"  kept      {one['name']}: {one['improvement']:.2f} levels nearer to the physicians on held-out answers "
            f"(standard error {one['standard_error']:.2f}, adjusted p {one['adjusted_p']:.3f})"
        )
    for one in summary["not_kept"]:
        screen.print(f"  not kept  {one['name']}: {one['why']}")
    joint = summary["held_out"]
    if joint is not None and summary["kept"]:
        for measure, name in (("usable_agreement", "usable agreement"), ("quadratic_kappa", "quadratic kappa")):
            before, after = joint["before"][measure]["value"], joint["after"][measure]["value"]
            if before is not None and after is not None:
                screen.print(f"{name} on all {joint['answers']} held-out answers: {before:.2f} to {after:.2f}")
        screen.print(joint["note"])
    screen.print(f"\n{place / 'changes.diff'}; next: medjudge eval --benchmark {place / 'questions.jsonl'}")
