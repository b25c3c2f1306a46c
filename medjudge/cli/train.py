"""`medjudge train`: a judge from a training set."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Optional

import typer

from medjudge.cli import options
from medjudge.cli.options import flags, option


@dataclass(kw_only=True)
class Train:
    """The options of `medjudge train`."""

    context: typer.Context
    config: Optional[str] = option(
        None,
        "NAME|FILE",
        "A shipped config, such as minilm-ordinal, or a YAML file. Default: the largest for this GPU whose base model "
        "is on this machine, else gemma3-270m-lora.",
    )
    train_file: Optional[Path] = option(None, "FILE", "train.jsonl of `medjudge distill`.")
    validation_file: Optional[Path] = option(None, "FILE", "validation.jsonl of `medjudge distill`.")
    output_dir: Optional[Path] = option(None, "FOLDER", "Judge folder to write.")
    start_from: Optional[Path] = option(None, "FOLDER", "Judge folder to continue from, or built-in.")
    num_train_epochs: Optional[float] = option(None, "N", "Passes over the training set.")
    seed: Optional[int] = option(None, "N", "Random seed; the same seed gives the same result.")
    plan: bool = option(False, None, "Say what training would take: steps, tokens, memory, time.")
    quiet: options.Quiet = False
    as_json: options.AsJson = False


@flags
def train(options: Train) -> None:
    """Train a local judge from a training set.

    Every other value of the config can be overridden in the same way: `--learning_rate 1e-4`. `--resume` continues from
    the last checkpoint. For several processes or GPUs, run the recipe with `accelerate launch`.
    """
    from medjudge.shipped import config_file

    file = None if options.config is None else config_file(options.config)  # before the imports that take seconds
    from medjudge.cli.output import console
    from medjudge.workflows.train import Overrides, plan_training, train_judge

    overrides: Overrides = {
        "train_file": options.train_file,
        "validation_file": options.validation_file,
        "output_dir": options.output_dir,
        "start_from": options.start_from,
        "num_train_epochs": options.num_train_epochs,
        "seed": options.seed,
    }
    if options.plan:
        plan = plan_training(file, options=options.context.args, **overrides)
        screen = console(options.as_json, asdict(plan))
        for line in plan.text():
            screen.print(line)
        return
    with redirect_stdout(sys.stderr):  # the trainer prints its log; stdout is the command's own
        trained = train_judge(file, options=options.context.args, **overrides)
    screen = console(options.as_json, {"judge": str(trained.folder), "validation": trained.validation})
    screen.print(str(trained))
    screen.print(f"Next: medjudge validate RUN --judge {quote(str(trained.folder))} --physicians FILE")
