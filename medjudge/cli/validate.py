"""`medjudge validate`: a judge against physicians' scores."""

import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError

if TYPE_CHECKING:
    from medjudge.judge.open import JudgeRef
    from medjudge.judge.study import Study
    from medjudge.records import PhysicianScore
    from medjudge.store import Run
    from medjudge.workflows.validate import LeaveOut

_SCORES, _MORE = "Physicians' scores", "Further questions"


class IntervalMethod(str, Enum):
    """Kinds of bootstrap interval."""

    bca = "bca"
    percentile = "percentile"


class Part(str, Enum):
    """What `--leave-out` keeps from the judge."""

    model = "model"
    category = "category"


def validate(
    run: options.RunFolder,
    judge: options.JudgeOrJudgments = "local",
    physicians: Annotated[
        Optional[Path],
        typer.Option(
            help="Their scores: .jsonl, .csv, .tsv, .xlsx, or a Label Studio export (.json); physician_scores.jsonl of "
            "the run unless given.",
            rich_help_panel=_SCORES,
        ),
    ] = None,
    rater_columns: Annotated[
        Optional[str],
        typer.Option(help="Of a wide table: the columns, one a rater: dr_a,dr_b", rich_help_panel=_SCORES),
    ] = None,
    label_map: Annotated[
        Optional[str],
        typer.Option(
            help="Labels other than 1-5: entailment=5,neutral=3 or a .csv, .json or .yaml.", rich_help_panel=_SCORES
        ),
    ] = None,
    against: Annotated[
        Optional[str],
        typer.Option(help="Compare with this judge of the run instead of physicians.", rich_help_panel=_SCORES),
    ] = None,
    teacher: Annotated[
        Optional[str], typer.Option(help="A judge of this run: is --judge as good as it?", rich_help_panel=_MORE)
    ] = None,
    margin: Annotated[
        Optional[float],
        typer.Option(
            min=0.0,
            max=1.0,
            help="Loss against the teacher that does not matter; the gate's unless given.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    probes: Annotated[
        bool, typer.Option("--probes", help="Can it be fooled? Judges changed answers.", rich_help_panel=_MORE)
    ] = False,
    probe_answers: Annotated[int, typer.Option(min=1, help="Answers that are probed.", rich_help_panel=_MORE)] = 250,
    leave_out: Annotated[
        Optional[Part], typer.Option(help="Train again without each model or category in turn.", rich_help_panel=_MORE)
    ] = None,
    config: Annotated[
        Optional[Path], typer.Option(help="--leave-out: YAML of the judge.", rich_help_panel=_MORE)
    ] = None,
    training_set: Annotated[
        Optional[Path], typer.Option(help="--leave-out: folder that `medjudge distill` wrote.", rich_help_panel=_MORE)
    ] = None,
    plan_width: Annotated[
        Optional[float],
        typer.Option(
            min=0.001,
            max=1.0,
            help="How many more scores an interval this wide needs, such as 0.03.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    error_rate: Annotated[
        float, typer.Option(min=0.001, max=0.999, help="How often a conformal set may miss.", rich_help_panel=_MORE)
    ] = 0.1,
    gate: Annotated[
        Optional[Path], typer.Option(help="What the judge must show; defaults as in configs/eval/gate.yaml.")
    ] = None,
    interval: Annotated[IntervalMethod, typer.Option(help="Kind of bootstrap interval.")] = IntervalMethod.bca,
    resamples: Annotated[int, typer.Option(min=100, help="Bootstrap resamples.")] = 10_000,
    seed: options.Seed = 0,
    rounds: options.Rounds = 1,
    base_url: options.BaseUrl = None,
    concurrency: options.Concurrency = 8,
    tokens_per_minute: options.TokensPerMinute = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure a judge against physicians, and check it against the acceptance gate.

    Refuses questions that the judge was trained on. Exits with 1 where the gate fails
    or an answer could not be scored.
    """
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.cli.output import console, print_json
    from medjudge.cli.verdict_screen import print_verdict
    from medjudge.files import file_sha256
    from medjudge.judge.open import check_judge_ref, resolve_judge
    from medjudge.models.hardware import choose_device
    from medjudge.store import Run
    from medjudge.validation.gate import read_gate
    from medjudge.validation.study import Settings, teacher_scores
    from medjudge.workflows.judge import JudgeOptions
    from medjudge.workflows.validate import Wanted, validate_judge

    # Everything that can be wrong is looked at before anything is judged or trained.
    choose_device(device)
    folder = Run.existing(run)
    scheme = folder.scheme()
    rules = scheme.gate if gate is None else read_gate(gate, scheme)
    if margin is not None:
        rules = rules.model_copy(update={"teacher_margin": margin})
    folds = _leave_out(leave_out, config, training_set)
    chosen = resolve_judge(judge, folder)
    at_most = Limit(max_cost, prices)
    check_judge_ref(chosen, base_url, offline, at_most)
    for option, name in (("--against", against), ("--teacher", teacher)):
        if name is not None and name not in folder.judges():
            there = ", ".join(folder.judges()) or "none"
            raise InputError(f"{option} {name}: no such judge in {run}; there are: {there}")
        if name in (chosen.name, "physicians", "constructed levels"):
            raise InputError(f"{option} {name}: {'the judge itself' if name == chosen.name else 'no name for a judge'}")
    if probes and chosen.imported:
        raise InputError(f"--probes: {chosen.name} is known by its judgments only; give its folder as --judge")
    file = physicians or folder.physicians_file
    if against is not None and (physicians or rater_columns or label_map):
        raise InputError("--against compares with a judge; leave out --physicians, --rater-columns and --label-map")
    if against is not None:
        scores = teacher_scores(folder.judgments(against))
    else:
        scores = _scores(file, physicians is None, rater_columns, label_map)
    settings = Settings(
        resamples,
        seed,
        "bca" if interval is IntervalMethod.bca else "percentile",
        error_rate,
        plan_width,
        rules,
    )
    wanted = Wanted(settings, against, teacher, probe_answers if probes else 0, folds)
    server = Server(base_url, concurrency, tokens_per_minute)
    judging = JudgeOptions(device=device, rounds=rounds, server=server, limit=at_most)
    with folder.lock():
        digest = "" if against else file_sha256(file)
        study = validate_judge(folder, chosen, scores, judging, wanted, against or file.name, digest)
    if against is None:
        _write_into_card(chosen, study)
    if against is None and file == folder.physicians_file:
        _warn_of_choice(folder)
    if as_json:
        print_json(study.model_dump(mode="json"))
    screen = console(as_json)
    print_verdict(screen, study)
    if plan_width is not None and study.usability is None:
        screen.print(f"\n--plan-width: nothing but the scored answers is judged; run `medjudge eval --run {run}` first")
    screen.print(f"\n{folder.agreement_file(chosen.name, against)} has everything; next: medjudge report {run}")
    if study.gate.passed is False or study.coverage < 1:
        raise typer.Exit(1)


def _scores(file: Path, of_run: bool, rater_columns: str | None, label_map: str | None) -> "list[PhysicianScore]":
    from medjudge.annotate.scores import parse_label_map, read_physician_scores
    from medjudge.store import Run

    if of_run and not file.exists():
        raise InputError(f"{file.parent}: has no {file.name}; give --physicians FILE")
    columns = [name.strip() for name in (rater_columns or "").split(",") if name.strip()]
    if of_run and not columns and not label_map:
        scores = Run(file.parent).physician_scores()  # a physician may be adding to them just now
    else:
        scores = read_physician_scores(file, columns, parse_label_map(label_map) if label_map else None)
    if not scores:
        raise InputError(f"{file}: no score in it")
    return scores


def _warn_of_choice(run: "Run") -> None:
    """Says so where the scores were asked for on answers that the judge was least sure of."""
    from medjudge.annotate.plan import plan_file, read_plans

    scored = {score.answer_key for score in run.physician_scores()}
    plans = read_plans(run) if plan_file(run).exists() else []
    if any(plan.which == "informative" and any(item.key in scored for item in plan.items) for plan in plans):
        print(
            f"{run.physicians_file}: holds answers chosen as informative, no random sample: such scores may correct a "
            "judge, not validate it",
            file=sys.stderr,
        )


def _leave_out(part: Part | None, config: Path | None, training_set: Path | None) -> "LeaveOut | None":
    from medjudge.workflows.validate import LeaveOut

    if part is None:
        return None
    if config is None or training_set is None:
        raise InputError(
            f"--leave-out {part.value}: give --config YAML and --training-set FOLDER, which the folds are trained from"
        )
    for file in (config, training_set / "train.jsonl", training_set / "validation.jsonl"):
        if not file.is_file():
            raise InputError(f"--leave-out {part.value}: {file}: no such file")
    return LeaveOut("model" if part is Part.model else "category", config, training_set)


def _write_into_card(chosen: "JudgeRef", study: "Study") -> None:
    """Adds the result to the judge folder, in place of an earlier one on the same file."""
    from medjudge.judge.open import built_in_folder, similarity_folder
    from medjudge.validation.card import write_into_card

    if chosen.card is None or chosen.folder is None or chosen.folder in (built_in_folder(), similarity_folder()):
        return
    write_into_card(chosen.folder, chosen.card, study)
