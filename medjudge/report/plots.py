"""Plots of the report: the rates of a leaderboard, and a judge's agreement and calibration."""

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from medjudge.files import write_whole
from medjudge.judge.study_summary import AgainstKind
from medjudge.report.boards import Board, judged_runs, leaderboards
from medjudge.report.contents import read_runs
from medjudge.report.drawing import ACCENT, DASHED, INK, SOFT, Plot, as_svg, axes_at, drawn, in_percent, label
from medjudge.report.sections import studies_of
from medjudge.report.verdict import percent_of
from medjudge.report.words import Words
from medjudge.store import Run
from medjudge.validation.records import Study
from medjudge.validation.status import ValidationState

_NAMES = 24
"""Columns of text that a model's name may take."""


# --- Leaderboards ----------------------------------------------------------------------------------------------------


def rates_plot(board: Board, words: Words) -> Plot:
    """The rate of each model over all questions, the best on top; lines are 95 % intervals."""
    rates = [model.overall for model in board.models.values()]
    rows, inches = range(len(rates)), 0.22 * len(rates)
    validated = board.validation_status["OP"].state == ValidationState.VALIDATED

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=2.2, bottom=0.3, width=3.0, height=inches)
        colour = ACCENT if validated else SOFT
        axes.barh(rows, [rate.rate or 0 for rate in rates], color=colour, alpha=0.55, height=0.6)
        for row, rate in enumerate(rates):
            if rate.low is not None and rate.high is not None:
                axes.plot([rate.low, rate.high], [row, row], color=INK, linewidth=1)
            elif rate.rate is None:
                axes.text(1, row, words.plain("no score"), va="center", fontsize=7.5, color=SOFT)
        axes.set_yticks(rows, [label(name, _NAMES) for name in board.models], color=INK)
        axes.set_ylim(len(rates) - 0.4, -0.6)
        axes.set_xlim(0, 100)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)

    title = _rates_title(board, words)
    return Plot("rates", drawn(title, inches + 0.3, draw), title)


def _rates_title(board: Board, words: Words) -> str:
    first, *others = board.models
    tied = [name for name in others if name in board.ties and board.ties[name].tie]
    rate = board.models[first].overall.rate
    judge = {"judge": label(board.judge, 28), "state": words.plain(board.validation_status["OP"].state.value)}
    if rate is None:
        return words.plain("Judge {judge} ({state}) scored no answer", **judge)
    highest = {**judge, "model": label(first, _NAMES), "rate": f"{rate:.1f}"}
    title = words.plain("By judge {judge} ({state}), {model} has the highest usability rate, {rate} %", **highest)
    if not others:
        return title
    if not tied:
        return words.plain("{title}; all others shown to be worse", title=title)
    values = {"title": title, "tied": len(tied), "others": len(others)}
    return words.plain("{title}; {tied} of {others} other models tied with it", **values)


# --- Studies ---------------------------------------------------------------------------------------------------------


def plots(study: Study, words: Words) -> list[Plot]:
    """All plots that the study has data for."""
    return [plot for kind in (agreement_plot, calibration_plot) if (plot := kind(study, words)) is not None]


def _against(study: Study, words: Words, most: int) -> str:
    """Whose scores the judge is compared with, as a line of so many columns."""
    return label(str(words.known(study.against)), most)


def agreement_plot(study: Study, words: Words) -> Plot | None:
    """Agreement on usable, overall and by category, with its intervals.

    With it the published reference agreement, and the agreement of the physicians with each other where it is known.
    """
    parts: list[tuple[str, Any]] = [(words.plain("Overall"), study.overall), *study.by_category.items()]
    rows = [part for part in parts if part[1]["usable_agreement"]["value"] is not None]
    if not rows:
        return None
    ceiling = study.physicians.usable_agreement["value"] if study.physicians else None
    reference = study.scheme.reference_agreement
    inches = 0.36 * len(rows) + 0.35

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=1.25, bottom=0.85, width=2.75, height=inches)
        place = {name: len(rows) - 1 - row for row, (name, _) in enumerate(rows)}
        for name, part in rows:
            measure = part["usable_agreement"]
            if measure["low"] is not None:
                axes.plot([measure["low"], measure["high"]], [place[name]] * 2, color=ACCENT, linewidth=2)
            # Just right of the axes, in their own coordinates.
            right, text = axes.get_yaxis_transform(), str(percent_of(measure, words))
            axes.text(1.04, place[name], text, transform=right, va="center", fontsize=8.5)
        values = [part["usable_agreement"]["value"] for _, part in rows]
        axes.plot(values, list(place.values()), "o", color=ACCENT, markersize=6.5, label=words.plain("this judge"))
        if reference is not None:
            papers = {name: reference.percent[name] / 100 for name in place if name in reference.percent}
            in_paper = words.plain("{judge} in the paper", judge=reference.judge)
            hollow: Any = {"color": INK, "markersize": 6, "markerfacecolor": "none", "label": in_paper}
            axes.plot(list(papers.values()), [place[name] for name in papers], "D", **hollow)
        if ceiling is not None:
            among = words.plain("physicians among each other")
            axes.axvline(ceiling, color=SOFT, linewidth=1, zorder=0, linestyle=DASHED, label=among)
        names = [f"{name}, n = {part['n']['value']}" for name, part in rows]
        axes.set_yticks(list(place.values()), names, color=INK)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlim(right=1.015)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        in_percent(axes, "x")
        axes.set_xlabel(words.plain("Agreement on usable, with 95 % interval"))
        figure.legend(loc="lower left", ncols=3, frameon=False, labelcolor=SOFT, fontsize=8.5, columnspacing=4)

    title = _agreement_title(study, rows, words)
    alt = words.plain("{alt}; the tables hold the numbers.", alt=title)
    return Plot("agreement", drawn(title, inches + 0.85, draw), alt)


def _agreement_title(study: Study, rows: Sequence[tuple[str, Any]], words: Words) -> str:
    overall = rows[0][1]["usable_agreement"]["value"]
    shown = {"against": _against(study, words, 28), "percent": f"{100 * overall:.1f}"}
    title = words.plain("On usable the judge agrees with {against} on {percent} %", **shown)
    values = {name: part["usable_agreement"]["value"] for name, part in rows[1:]}
    least = min(values, key=lambda name: values[name], default=None)
    if least is None or values[least] >= overall:
        return title
    percent = f"{100 * values[least]:.1f}"
    return words.plain("{title}, least in {category} ({percent} %)", title=title, category=least, percent=percent)


def calibration_plot(study: Study, words: Words) -> Plot | None:
    """The judge's P(usable) against the share of usable answers, with intervals; area grows with the answers."""
    confidence = study.confidence
    if not confidence or not confidence.curve:
        return None
    curve = confidence.curve
    smallest, largest = min(point["n"] for point in curve), max(point["n"] for point in curve)
    counts = f"{largest}" if smallest == largest else f"{smallest} {words.plain('to')} {largest}"

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=0.75, bottom=0.6, width=4.4, height=3.3)
        axes.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle=DASHED, zorder=0)
        for point in curve:
            axes.plot([point["predicted"]] * 2, [point["low"], point["high"]], color=ACCENT, linewidth=1.5)
            size = max(2.0, 7 * (point["n"] / largest) ** 0.5)
            axes.plot(point["predicted"], point["observed"], "o", color=ACCENT, markersize=size, clip_on=False)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        in_percent(axes, "xy")
        axes.set_xlabel(words.plain("The judge's probability of usable; each point is {n} answers", n=counts))
        against = _against(study, words, 22)
        axes.set_ylabel(words.plain("Usable to {against}, with 95 % interval", against=against))

    total = sum(point["n"] for point in curve)
    title = words.plain(
        "The judge expects {predicted} % usable, and {observed} % are; calibration error {error} points",
        predicted=f"{100 * sum(point['n'] * point['predicted'] for point in curve) / total:.0f}",
        observed=f"{100 * sum(point['n'] * point['observed'] for point in curve) / total:.0f}",
        error=f"{100 * confidence.ece:.1f}",
    )
    alt = words.plain("{alt}; the tables hold the numbers.", alt=title)
    return Plot("calibration", drawn(title, 3.9, draw), alt)


# --- Files -----------------------------------------------------------------------------------------------------------


def write_plots(folder: Path, runs: Sequence[Run], language: str = "en") -> list[Path]:
    """Writes every plot of the leaderboards and of the studies as SVG.

    Args:
        language: What titles, axes and legends are written in: `en` or `zh`.

    Returns:
        The files: `JUDGE-rates.svg` and so on; a second plot of the same name is numbered.

    Raises:
        InputError: A record of a run breaks a rule.
    """
    judged, words = judged_runs(read_runs(runs)), Words(language)
    named = [(board.judge, rates_plot(board, words)) for board in leaderboards(judged)]
    for run in judged:
        for study in studies_of(Run(run.path), run.judge):
            against = "" if study.against_kind == AgainstKind.PHYSICIANS else f"-against-{study.against}"
            named += [(f"{run.judge}{against}", plot) for plot in plots(study, words)]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files, numbers = [], Counter[str]()
    for judge, plot in named:
        name = re.sub(r"[^\w.-]+", "-", f"{judge}-{plot.name}").strip("-.")
        numbers[name] += 1
        files.append(folder / (f"{name}.svg" if numbers[name] == 1 else f"{name}-{numbers[name]}.svg"))
        write_whole(files[-1], as_svg(plot.figure))
    return files
