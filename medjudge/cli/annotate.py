"""`medjudge annotate`: scoring forms out to physicians, and back in."""

from enum import Enum
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medjudge.annotate.intake import Checked
    from medjudge.annotate.plan import Plan
    from medjudge.store import Run

app = typer.Typer(help="Scoring forms for physicians, out and in.", no_args_is_help=True, rich_markup_mode="rich")


class Format(str, Enum):
    """Kinds of form."""

    xlsx = "xlsx"
    label_studio = "label-studio"


class Which(str, Enum):
    """How answers are chosen."""

    random = "random"
    informative = "informative"


_INFORMATIVE = "chosen as informative, so no random sample: these scores may correct a judge, not validate it"
_LISTED = 20
"""Ids that a line names at most."""


@app.command("export")
def export(
    run: options.RunFolder,
    rater: Annotated[list[str], typer.Option(help="Name or e-mail address of a physician. Repeatable.")],
    format: Annotated[Format, typer.Option(help="A workbook each, or projects for Label Studio.")] = Format.xlsx,
    overlap: Annotated[
        Optional[int], typer.Option(min=1, help="Raters an answer; 2 where there are so many unless given.")
    ] = None,
    each: Annotated[Optional[int], typer.Option(min=1, help="The most answers of a rater; all unless given.")] = None,
    which: Annotated[
        Which, typer.Option(help="random: by category and model, to validate on. informative: to correct a judge.")
    ] = Which.random,
    judge: Annotated[
        Optional[str], typer.Option(help="informative: a judge of the run; the answers that it is least sure of.")
    ] = None,
    teacher: Annotated[
        Optional[str], typer.Option(help="informative: a judge of the run; the answers on which the two differ.")
    ] = None,
    seed: options.Seed = 0,
    out: Annotated[
        Optional[Path], typer.Option(help="Folder for the forms; annotation/forms of the run unless given.")
    ] = None,
    new_plan: Annotated[
        bool, typer.Option("--new-plan", help="Draw again; the plan there is kept, and its forms can still come back.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a scoring form for each physician.

    No form names a model or shows a judge's score. The same options again write the same forms; other options need
    --new-plan, because the forms of the plan that is there may be out.
    """
    from medjudge.annotate.draw import make_plan
    from medjudge.annotate.items import all_to_score
    from medjudge.annotate.label_studio import write_label_studio
    from medjudge.annotate.plan import plan_file, write_plan
    from medjudge.annotate.workbook import write_workbook
    from medjudge.cli.output import console, print_json
    from medjudge.store import Run

    folder = Run.existing(run)
    at_once = overlap or min(2, len(rater))
    wanted = (sorted(rater), at_once, each, which.value, judge, teacher, seed)
    old = None if new_plan else _same_plan(folder, wanted)
    plan = old or make_plan(folder, rater, at_once, each, which.value, judge, teacher, seed)
    place = out or folder.path / "annotation" / "forms"
    ends = (".xlsx",) if format is Format.xlsx else (".json", "-MTG.json")
    for form in (place / f"{name}{end}" for name in plan.by_rater for end in ends):
        if form.exists():
            raise InputError(f"{form}: is there already and may hold scores; move it away, or choose another --out")
    listed = all_to_score(folder, plan)
    files: dict[str, list[Path]] = {}
    for name, items in listed.items():
        if format is Format.xlsx:
            files[name] = [place / f"{name}.xlsx"]
            write_workbook(files[name][0], name, items)
        else:
            files[name] = write_label_studio(place, name, items)
    kept = write_plan(folder, plan)
    judge_name, unscored = _without_score(folder, plan)
    if as_json:
        told = {name: {"answers": len(listed[name]), "files": [*map(str, some)]} for name, some in files.items()}
        of_judge = {"judge": judge_name, "answers": unscored} if judge_name else None
        print_json({"answers": len(plan.items), "left_out": plan.left_out, "without_score": of_judge, "raters": told})
    screen = console(as_json)
    if old:
        screen.print(f"the plan that is there already: {plan_file(folder)}")
    if kept:
        screen.print(f"the plan that was there is kept as {kept}; its forms can still be imported")
    screen.print(f"{len(plan.items)} answers, each to {plan.overlap} of {len(files)} raters, seed {plan.seed}")
    for name, some in files.items():
        screen.print(f"  {name}: {len(listed[name])} answers in {', '.join(map(str, some))}")
    if plan.left_out:
        screen.print("left out: " + ", ".join(f"{count} {reason}" for reason, count in plan.left_out.items()))
    if unscored:
        screen.print(
            f"{unscored} of these {len(plan.items)} answers have no score of judge {judge_name}: they count for "
            "nothing where it is validated"
        )
    if plan.which == "informative":
        screen.print(_INFORMATIVE)
    if format is Format.label_studio:
        screen.print(f"a project for each file, with the labelling configuration label-studio.xml (-MTG) of {place}")
    screen.print(f"Next, when they come back: medjudge annotate import {run} FILE …")


@app.command("import")
def take_in(
    run: options.RunFolder,
    files: Annotated[list[Path], typer.Argument(help="Filled-in workbooks, or exports of Label Studio (.json).")],
    accept_valid: Annotated[
        bool, typer.Option("--accept-valid", help="Import what is right, write the rest into forms to be mended.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="A changed score takes the place of the one imported before.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Read forms back: every cell checked, nothing imported until all is right.

    An empty score is not scored yet, and no problem. The same file again adds nothing.
    Exits with 1 where --accept-valid left something to be mended.
    """
    from medjudge.annotate.add_scores import add_scores
    from medjudge.annotate.intake import check_forms, put_aside, read_form
    from medjudge.annotate.plan import read_plans
    from medjudge.cli.output import console, print_json
    from medjudge.cli.verdict_screen import percent, span
    from medjudge.store import Run
    from medjudge.validation.physicians import agreement_of_physicians

    folder = Run.existing(run)
    forms = [read_form(file) for file in dict.fromkeys(files)]
    checked = check_forms(folder, read_plans(folder), forms, replace)
    if checked.wrong and not accept_valid:
        raise _refusal(checked)
    added = add_scores(folder, checked.scores, replace)
    to_mend = [path for path in (put_aside(form, checked.wrong) for form in forms) if path is not None]
    progress = _progress(folder, checked.plans)
    agreement = agreement_of_physicians(folder.questions(), folder.physician_scores())
    if as_json:
        wrong = [{"file": str(one.path), "place": one.place, "what": one.what} for one in checked.wrong]
        counts = {**added._asdict(), "not_scored": checked.unscored, "only_comments": checked.only_comments}
        rest = {
            "missing": checked.missing,
            "wrong": wrong,
            "to_mend": [*map(str, to_mend)],
            "raters": progress,
            "agreement": agreement and agreement.model_dump(mode="json"),
        }
        print_json({**counts, **rest})
    screen = console(as_json)
    for one in checked.wrong:
        screen.print(f"  {one.path.name}, {one.place}: {one.what}")
    screen.print(f"{added.new} scores imported, {added.same} there already, {added.replaced} replaced")
    if checked.unscored:
        commented = f" ({checked.only_comments} with a comment)" if checked.only_comments else ""
        screen.print(f"{checked.unscored} rows are not scored yet{commented}")
    for name, sheets in checked.missing.items():
        screen.print(_absent(name, sheets))
    if checked.wrong:
        screen.print(f"{len(checked.wrong)} problems; to be mended: {', '.join(map(str, to_mend)) or 'see above'}")
    for name, counts in progress.items():
        screen.print(f"  {name}: {counts['scored']} of {counts['answers']} scored, {counts['open']} open")
    if agreement is None:
        screen.print("agreement among raters: no answer was scored by two yet")
    else:
        screen.print(
            f"agreement among raters on {agreement.answers} answers: usable {percent(agreement.usable_agreement)}, "
            f"Cohen's kappa {span(agreement.cohen_kappa)}, quadratic kappa {span(agreement.quadratic_kappa)}, alpha "
            f"{span(agreement.krippendorff_alpha)}"
        )
    if any(plan.which == "informative" for plan in checked.plans):
        screen.print(_INFORMATIVE)
    screen.print(f"{folder.physicians_file}; next: medjudge validate {run} --judge local")
    if checked.wrong:
        raise typer.Exit(1)


def _without_score(run: "Run", plan: "Plan") -> tuple[str | None, int]:
    """The run's judge, if it has judged already, and how many answers of a plan it left unscored."""
    from medjudge.workflows.which_judge import likely_judge

    judge = plan.judge or likely_judge(run)
    if judge is None or judge not in run.judges():
        return None, 0
    scored = {one.answer_key for one in run.judgments(judge) if one.score is not None}
    return judge, sum(item.key not in scored for item in plan.items)


def _same_plan(run: "Run", wanted: tuple[object, ...]) -> "Plan | None":
    """The plan that the run has, made with the options wanted; None where it has none.

    Raises:
        InputError: There is another plan; its forms may be out, also where nothing came back yet.
    """
    from medjudge.annotate.plan import earlier_file, plan_file, read_plan

    if not plan_file(run).exists():
        return None
    plan = read_plan(run)
    if (sorted(plan.by_rater), plan.overlap, plan.each, plan.which, plan.judge, plan.teacher, plan.seed) == wanted:
        return plan
    scored = sum(counts["scored"] for counts in _progress(run, [plan]).values())
    raise InputError(
        f"{plan_file(run)}: another plan, made with {_options(plan)} ({scored} scores given), and its forms may be "
        "out; the same options write them again, --new-plan makes a new plan and keeps this one as "
        f"{earlier_file(run).name}"
    )


def _options(plan: "Plan") -> str:
    """The options that a plan was made with, as they are typed."""
    values = [*(("rater", name) for name in plan.by_rater), ("overlap", plan.overlap), ("each", plan.each)]
    values += [("which", plan.which), ("judge", plan.judge), ("teacher", plan.teacher), ("seed", plan.seed)]
    return " ".join(f"--{name} {quote(str(value))}" for name, value in values if value is not None)


def _absent(file: str, sheets: dict[str, list[str]]) -> str:
    """The items of its rater that a workbook lacks, by sheet; a long list is cut short, and whole in --json."""
    told = [
        f"sheet '{sheet}': {', '.join(ids[:_LISTED])}{f' and {len(ids) - _LISTED} more' if ids[_LISTED:] else ''}"
        for sheet, ids in sheets.items()
    ]
    count = sum(map(len, sheets.values()))
    return f"{file}: {count} items of its rater do not stand in it and stay open ({'; '.join(told)})"


def _progress(run: "Run", plans: "Sequence[Plan]") -> dict[str, dict[str, int]]:
    """How much each rater has scored of what some plans ask for; an answer of two plans counts once."""
    given = {(score.rater, score.answer_key) for score in run.physician_scores()}
    asked: dict[str, set[Any]] = {}
    for plan in plans:
        keys = {item.id: item.key for item in plan.items}
        for rater, ids in plan.by_rater.items():
            asked.setdefault(rater, set()).update(keys[item_id] for item_id in ids)
    progress = {}
    for rater, answers in asked.items():
        scored = sum((rater, key) in given for key in answers)
        progress[rater] = {"answers": len(answers), "scored": scored, "open": len(answers) - scored}
    return progress


def _refusal(checked: "Checked") -> InputError:
    """All problems of all files, one a line where there are several."""
    lines: list[Any] = [f"{one.path}, {one.place}: {one.what}" for one in checked.wrong]
    end = f"nothing was imported; --accept-valid imports what is right (scores: {len(checked.scores)})"
    if len(lines) == 1:
        return InputError(f"{lines[0]}; {end}")
    return InputError("\n  ".join([f"{len(lines)} problems; {end}", *lines]))
