"""The screen of `medjudge compare`: the ranking, and what else was measured on pairs."""

from rich.table import Table

from medjudge.cli.estimates import percent, plain_table, points, span
from medjudge.statistics.estimates import Estimate
from medjudge.validation.comparison import PairAgreement, PairStudy, PhysicianPairStudy
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS


def summary_lines(study: PairStudy) -> list[str]:
    """The results of a comparison other than the ranking, a line each."""
    of = f" of {study.possible}" if study.pairs < study.possible else ""
    lines = [f"{study.pairs}{of} pairs on {study.questions} questions, {study.judged} with a verdict"]
    if study.conversations < FEWEST_CONVERSATIONS:
        lines.insert(
            0,
            f"{study.conversations} conversations are too few to tell models apart; it takes {FEWEST_CONVERSATIONS}",
        )
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
        if single.other_order:
            apart = ", ".join(f"{first} / {second}" for first, second in single.other_order)
            lines.append(f"  ranked in the other order: {apart}")
    elif study.how == "pairs":
        lines.append("no scores of single answers by this judge; `medjudge eval` makes them, to compare both ways")
    return [*lines, *physician_lines(study.physicians)]


def physician_lines(people: PhysicianPairStudy | None) -> list[str]:
    """The judge's pairs against physicians', a line each; none where there are none."""
    if people is None:
        return []
    who = "constructed pairs, not physicians'" if people.constructed else f"physicians ({', '.join(people.raters)})"
    lines = [f"pairs against {who}: {_agreement(people.judge)}"]
    if people.pointwise is not None:
        lines.append(f"  by its scores of single answers: {_agreement(people.pointwise)}")
    if people.among is not None:
        lines.append(f"  physicians with each other: {_agreement(people.among)}")
    return lines


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
