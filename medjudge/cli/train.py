"""`medjudge train`: a judge from a training set."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options

if TYPE_CHECKING:
    from medjudge.train.plan import TrainingPlan


def train(
    context: typer.Context,
    config: Annotated[
        Optional[str],
        typer.Option(
            metavar="NAME|FILE",
            help="A shipped config, such as minilm-ordinal, or a YAML file. Default: the largest for this GPU whose "
            "base model is on this machine, else gemma3-270m-lora.",
        ),
    ] = None,
    train_file: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="train.jsonl of `medjudge distill`.")
    ] = None,
    validation_file: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="validation.jsonl of `medjudge distill`.")
    ] = None,
    output_dir: Annotated[Optional[Path], typer.Option(metavar="FOLDER", help="Judge folder to write.")] = None,
    start_from: Annotated[
        Optional[Path], typer.Option(metavar="FOLDER", help="Judge folder to continue from, or built-in.")
    ] = None,
    num_train_epochs: Annotated[
        Optional[float], typer.Option(metavar="N", help="Passes over the training set.")
    ] = None,
    seed: Annotated[
        Optional[int], typer.Option(metavar="N", help="Random seed; the same seed gives the same result.")
    ] = None,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Say what training would take: steps, tokens, memory, time."),
    ] = False,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Train a local judge from a training set.

    Every other value of the config can be overridden in the same way: `--learning_rate 1e-4`. `--resume` continues from
    the last checkpoint. For several processes or GPUs, run the recipe with `accelerate launch`.
    """
    import sys
    from contextlib import redirect_stdout

    from medjudge.shipped import config_file

    file = None if config is None else config_file(config)  # before the imports that take seconds
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.train import plan_training, train_judge

    if plan:
        _print_plan(
            plan_training(
                file,
                train_file=train_file,
                validation_file=validation_file,
                output_dir=output_dir,
                start_from=start_from,
                num_train_epochs=num_train_epochs,
                options=context.args,
            ),
            as_json,
        )
        return
    with redirect_stdout(sys.stderr):  # the trainer prints its log; stdout is the command's own
        trained = train_judge(
            file,
            train_file=train_file,
            validation_file=validation_file,
            output_dir=output_dir,
            start_from=start_from,
            num_train_epochs=num_train_epochs,
            seed=seed,
            options=context.args,
        )
    if as_json:
        print_json({"judge": str(trained.folder), "validation": trained.validation})
    screen = console(as_json)
    screen.print(str(trained))
    screen.print(f"Next: medjudge validate RUN --judge {quote(str(trained.folder))} --physicians FILE")


def _print_plan(plan: "TrainingPlan", as_json: bool) -> None:
    from medjudge.cli.output import console, print_json

    if as_json:
        print_json(plan.as_json())
    screen = console(as_json)
    for line in plan.text():
        screen.print(line)
