"""`medjudge validate`: a judge against physicians' scores."""

from enum import Enum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError
from medjudge.shipped import config_file

if TYPE_CHECKING:
    from medjudge.validation.records import Study
    from medjudge.workflows.leave_out import LeaveOut
    from medjudge.workflows.validate_marks import MarksStudy

_SCORES, _MORE, _STATISTICS = "Physicians' scores", "Further questions", "Statistics"


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
    judge: options.JudgePanelOrJudgments = "local",
    physicians: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="Their scores: .jsonl, .csv, .tsv, .xlsx, or a Label Studio export (.json). Default: the run's "
            "physician_scores.jsonl.",
            rich_help_panel=_SCORES,
        ),
    ] = None,
    rater_columns: Annotated[
        Optional[str],
        typer.Option(
            metavar="COLUMNS", help="Columns of a wide table, one per rater: dr_a,dr_b", rich_help_panel=_SCORES
        ),
    ] = None,
    label_map: Annotated[
        Optional[str],
        typer.Option(
            metavar="MAP",
            help="Labels other than 1-5: entailment=5,neutral=3 or a .csv, .json or .yaml file.",
            rich_help_panel=_SCORES,
        ),
    ] = None,
    encoding: options.Encoding = None,
    against: Annotated[
        Optional[str],
        typer.Option(
            metavar="NAME", help="Compare with this judge of the run instead of physicians.", rich_help_panel=_SCORES
        ),
    ] = None,
    teacher: Annotated[
        Optional[str],
        typer.Option(metavar="NAME", help="A judge of the run: is --judge as good as it?", rich_help_panel=_MORE),
    ] = None,
    margin: Annotated[
        Optional[float],
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Loss against the teacher that does not matter. Default: the gate's.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    probes: Annotated[
        bool, typer.Option("--probes", help="Can it be fooled? Judges changed answers.", rich_help_panel=_MORE)
    ] = False,
    probe_answers: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many answers to probe.", rich_help_panel=_MORE)
    ] = 250,
    since: Annotated[
        Optional[Path],
        typer.Option(
            metavar="RUN",
            help="Has agreement changed since the study of this earlier run? Exits with 1 on an alarm.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    false_alarm_rate: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.001,
            max=0.5,
            help="--since: how often an unchanged judge raises an alarm.",
            rich_help_panel=_MORE,
        ),
    ] = 0.05,
    leave_out: Annotated[
        Optional[Part], typer.Option(help="Train again without each model or category in turn.", rich_help_panel=_MORE)
    ] = None,
    config: Annotated[
        Optional[str],
        typer.Option(
            metavar="NAME|FILE",
            help="--leave-out: the judge's training config, such as minilm-ordinal, or a YAML file.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    training_set: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FOLDER", help="--leave-out: folder that `medjudge distill` wrote.", rich_help_panel=_MORE
        ),
    ] = None,
    plan_width: Annotated[
        Optional[float],
        typer.Option(
            metavar="SHARE",
            min=0.001,
            max=1.0,
            help="How many more scores an interval this wide needs, such as 0.03.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    gate: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FILE",
            help="YAML file with other requirements. Default: those of the scheme.",
            rich_help_panel=_MORE,
        ),
    ] = None,
    scheme: options.Scheme = None,
    error_rate: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.001,
            max=0.999,
            help="How often a conformal set may miss.",
            rich_help_panel=_STATISTICS,
        ),
    ] = 0.1,
    interval: Annotated[
        IntervalMethod, typer.Option(help="Kind of bootstrap interval.", rich_help_panel=_STATISTICS)
    ] = IntervalMethod.bca,
    resamples: Annotated[
        int, typer.Option(metavar="N", min=100, help="Bootstrap resamples.", rich_help_panel=_STATISTICS)
    ] = 10_000,
    seed: options.Seed = 0,
    rounds: options.Rounds = 1,
    judge_tokens: options.JudgeTokens = None,
    thinking: options.JudgeThinking = "default",
    attention: options.Attention = None,
    compile_model: options.Compile = False,
    judge_quantization: options.JudgeQuantization = None,
    base_url: options.BaseUrl = None,
    concurrency: options.Concurrency = 8,
    tokens_per_minute: options.TokensPerMinute = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Measure a judge against physicians, and check it against the acceptance gate.

    Where physicians marked only items or compared only pairs, shows the agreement on these, without a gate.
    Refuses questions that the judge was trained on. Exits with 1 if the gate fails or an answer could not be scored.
    """
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.judge.api import reply_options
    from medjudge.judge.inference import Inference
    from medjudge.store import Run
    from medjudge.validation.study import Settings
    from medjudge.workflows.judge import JudgeOptions
    from medjudge.workflows.validate import ValidateOptions
    from medjudge.workflows.validate import validate as validate_run
    from medjudge.workflows.validate_marks import only_marked, validate_marks

    # Each of these needs levels: without them the answer is how to give some.
    asks_for_levels = (against, teacher, since, leave_out, rater_columns, label_map, gate, plan_width, probes or None)
    if physicians is None and all(option is None for option in asks_for_levels) and only_marked(Run.existing(run)):
        _print_marks(validate_marks(run, judge, scheme), as_json)
        return
    server = Server(base_url, concurrency, tokens_per_minute)
    study = validate_run(
        run,
        judge,
        physicians=physicians,
        against=against,
        options=ValidateOptions(
            rater_columns=tuple(name.strip() for name in (rater_columns or "").split(",") if name.strip()),
            label_map=label_map,
            teacher=teacher,
            margin=margin,
            scheme=scheme,
            gate=gate,
            probe_answers=probe_answers if probes else 0,
            since=since,
            false_alarm_rate=false_alarm_rate,
            leave_out=_leave_out(leave_out, config, training_set),
            settings=Settings(
                resamples, seed, "bca" if interval is IntervalMethod.bca else "percentile", error_rate, plan_width
            ),
            judging=JudgeOptions(
                device=device,
                rounds=rounds,
                inference=Inference(attention=attention, compile=compile_model),
                quantization=judge_quantization,
                server=server,
                limit=Limit(max_cost, prices),
                replies=reply_options(judge_tokens, thinking),
            ),
            offline=offline,
        ),
    )
    _print(study, run, against, plan_width, as_json)
    if study.gate.passed is False or study.coverage < 1 or (study.since and study.since.alarm):
        raise typer.Exit(1)


def _leave_out(part: Part | None, config: str | None, training_set: Path | None) -> "LeaveOut | None":
    from medjudge.workflows.leave_out import LeaveOut

    if part is None:
        return None
    if config is None or training_set is None:
        raise InputError(
            f"--leave-out {part.value}: give --config NAME and --training-set FOLDER, which the folds are trained from"
        )
    return LeaveOut("model" if part is Part.model else "category", config_file(config), training_set)


def _print(study: "Study", run: Path, against: str | None, plan_width: float | None, as_json: bool) -> None:
    from medjudge.cli.item_screen import physician_item_lines
    from medjudge.cli.output import console, print_json
    from medjudge.cli.pair_screen import physician_lines
    from medjudge.cli.verdict_screen import print_verdict
    from medjudge.store import Run

    if as_json:
        print_json(study.model_dump(mode="json"))
    screen = console(as_json)
    print_verdict(screen, study)
    for line in (*physician_lines(study.pairs), *physician_item_lines(study.items)):
        screen.print(line)
    if plan_width is not None and study.usability is None:
        screen.print(
            f"\n--plan-width: only the scored answers are judged; run `medjudge eval --run {quote(str(run))}` first"
        )
    file = Run(run).agreement_file(study.judge, against)
    screen.print(f"\n{file} has everything; next: medjudge report {quote(str(run))}")


def _print_marks(study: "MarksStudy", as_json: bool) -> None:
    from medjudge.cli.item_screen import physician_item_lines
    from medjudge.cli.output import console, print_json
    from medjudge.cli.pair_screen import physician_lines

    if as_json:
        print_json(study.as_json())
    screen = console(as_json)
    screen.print(f"Judge {study.judge}: physicians scored no answer, so there is no gate to check")
    for line in (*physician_lines(study.pairs), *physician_item_lines(study.items)):
        screen.print(line)
    screen.print(f"\nnext: medjudge report {quote(str(study.run.path))}")
