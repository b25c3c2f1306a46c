"""Screens of studies: the ranking by pairs, the members of a panel, the scores by items."""

from rich.console import Console
from rich.table import Table

from medjudge.cli.output import percent, plain_table, points, span
from medjudge.statistics.estimates import Estimate
from medjudge.validation.comparison import PairAgreement, PairStudy, PhysicianPairStudy
from medjudge.validation.items import ItemAgreement, ItemStudy, PhysicianItemStudy
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS, PanelStudy
from medjudge.validation.records import Study

_MOST_ITEMS = 5
"""The most items with disagreements that are listed."""


def summary_lines(study: PairStudy) -> list[str]:
    """The results of a comparison other than the ranking, a line each."""
    of = f" of {study.possible}" if study.pairs < study.possible else ""
    lines = []
    if study.conversations < FEWEST_CONVERSATIONS:
        few = f"{study.conversations} conversations are too few to tell models apart"
        lines.append(f"{few}; it takes {FEWEST_CONVERSATIONS}")
    lines.append(f"{study.pairs}{of} pairs on {study.questions} questions, {study.judged} with a verdict")
    lines += [f"  without a verdict: {count}, {reason}" for reason, count in study.unjudged.items()]
    counted = "the pairs as the judge decided them" if study.how == "pairs" else "the likeliest verdict on each pair"
    lines.append(
        "expected wins: what Davidson's model predicts if every two models met equally often, ties half; wins, ties "
        f"and losses count {counted}"
    )
    if study.shortened:
        lines.append(f"{study.shortened} prompts did not hold both answers in full; their middle was left out")
    if study.swaps is not None:
        swapped = study.swaps
        lines.append(
            f"swap consistency {percent(swapped.consistency)}: {swapped.disagreeing} pairs changed with the order and "
            "count as ties"
        )
        lines.append(f"position bias: {percent(swapped.shown_first)} of decided verdicts prefer the answer shown first")
    length = study.ranking.length
    if length is not None:
        lines.append(f"length: {span(length)} on the strength of the longer answer; strengths hold for equal length")
    if study.pointwise is not None:
        single = study.pointwise
        lines.append(f"single scores on the same pairs: {_agreement(single.with_pairs)}")
        lines.append(f"  mean difference of the shares of wins: {points(single.difference)}")
    elif study.how == "pairs":
        lines.append("no scores of single answers by this judge; `medjudge eval` makes them, to compare both ways")
    return [*lines, *physician_lines(study.physicians)]


def physician_lines(people: PhysicianPairStudy | None) -> list[str]:
    """The judge's pairs against physicians', a line each; none where there are none."""
    if people is None:
        return []
    lines = [f"pairs against {_who(people, 'pairs')}: {_agreement(people.judge)}"]
    if people.pointwise is not None:
        lines.append(f"  by its scores of single answers: {_agreement(people.pointwise)}")
    if people.among is not None:
        lines.append(f"  physicians with each other: {_agreement(people.among)}")
    return lines


def _who(people: PhysicianPairStudy | PhysicianItemStudy, what: str) -> str:
    return f"constructed {what}, not physicians'" if people.constructed else f"physicians ({', '.join(people.raters)})"


def ranking_table(study: PairStudy) -> Table:
    """The models, the strongest first."""
    how = "pairs" if study.how == "pairs" else "scores of single answers"
    headings = ("strength", "expected\nwins, %", "wins", "ties", "losses")
    table = plain_table("Model", headings, f"Ranking by {how} of judge {study.judge} (95 % interval)", 28)
    for row in study.ranking.models:
        counts = [str(count) for count in (row.wins, row.ties, row.losses)]
        table.add_row(row.model, _cell(row.strength, 2), _cell(row.win_share, 1, 100), *counts)
    return table


def _cell(value: Estimate, digits: int, times: int = 1) -> str:
    middle, low, high = value["value"], value["low"], value["high"]
    if middle is None:
        return "-"
    shown = f"{times * middle:.{digits}f}"
    return shown if low is None or high is None else f"{shown}\n{times * low:.{digits}f} to {times * high:.{digits}f}"


def _agreement(agreement: PairAgreement) -> str:
    return (
        f"agreement {percent(agreement.agreement)}, kappa {span(agreement.kappa)}, where both decide "
        f"{percent(agreement.decided)}, {agreement.pairs} pairs"
    )


def print_panel(screen: Console, panel: PanelStudy, study: Study) -> None:
    """Prints a table of the members with the panel in the last row, and what follows from it."""
    columns = ("n", "usable agreement", "Cohen's kappa", "panel minus member", "s/answer", "USD")
    table = plain_table("member", columns)
    for member in panel.members:
        measured = ["no scores", "", "", ""]
        if member.n:
            measured = [
                percent(member.measures["usable_agreement"]),
                span(member.measures["cohen_kappa"]),
                points(member.difference["usable_agreement"]),
                "-" if member.seconds_per_answer is None else f"{member.seconds_per_answer:.2f}",
            ]
        table.add_row(member.judge, str(member.n), *measured, _usd(member.usd))
    known = [member.seconds_per_answer for member in panel.members if member.seconds_per_answer is not None]
    measured = [percent(study.overall["usable_agreement"]), span(study.overall["cohen_kappa"]), ""]
    table.add_row(study.judge, str(study.n), *measured, f"{sum(known):.2f}" if known else "-", _usd(panel.usd))
    screen.print(table)
    screen.print(_verdict(panel))


def _verdict(panel: PanelStudy) -> str:
    margin = f"{100 * panel.margin:g} points"
    if panel.enough is not None:
        one = next(member for member in panel.members if member.judge == panel.enough)
        return (
            f"{one.judge} alone is as good as the panel: it loses less than {margin} of usable agreement, and takes "
            f"{one.seconds:.0f} s and {_usd(one.usd)} USD instead of {panel.seconds:.0f} s and {_usd(panel.usd)} USD."
        )
    if all(member.as_good is False for member in panel.members):
        return "The panel is better than each of its members."
    return f"Inconclusive: no member is shown to be within {margin} of the panel, nor the panel to be better than each."


def _usd(usd: float | None) -> str:
    return "unknown" if usd is None else f"{usd:.2f}"


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
    """Findings on a judge from physicians' verdicts on items, a line each; none where there are none."""
    if people is None:
        return []
    lines = [f"items against {_who(people, 'verdicts')}: {_item_agreement(people.judge)}"]
    if len(people.by_theme) > 1:
        lines += [f"  {theme}: {_item_agreement(measured)}" for theme, measured in people.by_theme.items()]
    worst = [row for row in people.by_item if row.disagreements][:_MOST_ITEMS]
    lines += [f"  {row.disagreements} of {row.verdicts} differ on {row.question_id}: {row.item}" for row in worst]
    if people.among is not None:
        lines.append(f"  physicians with each other: {_item_agreement(people.among)}")
    if people.alt_test is not None:
        test = people.alt_test
        result = {True: "passed", False: "failed", None: "inconclusive"}[test.passed]
        omega = "" if test.passed is None or test.omega is None else f", winning rate {test.omega:.2f}"
        why = f" ({test.why})" if test.why else ""
        lines.append(f"  alternative annotator test on items: {result}{omega}{why}")
    return lines


def _item_agreement(agreement: ItemAgreement) -> str:
    return (
        f"agreement {percent(agreement.agreement)}, kappa {span(agreement.kappa)}, "
        f"macro-F1 {span(agreement.macro_f1)}, {agreement.verdicts} verdicts on {agreement.answers} answers"
    )
