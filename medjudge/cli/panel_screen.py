"""What `medjudge validate` prints of a panel: its members beside it, and how many independent votes they are."""

from collections.abc import Iterator

from rich.console import Console
from rich.table import Table

from medjudge.cli.estimates import percent, plain_table, points, span
from medjudge.validation.other_judges import MemberAgreement, PanelStudy
from medjudge.validation.records import Study


def print_panel(screen: Console, panel: PanelStudy, study: Study) -> None:
    """Prints a table of the members with the panel in the last row, and what follows from it."""
    screen.print(_table(panel, study))
    for line in panel_lines(panel):
        screen.print(line)


def _table(panel: PanelStudy, study: Study) -> Table:
    columns = ("weight", "n", "usable agreement", "Cohen's kappa", "panel minus member", "s/answer", "USD")
    table = plain_table("member", columns)
    for member in panel.members:
        table.add_row(*_row(member))
    table.add_row(
        study.judge,
        "",
        str(study.n),
        percent(study.overall["usable_agreement"]),
        span(study.overall["cohen_kappa"]),
        "",
        _sum([member.seconds_per_answer for member in panel.members]),
        _usd(panel.usd),
    )
    return table


def _row(member: MemberAgreement) -> list[str]:
    if member.n == 0:
        return [member.judge, f"{member.weight:.2f}", "0", "no scores", "", "", "", _usd(member.usd)]
    return [
        member.judge,
        f"{member.weight:.2f}",
        str(member.n),
        percent(member.measures["usable_agreement"]),
        span(member.measures["cohen_kappa"]),
        points(member.difference["usable_agreement"]),
        "-" if member.seconds_per_answer is None else f"{member.seconds_per_answer:.2f}",
        _usd(member.usd),
    ]


def panel_lines(panel: PanelStudy) -> Iterator[str]:
    """What the members' errors and agreement say about the panel, a line each."""
    if panel.calibrated_on:
        yield f"Members calibrated on {panel.calibrated_on} other answers; the rows show them alone, uncalibrated."
    else:
        yield "Members are not calibrated: too few physicians' scores, or none."
    names = [member.judge for member in panel.members]
    pairs = [
        f"{first} and {second} {value:.2f}"
        for place, first in enumerate(names)
        for other, second in enumerate(names[:place])
        if panel.correlation and (value := panel.correlation[place][other]) is not None
    ]
    if pairs:
        yield (
            f"Correlation of errors on usable: mean {span(panel.mean_correlation)} on {panel.answers} answers; "
            f"{', '.join(pairs)}."
        )
        yield (
            f"Effective votes: {_votes(panel)} of {len(names)} (Kish's design effect; Kohli 2026, arXiv 2605.29800)."
        )
    yield _verdict(panel)


def _votes(panel: PanelStudy) -> str:
    votes = panel.effective_votes
    if votes["value"] is None:
        return "-"
    ends = "" if votes["low"] is None else f" ({votes['low']:.1f}–{votes['high']:.1f})"
    return f"{votes['value']:.1f}{ends}"


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


def _sum(seconds: list[float | None]) -> str:
    known = [value for value in seconds if value is not None]
    return f"{sum(known):.2f}" if known else "-"
