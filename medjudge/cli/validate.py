"""`medjudge validate`: a judge against physicians' scores."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal, Optional

import typer

from medjudge.cli import groups, options
from medjudge.cli.options import flags, names_in, option, rare
from medjudge.errors import InputError
from medjudge.shipped import config_file

if TYPE_CHECKING:
    from rich.console import Console

    from medjudge.validation.records import Study
    from medjudge.workflows.leave_out import LeaveOut
    from medjudge.workflows.validate import MarksStudy, ValidateOptions

_SCORES, _MORE, _STATISTICS = "Physicians' scores", "Further questions", "Statistics"


@dataclass(kw_only=True)
class Validate(groups.Screen, groups.LocalJudging):
    """The options of `medjudge validate`."""

    run: options.RunFolder
    judge: options.JudgePanelOrJudgments = "local"
    physicians: Optional[Path] = option(
        None,
        "FILE",
        "Their scores: .jsonl, .csv, .tsv or .xlsx. Default: the run's physician_scores.jsonl.",
        _SCORES,
    )
    rater_columns: Optional[str] = rare(None, "COLUMNS", "Columns of a wide table, one per rater: dr_a,dr_b", _SCORES)
    label_map: Optional[str] = rare(
        None,
        "MAP",
        "Labels other than 1-5 in a table: entailment=5,neutral=3",
        _SCORES,
    )
    encoding: options.Encoding = None
    against: Optional[str] = option(None, "NAME", "Compare with this judge of the run instead of physicians.", _SCORES)
    teacher: Optional[str] = option(None, "NAME", "A judge of the run: is --judge as good as it?", _MORE)
    margin: Optional[float] = rare(
        None, "SHARE", "Loss against the teacher that does not matter. Default: the gate's.", _MORE, min=0.0, max=1.0
    )
    probes: bool = option(False, None, "Can it be fooled? Judges changed answers.", _MORE)
    probe_answers: int = rare(250, "N", "How many answers to probe.", _MORE, min=1)
    leave_out: Optional[Literal["model", "category"]] = option(
        None, "model|category", "Train again without each model or category in turn.", _MORE
    )
    config: Optional[str] = rare(
        None,
        "NAME|FILE",
        "--leave-out: the judge's training config, such as minilm-ordinal, or a YAML file.",
        _MORE,
    )
    training_set: Optional[Path] = rare(None, "FOLDER", "--leave-out: folder that `medjudge distill` wrote.", _MORE)
    gate: Optional[Path] = option(
        None, "FILE", "YAML file with other requirements. Default: those of the scheme.", _MORE
    )
    scheme: options.Scheme = None
    interval: Literal["bca", "percentile"] = rare("bca", "bca|percentile", "Kind of bootstrap interval.", _STATISTICS)
    resamples: int = rare(10_000, "N", "Bootstrap resamples.", _STATISTICS, min=100)
    seed: options.Seed = 0

    def leaves_out(self) -> "LeaveOut | None":
        """The field that folds are trained without; None where none are."""
        from medjudge.workflows.leave_out import LeaveOut

        if self.leave_out is None:
            return None
        if self.config is None or self.training_set is None:
            raise InputError(
                f"--leave-out {self.leave_out}: give --config NAME and --training-set FOLDER, which the folds "
                "are trained from"
            )
        return LeaveOut(self.leave_out, config_file(self.config), self.training_set)

    def study(self) -> "ValidateOptions":
        """The options of `validate_run`."""
        from medjudge.validation.study import Settings
        from medjudge.workflows.validate import ValidateOptions

        return ValidateOptions(
            rater_columns=names_in(self.rater_columns),
            label_map=self.label_map,
            teacher=self.teacher,
            margin=self.margin,
            gate=self.gate,
            probe_answers=self.probe_answers if self.probes else 0,
            leave_out=self.leaves_out(),
            settings=Settings(self.resamples, self.seed, self.interval),
            judging=self.judging(),
            offline=self.offline,
        )

    @property
    def asks_for_levels(self) -> bool:
        """True if an option only makes sense for levels: without them the answer is how to give some."""
        asked = (self.against, self.teacher, self.leave_out, self.rater_columns, self.label_map)
        return any(option is not None for option in (*asked, self.gate, self.probes or None))


@flags
def validate(options: Validate) -> None:
    """Measure a judge against physicians, and check it against the acceptance gate.

    Where physicians marked only items or compared only pairs, shows the agreement on these, without a gate.
    Refuses questions that the judge was trained on. Exits with 1 if the gate fails or an answer could not be scored.
    """
    from medjudge.store import Run

    run = Run.existing(options.run)
    groups.require(options.physicians, options.gate)
    from medjudge.cli.output import console
    from medjudge.cli.verdict_screen import print_verdict
    from medjudge.workflows.run_folder import adopt_scheme
    from medjudge.workflows.validate import only_marked, validate_marks
    from medjudge.workflows.validate import validate as validate_run

    if options.scheme is not None:
        adopt_scheme(run, options.scheme)
    if options.physicians is None and not options.asks_for_levels and only_marked(run):
        marks = validate_marks(run, options.judge)
        screen = console(options.as_json, marks.model_dump(mode="json"))
        screen.print(f"Judge {marks.judge}: physicians scored no answer, so there is no gate to check")
        _print_marks(screen, marks)
        screen.print(f"\nnext: medjudge report {quote(str(run.path))}")
        return
    study = validate_run(
        options.run,
        options.judge,
        physicians=options.physicians,
        against=options.against,
        options=options.study(),
    )
    screen = console(options.as_json, study.model_dump(mode="json"))
    print_verdict(screen, study)
    _print_marks(screen, study)
    file = run.agreement_file(study.judge, options.against)
    screen.print(f"\n{file} has everything; next: medjudge report {quote(str(run.path))}")
    if study.gate.passed is False or study.coverage < 1:
        raise typer.Exit(1)


def _print_marks(screen: "Console", study: "Study | MarksStudy") -> None:
    from medjudge.cli.study_screens import physician_item_lines, physician_lines

    for line in (*physician_lines(study.pairs), *physician_item_lines(study.items)):
        screen.print(line)
