"""What verdicts on items say, on the screen."""

from rich.console import Console

from medjudge.cli.estimates import percent, plain_table, span
from medjudge.validation.items import ItemAgreement, ItemStudy, PhysicianItemStudy

MOST_ITEMS = 5
"""How many items with disagreements are listed."""


def print_items(study: ItemStudy, screen: Console) -> None:
    """Prints the scores by items, and how far the verdicts agree with physicians'."""
    headings = ("share of\npoints", "usable\nby items", "levels\n1 to 5", "answers")
    table = plain_table("Model", headings, f"Scores by items of judge {study.judge} (95 % interval)", 28)
    for row in study.models:
        usable = "-" if row.usable is None else percent(row.usable)
        levels = " ".join(map(str, row.levels)) if any(row.levels) else "-"
        table.add_row(row.model, percent(row.share), usable, levels, str(row.answers))
    screen.print(table)
    screen.print(
        f"{study.items} items of {study.questions} questions; {study.judged} of {study.answers} answers have verdicts"
    )
    for reason, count in study.unjudged.items():
        screen.print(f"  without verdicts: {count}, {reason}")
    for theme in study.themes:
        screen.print(f"  {theme.theme}: {percent(theme.met)} of {theme.verdicts} met")
    for line in physician_item_lines(study.physicians):
        screen.print(line)


def physician_item_lines(people: PhysicianItemStudy | None) -> list[str]:
    """What physicians' verdicts on items say of the judge's, a line each; none where there are none."""
    if people is None:
        return []
    who = "constructed verdicts, not physicians'" if people.constructed else f"physicians ({', '.join(people.raters)})"
    lines = [f"items against {who}: {_agreement(people.judge)}"]
    if len(people.by_theme) > 1:
        lines += [f"  {theme}: {_agreement(measured)}" for theme, measured in people.by_theme.items()]
    worst = [row for row in people.by_item if row.disagreements][:MOST_ITEMS]
    lines += [
        f"  {row.disagreements} of {row.verdicts} differ (kappa {_value(row.kappa)}, macro-F1 {_value(row.macro_f1)}) "
        f"on {row.question_id}: {row.item}"
        for row in worst
    ]
    if people.among is not None:
        lines.append(f"  physicians with each other: {_agreement(people.among)}")
    if people.alt_test is not None:
        lines.append(f"  alternative annotator test on items: {_alt_test(people)}")
    return lines


def _alt_test(people: PhysicianItemStudy) -> str:
    test = people.alt_test
    assert test is not None
    why = f" ({test.why})" if test.why else ""
    if test.passed is None or test.omega is None:
        return f"inconclusive{why}"
    return f"{'passed' if test.passed else 'failed'}, winning rate {test.omega:.2f}{why}"


def _agreement(agreement: ItemAgreement) -> str:
    return (
        f"agreement {percent(agreement.agreement)}, kappa {span(agreement.kappa)}, "
        f"macro-F1 {span(agreement.macro_f1)}, {agreement.verdicts} verdicts on {agreement.answers} answers"
    )


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
