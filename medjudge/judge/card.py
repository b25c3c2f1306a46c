"""The judge card: `README.md` of a judge folder, written from `judge.json`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from medjudge.files import write_whole
from medjudge.judge.folder import JudgeCard
from medjudge.models.packaged import PACKAGED
from medjudge.statistics.calibration import FEWEST_ANSWERS

NEVER_VALIDATED = (
    "Never validated against physicians by `validate`. `medjudge validate RUN --judge FOLDER --physicians FILE` writes "
    "the result here."
)


def write_readme(folder: Path, card: JudgeCard, agreement: Sequence[str] = (NEVER_VALIDATED,)) -> None:
    """Writes the card for people.

    Args:
        agreement: The lines of the section on validations; `medjudge.validation.validations` makes them. The default is
            for a judge that was just trained.
    """
    training = card.training
    lines = [
        f"# {folder.resolve().name}",
        "",
        f"A medjudge judge of kind `{card.kind}`: {_method(card)}, {card.base_model}, {card.max_length} tokens.",
    ]
    if card.base_source is not None:
        lines += ["", f"Its weights are those of {card.base_source}."]
        if (row := PACKAGED.get(card.base_model)) is not None:
            lines.append(f"Licence of the base model: {row.licence}.")
    if card.note:
        lines.append(f"\n{card.note}")
    languages, categories, sources = (
        ", ".join(training.get(name, [])) or "not recorded" for name in ("languages", "categories", "sources")
    )
    if card.kind == "ordinal":
        stretches = "one stretch" if card.windows == 1 else f"up to {card.windows} stretches"
        reads = f"{stretches} of the answer, each with the other texts in windows of {card.max_length} tokens; the "
        reads += "judgment says how much lies in none."
    else:
        reads = f"{card.max_length} tokens; a longer text loses its middle, and the judgment says how much."
    lines += [
        "",
        f"- Languages: {languages}",
        f"- Categories: {categories}",
        f"- Trained on {training.get('answers', 0)} answers to "
        f"{training.get('questions', len(card.trained_on.question_ids))} questions",
        f"- Scored by: {sources}",
        "",
        *_making(card),
        "## Agreement",
        "",
        *agreement,
        "",
        "## Known failures",
        "",
        "- Knows no language, category or kind of question beyond those above.",
        f"- Reads {reads}",
    ]
    if card.only_languages:
        lines.append(f"- Leaves texts unscored that are not in: {', '.join(card.only_languages)}.")
    lines += [
        "- Often misses a wrong number in a fluent answer; check doses yourself.",
        "",
        "Not a medical device. Use: `medjudge eval --judge FOLDER`, with this folder.",
        "",
    ]
    write_whole(folder / "README.md", "\n".join(lines), private=False)


def _method(card: JudgeCard) -> str:
    if card.kind == "similarity":
        return "cut points on the cosine of answer and reference"
    return "LoRA" if card.quantization is None else f"LoRA on a base quantised to {card.quantization}"


def _making(card: JudgeCard) -> list[str]:
    """The making of the judge: the run, the data, the temperature."""
    training = card.training
    lines = [f"- Data: `{name}`, sha256 `{digest}`" for name, digest in sorted(card.trained_on.files.items())]
    if "epochs" in training:
        started = f"continued from `{training['started_from']}`, " if training["started_from"] else ""
        objective = training["objective"] or ""
        if not isinstance(objective, str):
            objective = " and ".join(f"{name.replace('_', ' ')} {value:g}" for name, value in objective.items())
        loss = f"loss {objective}, " if objective else ""
        epochs = f"{training['epochs']:g} epoch{'' if training['epochs'] == 1 else 's'}"
        how = (
            f"- Training: {started}{loss}{epochs} in batches of {training['batch']}, "
            f"learning rate {training['learning_rate']:g}, seed {training['seed']}"
        )
        gain = [f"- Validation: {text}"] if (text := tuning_gain(training)) else []
        lines = [how, *lines, *gain, f"- Temperature {_temperature(training['calibration'])}"]
    return ["## How it was made", "", *lines, ""] if lines else []


def tuning_gain(training: dict[str, Any]) -> str | None:
    """The agreement on the validation file before and after training, in one line; None where only one was measured."""
    before, after = training.get("untuned"), training["validation"]
    if not before:
        return None
    names = {"eval_quadratic_kappa": "quadratic kappa", "eval_usable_agreement": "agreement on usable"}
    measures = ", ".join(f"{label} {before[name]:.2f} -> {after[name]:.2f}" for name, label in names.items())
    return f"{measures} ({'before -> after' if training['started_from'] else 'untuned -> tuned'})"


def _temperature(calibration: dict[str, Any]) -> str:
    answers, before = calibration["answers"], f"{calibration['ece_before']:.3f}"
    if answers < FEWEST_ANSWERS:
        return f"1: {answers} validation answers are too few to fit one ({FEWEST_ANSWERS} are needed)"
    if not calibration["fitted"]:
        lower = "another would not lower the calibration error of P(usable)"
        return f"kept at 1: {lower} on the {answers} validation answers ({before})"
    return (
        f"{calibration['temperature']:.2f}, fitted on {answers} validation answers. Expected calibration error of "
        f"P(usable) on these {before} before, {calibration['ece_after']:.3f} after; "
        "expect a larger one on other answers"
    )
