"""The judge card: `README.md` of a judge folder, written from `judge.json`."""

from pathlib import Path

from medjudge.agreement.standing import standing
from medjudge.judge.folder import JudgeCard
from medjudge.store import write_whole


def write_readme(folder: Path, card: JudgeCard) -> None:
    """Writes the card for people."""
    training = card.training
    named = ("languages", "categories", "sources")
    recorded = {name: ", ".join(training.get(name, [])) or "not recorded" for name in named}
    how = "cut points on the cosine of answer and reference" if card.kind == "similarity" else "LoRA"
    lines = [
        f"# {folder.resolve().name}",
        "",
        f"A medjudge judge of kind `{card.kind}`: {how}, {card.base_model}, {card.max_length} tokens.",
        *([f"\n{card.note}"] if card.note else []),
        "",
        f"- Languages: {recorded['languages']}",
        f"- Categories: {recorded['categories']}",
        f"- Trained on {training.get('answers', 0)} answers to {len(card.trained_on.question_ids)} questions",
        f"- Scored by: {recorded['sources']}",
        "",
        "## Agreement",
        "",
        *_agreement(card),
        "",
        "## Known failures",
        "",
        "- Knows no language, category or kind of question beyond those above.",
        f"- Reads {card.max_length} tokens; a longer text loses its middle, and the judgment says how much.",
        "- Tells a wrong number in a fluent answer from the right one badly; check doses yourself.",
        "",
        "Not a medical device. Use: `medjudge eval --judge FOLDER`, with this folder.",
        "",
    ]
    write_whole(folder / "README.md", "\n".join(lines))


def _agreement(card: JudgeCard) -> list[str]:
    if not card.validated_on:
        command = "`medjudge validate RUN --judge FOLDER --physicians FILE`"
        return [f"Never validated against physicians. {command} writes the result here."]
    rows = [
        "| with | scores | n | usable agreement | Cohen's kappa | quadratic kappa | Spearman |",
        "|---|---|---|---|---|---|---|",
    ]
    for study in card.validated_on:
        overall = study["overall"]
        cells = [interval(overall[name]) for name in ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman")]
        rows.append(f"| {study['against']} | {study['file']} | {study['n']} | {' | '.join(cells)} |")
    return [f"Standing: {standing(card.validated_on).line}.", "", *rows, *_gates(card)]


def _gates(card: JudgeCard) -> list[str]:
    """What each study says of the gate, of the judge's weaknesses, and what it cannot say."""
    lines = []
    for study in card.validated_on:
        lines += ["", f"### {study['file']}, {study['against']}", "", "| check | required | measured | n | result |"]
        lines.append("|---|---|---|---|---|")
        for check in study["gate"]["checks"]:
            result = f"{check['result']}{': ' if check['why'] else ''}{check['why']}"
            lines.append(f"| {check['check']} | {check['required']:g} | {interval(check)} | {check['n']} | {result} |")
        weak = [f"- Weak: {one}." for one in study["weaknesses"]]
        not_shown = [f"- Not shown: {one}" for one in study["cannot_conclude"]]
        lines += ["", *weak, *not_shown]
    return lines


def interval(measure: dict[str, float | None]) -> str:
    """A measure as `0.72 (0.66-0.78)`; a dash where it is undefined."""
    value, low, high = measure["value"], measure["low"], measure["high"]
    if value is None:
        return "-"
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f} ({low:.2f} to {high:.2f})"
