"""`medjudge validate`: a judge against physicians' scores."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from medjudge.errors import InputError

if TYPE_CHECKING:
    from medjudge.judge.open import Chosen


def validate(
    run: Annotated[Path, typer.Argument(help="Run folder with questions and answers.")],
    judge: Annotated[
        str, typer.Option(help="local, a judge folder, openai:MODEL, similarity, or a judge of this run.")
    ] = "local",
    physicians: Annotated[
        Optional[Path], typer.Option(help="Their scores (.jsonl); physician_scores.jsonl of the run unless given.")
    ] = None,
    against: Annotated[
        Optional[str], typer.Option(help="Compare with this judge of the run instead of physicians.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    rounds: Annotated[int, typer.Option(min=1, help="Times that each answer is judged.")] = 1,
    base_url: Annotated[Optional[str], typer.Option(help="Server of an openai: judge; key in OPENAI_API_KEY.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests under way at once.")] = 8,
    offline: Annotated[bool, typer.Option("--offline", help="Fail rather than use the network.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Measure a judge against physicians.

    By category and overall, each figure with its interval.

    Refuses questions that the judge was trained on. Exits with 1 where the gate fails or an answer could not be scored.
    """
    from medjudge.cli.answer import go_offline

    if offline:
        go_offline()
    from medjudge.agreement.study import teacher_scores
    from medjudge.cli.output import agreement_table, confusion_table, console, print_json
    from medjudge.cli.pipeline import JudgeOptions, validate_judge
    from medjudge.hardware import choose_device
    from medjudge.judge.open import check_chosen
    from medjudge.records import PhysicianScore
    from medjudge.store import Run, read_records

    choose_device(device)
    folder = Run.existing(run)
    chosen = _judge_of(folder, judge)
    check_chosen(chosen, base_url, offline)
    if against is not None:
        if against not in folder.judges():
            raise InputError(
                f"--against {against}: no such judge in {run}; there are: {', '.join(folder.judges()) or 'none'}"
            )
        scores = teacher_scores(folder.judgments(against))
    else:
        file = physicians or folder.physicians_file
        if physicians is None and not file.exists():
            raise InputError(f"{run}: has no {file.name}; give --physicians FILE")
        scores = read_records(file, PhysicianScore)
    options = JudgeOptions(device, rounds, base_url, concurrency)
    study = validate_judge(folder, chosen, scores, options, against)
    if against is None:
        _write_into_card(chosen, study, physicians or folder.physicians_file)
    screen = console(as_json)
    if as_json:
        print_json(study)
    else:
        screen.print(
            agreement_table([study], f"Agreement of {chosen.name} with {study['against']} ({study['interval']})")
        )
        screen.print(confusion_table(study))
    screen.print(
        f"{study['n']} answers to {study['questions']} questions, coverage {100 * study['coverage']:.1f} %\n"
        f"{folder.agreement_file(chosen.name)}; next: medjudge report {run}"
    )
    if study["gate"]["passed"] is False or study["coverage"] < 1:
        raise typer.Exit(1)


def _judge_of(run: Any, spec: str) -> "Chosen":
    """A judge folder or API judge; or the name of judgments that the run has already, such as imported ones."""
    from medjudge.judge.open import Chosen, choose_judge

    if spec in run.judges() and not Path(spec).is_dir():
        entry = run.manifest().get("judges", {}).get(spec)
        return Chosen(spec, seen=frozenset(entry["seen_question_ids"] if entry else ()))
    return choose_judge(spec)


def _write_into_card(chosen: "Chosen", study: dict[str, Any], file: Path) -> None:
    """Adds the result to the judge folder, in place of an earlier one on the same file."""
    from medjudge.judge.open import built_in_folder
    from medjudge.store import file_sha256
    from medjudge.train.card import write_readme

    if chosen.card is None or chosen.folder is None or chosen.folder == built_in_folder():
        return
    digest = file_sha256(file)
    result = {
        "file": file.name,
        "sha256": digest,
        **{key: study[key] for key in ("against", "n", "questions", "coverage", "interval")},
    }
    result |= {"overall": study["overall"], "by_category": study["by_category"], "gate": study["gate"]}
    others = [one for one in chosen.card.validated_on if one["sha256"] != digest]
    card = chosen.card.model_copy(update={"validated_on": [*others, result]})
    write_readme(chosen.folder, card)
    card.write(chosen.folder)
