"""Plots of a study of agreement, and the files of all plots of the report."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from medjudge.errors import notify
from medjudge.files import replacing, write_whole
from medjudge.judge.study_summary import AgainstKind
from medjudge.plot_style import ACCENT, INK, SOFT
from medjudge.report.board_plots import board_plots
from medjudge.report.boards import judged_runs, leaderboards
from medjudge.report.contents import read_runs
from medjudge.report.drawing import (
    DASHED,
    Plot,
    as_png,
    as_svg,
    axes_at,
    drawn,
    heat_map,
    in_percent,
    key,
    label,
    name_points,
    shaded_cell,
)
from medjudge.report.sections import studies_of
from medjudge.report.words import Words
from medjudge.scale import USABLE_FROM
from medjudge.store import Run
from medjudge.validation.ranking import first_of_two
from medjudge.validation.records import Study

_ENGLISH = Words()


def plots(study: Study, words: Words = _ENGLISH) -> list[Plot]:
    """All plots that the study has data for."""
    kinds = (agreement_plot, confusion_plot, calibration_plot, risk_coverage_plot, ranking_plot)
    return [plot for kind in kinds if (plot := kind(study, words)) is not None]


def _plot(name: str, figure: Figure, alt: str, rows: Sequence[Sequence[Any]], words: Words) -> Plot:
    return Plot(name, figure, words.plain("{alt}; the tables hold the numbers.", alt=alt), rows)


def _against(study: Study, words: Words, most: int) -> str:
    """Whose scores the judge is compared with, as a line of so many columns."""
    return label(str(words.known(study.against)), most)


def agreement_plot(study: Study, words: Words = _ENGLISH) -> Plot | None:
    """Agreement on usable, overall and by category, with its intervals.

    With it the published reference agreement, and the agreement of the physicians with each other where it is known.
    """
    parts: list[tuple[str, Any]] = [(words.plain("Overall"), study.overall), *study.by_category.items()]
    rows = [part for part in parts if part[1]["usable_agreement"]["value"] is not None]
    if not rows:
        return None
    ceiling = study.physicians.usable_agreement["value"] if study.physicians else None
    reference, published = study.scheme.reference_agreement, study.scheme.reference_percent
    inches = 0.36 * len(rows) + 0.35

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=1.25, bottom=0.85, width=2.75, height=inches)
        for row, (name, part) in enumerate(reversed(rows)):
            measure, paper = part["usable_agreement"], published.get(name)
            if measure["low"] is not None:
                axes.plot([measure["low"], measure["high"]], [row, row], color=ACCENT, linewidth=2)
            axes.plot(measure["value"], row, "o", color=ACCENT, markersize=6.5)
            if paper is not None:
                axes.plot(paper / 100, row, "D", color=INK, markersize=6, markerfacecolor="none")
            # Just right of the axes, in their own coordinates.
            right, text = axes.get_yaxis_transform(), _percent(measure, words)
            axes.text(1.04, row, text, transform=right, va="center", fontsize=8.5)
        if ceiling is not None:
            axes.axvline(ceiling, color=SOFT, linewidth=1, linestyle=DASHED, zorder=0)
        names = [f"{name}, n = {part['n']['value']}" for name, part in reversed(rows)]
        axes.set_yticks(range(len(rows)), names, color=INK)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        values = [part["usable_agreement"][end] for _, part in rows for end in ("value", "low")]
        values += [published[name] / 100 for name, _ in rows if name in published] + [ceiling]
        lowest = min(value for value in values if value is not None)
        axes.set_xlim(max(0.0, int(lowest * 10 - 0.2) / 10) - 0.01, 1.015)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        in_percent(axes, "x")
        axes.set_xlabel(words.plain("Agreement on usable, with 95 % interval"))
        key(
            figure,
            ("o", ACCENT, words.plain("this judge")),
            ("D", INK, words.plain("{judge} in the paper", judge=reference.judge)) if reference is not None else None,
            ("|", SOFT, words.plain("physicians among each other")) if ceiling is not None else None,
        )

    title = _agreement_title(study, rows, words)
    heading = [words.plain(text) for text in ("Part", "n", "Usable agreement, %", "low", "high")]
    numbers: list[list[Any]] = [
        [name, part["n"]["value"], *(_in_percent(part["usable_agreement"][end]) for end in ("value", "low", "high"))]
        for name, part in rows
    ]
    alt = words.plain("{title}. By category, with 95 % intervals", title=title)
    if reference is not None:
        alt = words.plain(
            "{title}. By category, with 95 % intervals and {judge}'s agreement", title=title, judge=reference.judge
        )
        heading.append(words.plain("{judge} in the paper", judge=reference.judge))
        numbers = [[*row, published.get(row[0])] for row in numbers]
    return _plot("agreement", drawn(title, inches + 0.85, draw), alt, [heading, *numbers], words)


def _agreement_title(study: Study, rows: Sequence[tuple[str, Any]], words: Words) -> str:
    overall = rows[0][1]["usable_agreement"]["value"]
    title = words.plain(
        "On usable the judge agrees with {against} on {percent} %",
        against=_against(study, words, 28),
        percent=f"{100 * overall:.1f}",
    )
    values = {name: part["usable_agreement"]["value"] for name, part in rows[1:]}
    least = min(values, key=lambda name: values[name], default=None)
    if least is None or values[least] >= overall:
        return title
    percent = f"{100 * values[least]:.1f}"
    return words.plain("{title}, least in {category} ({percent} %)", title=title, category=least, percent=percent)


def confusion_plot(study: Study, words: Words = _ENGLISH) -> Plot | None:
    """Counts of each pair of levels, and of not usable and usable."""
    counts, two = study.confusion, study.confusion_usable
    if not any(map(sum, counts)):
        return None
    levels = range(1, len(counts) + 1)

    def matrix(axes: Axes, counts: Sequence[Sequence[int]], names: Sequence[str]) -> None:
        largest = max(map(max, counts))
        for row, cells in enumerate(counts):
            for column, count in enumerate(cells):
                edge = ACCENT if row == column else "white"
                shaded_cell(axes, (column, row), 0.8 * count / largest, str(count), edge, gap=0.03)
        axes.set_xticks([index + 0.5 for index in range(len(names))], names)
        axes.set_yticks([index + 0.5 for index in range(len(names))], names)
        heat_map(axes, len(names), len(names))

    def draw(figure: Figure) -> None:
        against = _against(study, words, 22)
        axes = axes_at(figure, left=0.55, bottom=0.55, width=2.5, height=2.5)
        matrix(axes, counts, [str(level) for level in levels])
        axes.axhline(USABLE_FROM - 1, color=INK, linewidth=0.8)
        axes.axvline(USABLE_FROM - 1, color=INK, linewidth=0.8)
        axes.set_xlabel(words.plain("Level by {against}", against=against))
        axes.set_ylabel(words.plain("Level by the judge"))
        axes = axes_at(figure, left=4.0, bottom=1.65, width=1.4, height=1.4)
        matrix(axes, two, [words.plain("not usable").replace(" ", "\n"), words.plain("usable")])
        axes.set_xlabel(words.plain("By {against}", against=against))
        axes.set_ylabel(words.plain("By the judge"))

    title = words.plain(
        "Same level on {same} of {total} answers; {judge} called usable only by the judge, {others} only by {against}",
        same=sum(counts[level][level] for level in range(len(counts))),
        total=sum(map(sum, counts)),
        judge=two[1][0],
        others=two[0][1],
        against=_against(study, words, 28),
    )
    theirs = words.plain("Level by {against}", against=words.known(study.against))
    rows = [[f"{words.plain('Level by the judge')} / {theirs}", *levels]]
    rows += [[level, *row] for level, row in zip(levels, counts, strict=True)]
    alt = words.plain("{title}. Counts of levels given by both", title=title)
    return _plot("confusion", drawn(title, 3.05, draw), alt, rows, words)


def calibration_plot(study: Study, words: Words = _ENGLISH) -> Plot | None:
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
    heading = [words.plain(name) for name in ("Predicted, %", "Observed, %", "low", "high", "n")]
    rows = [
        [*map(_in_percent, (point["predicted"], point["observed"], point["low"], point["high"])), point["n"]]
        for point in curve
    ]
    alt = words.plain("{title}. Predicted against observed shares of usable answers", title=title)
    return _plot("calibration", drawn(title, 3.9, draw), alt, [heading, *rows], words)


def risk_coverage_plot(study: Study, words: Words = _ENGLISH) -> Plot | None:
    """The share of errors that is left where the judge decides only the answers that it is surest of."""
    curve = study.confidence.risk_coverage if study.confidence else []
    if len(curve) < 2:  # of a judge that is equally sure of everything
        return None
    coverage, risk = [point["coverage"] for point in curve], [point["risk"] for point in curve]

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=0.75, bottom=0.6, width=4.4, height=2.5)
        axes.axhline(risk[-1], color=SOFT, linewidth=1, linestyle=DASHED)
        axes.plot(coverage, risk, color=ACCENT, linewidth=2)
        axes.plot(coverage[-1], risk[-1], "o", color=ACCENT, markersize=5.5, clip_on=False)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, max(0.05, 1.15 * max(risk)))
        in_percent(axes, "xy")
        axes.set_xlabel(words.plain("Answers that the judge decides, the surest first"))
        axes.set_ylabel(words.plain("Errors among them"))

    half = min(curve, key=lambda point: abs(point["coverage"] - 0.5))
    title = words.plain(
        "On the surest {share} % of the answers the judge errs on {risk} %, on all of them on {all} %",
        share=f"{100 * half['coverage']:.0f}",
        risk=f"{100 * half['risk']:.1f}",
        all=f"{100 * risk[-1]:.1f}",
    )
    heading = [words.plain(name) for name in ("Answers that the judge decides, %", "Errors among them, %")]
    rows = [[_in_percent(point["coverage"]), _in_percent(point["risk"])] for point in curve]
    alt = words.plain("{title}. Share of errors against share of answers decided", title=title)
    return _plot("risk-coverage", drawn(title, 3.1, draw), alt, [heading, *rows], words)


def ranking_plot(study: Study, words: Words = _ENGLISH) -> Plot | None:
    """Usability rates of the answering models by physicians and by the judge; hollow marks are the teacher's."""
    if not study.ranking:
        return None
    models = study.ranking.models
    inches = max(2.7, 0.19 * len(models))
    has_teacher = any(rates.teacher is not None for rates in models.values())
    all_rates = [rate for one in models.values() for rate in (one.physicians, one.judge, one.teacher)]
    known = [rate for rate in all_rates if rate is not None]

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=0.75, bottom=0.85, width=2.7, height=inches)
        low, high = max(0.0, min(known) - 0.05), min(1.0, max(known) + 0.05)
        axes.plot([low, high], [low, high], color=SOFT, linewidth=1, linestyle=DASHED, zorder=0)
        for rates in models.values():
            if rates.teacher is not None:
                axes.plot(rates.physicians, rates.teacher, "o", color=INK, markersize=5, markerfacecolor="none")
            axes.plot(rates.physicians, rates.judge, "o", color=ACCENT, markersize=6)
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        in_percent(axes, "xy")
        axes.set_xlabel(words.plain("Usable to {against}", against=_against(study, words, 22)))
        axes.set_ylabel(words.plain("Usable to the judge"))
        named = [(rates.physicians, rates.judge, label(name, 26)) for name, rates in models.items()]
        name_points(axes, named, inches)
        key(
            figure,
            ("o", ACCENT, words.plain("this judge")),
            ("o ", INK, words.plain("its teacher")) if has_teacher else None,
            ("-", SOFT, words.plain("the same rate by both")),
        )

    against, right = _against(study, words, 28), study.ranking.pairwise_accuracy["value"]
    if two := first_of_two(study.ranking, study.against):
        title = label(str(words.known(two)), 160)
    elif right is None:
        title = words.plain("No two models are told apart by {against}", against=against)
    else:
        title = words.plain(
            "Of the pairs of models told apart by {against}, the judge orders {share} % alike",
            against=against,
            share=f"{100 * right:.0f}",
        )
    usable = words.plain("Usable to {against}, %", against=words.known(study.against))
    heading = [*(words.plain(name) for name in ("Model", "n")), usable]
    heading += [words.plain("to the judge, %"), words.plain("to the teacher, %")]
    rows = [
        [name, rates.n, *map(_in_percent, (rates.physicians, rates.judge, rates.teacher))]
        for name, rates in models.items()
    ]
    alt = words.plain("{title}. Usability rates of the models by both", title=title)
    return _plot("ranking", drawn(title, inches + 0.85, draw), alt, [heading, *rows], words)


def _percent(measure: Mapping[str, float | None], words: Words) -> str:
    value, low, high = (None if measure[end] is None else 100 * (measure[end] or 0) for end in ("value", "low", "high"))
    return f"{value:.1f} %" if low is None else f"{value:.1f} % ({low:.0f} {words.plain('to')} {high:.0f})"


def _in_percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)


# --- Files -----------------------------------------------------------------------------------------------------------


def write_plots(folder: Path, runs: Sequence[Run], language: str = "en") -> list[Path]:
    """Writes every plot of the leaderboards and of the studies as SVG and PNG.

    Args:
        language: What titles, axes and legends are written in: `en` or `zh`.

    Returns:
        The files: `JUDGE-rates.svg` and so on; a second plot of the same name is numbered. A plot with Chinese text has
        no PNG where this machine has no font for it.

    Raises:
        InputError: A record of a run breaks a rule.
    """
    judged, words = judged_runs(read_runs(runs)), Words(language)
    plots_by_judge = [(board.judge, plot) for board in leaderboards(judged) for plot in board_plots(board, words)]
    for run in judged:
        for study in studies_of(Run(run.path), run.judge):
            against = "" if study.against_kind == AgainstKind.PHYSICIANS else f"-against-{study.against}"
            plots_by_judge += [(f"{run.judge}{against}", plot) for plot in plots(study, words)]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    files: list[Path] = []
    for judge, plot in plots_by_judge:
        files += _written(folder, _new_name(judge, plot, files), plot)
    return files


def _new_name(whose: str, plot: Plot, files: Sequence[Path]) -> str:
    name = re.sub(r"[^\w.-]+", "-", f"{whose}-{plot.name}").strip("-.")
    taken = {file.stem for file in files}
    return next(
        candidate for candidate in (name, *(f"{name}-{k}" for k in range(2, len(files) + 3))) if candidate not in taken
    )


def _written(folder: Path, name: str, plot: Plot) -> list[Path]:
    svg, png = folder / f"{name}.svg", folder / f"{name}.png"
    write_whole(svg, as_svg(plot.figure))
    image = as_png(plot.figure)
    if image is None:
        notify(
            f"{png}: not written: no font of this machine has Chinese characters; {svg.name} takes the reader's fonts"
        )
        return [svg]
    with replacing(png) as file:
        file.write(image)
    return [svg, png]
