"""Plots of a study of agreement; None where the study has no data for one."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from medjudge.plot_style import ACCENT, INK, SOFT
from medjudge.report.drawing import axes_at, drawn, in_percent, label
from medjudge.report.plot_keys import key, name_points
from medjudge.report.words import Words
from medjudge.scale import USABLE_FROM
from medjudge.validation.confidence import RiskPoint
from medjudge.validation.ranking import ModelRates
from medjudge.validation.records import Study

_ENGLISH = Words()


class Plot(NamedTuple):
    """A figure under the name of a file, what it shows in words for those who do not see it, and its numbers.

    `rows` are the numbers as a table: headings, then a row for each mark; none where the plot is a table of the page.
    """

    name: str
    figure: Figure
    alt: str
    rows: Sequence[Sequence[Any]] = ()


def plots(study: Study, words: Words = _ENGLISH) -> list[Plot]:
    """All plots that the study has data for."""
    figures = {
        "agreement": (agreement_plot, _agreement_alt, _agreement_numbers),
        "confusion": (confusion_plot, _confusion_alt, _confusion_numbers),
        "calibration": (calibration_plot, _calibration_alt, _calibration_numbers),
        "risk-coverage": (risk_coverage_plot, _risk_alt, _risk_numbers),
        "ranking": (ranking_plot, _ranking_alt, _ranking_numbers),
    }
    drawn_plots = []
    for name, (plot, alt, numbers) in figures.items():
        figure = plot(study, words)
        if figure is not None:
            in_words = words.plain("{alt}; the tables hold the numbers.", alt=alt(study, words))
            drawn_plots.append(Plot(name, figure, in_words, numbers(study, words)))
    return drawn_plots


def _against(study: Study, words: Words, most: int) -> str:
    """Whose scores the judge is compared with, as a line of so many columns."""
    return label(str(words.known(study.against)), most)


# --- Agreement by category ------------------------------------------------------------------------------------------


def agreement_plot(study: Study, words: Words = _ENGLISH) -> Figure | None:
    """Agreement on usable, overall and by category, with its intervals.

    Beside it the published reference agreement, and the agreement of the physicians with each other where it is known.
    """
    rows = _agreement_rows(study, words)
    if not rows:
        return None
    physicians = study.physicians
    ceiling = physicians.usable_agreement["value"] if physicians else None
    title, reference = _agreement_title(study, words), study.scheme.reference_agreement
    inches = 0.36 * len(rows) + 0.35

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=1.25, bottom=0.85, width=2.75, height=inches)
        for row, (name, part) in enumerate(reversed(rows)):
            measure, paper = part["usable_agreement"], study.scheme.reference_percent.get(name)
            if measure["low"] is not None:
                axes.plot([measure["low"], measure["high"]], [row, row], color=ACCENT, linewidth=2)
            axes.plot(measure["value"], row, "o", color=ACCENT, markersize=6.5)
            if paper is not None:
                axes.plot(paper / 100, row, "D", color=INK, markersize=6, markerfacecolor="none")
            # Just right of the axes, in their own coordinates.
            axes.text(
                1.04, row, _percent(measure, words), transform=axes.get_yaxis_transform(), va="center", fontsize=8.5
            )
        if ceiling is not None:
            axes.axvline(ceiling, color=SOFT, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
        names = [f"{name}, n = {part['n']['value']}" for name, part in reversed(rows)]
        axes.set_yticks(range(len(rows)), names, color=INK)
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlim(*_agreement_range(rows, study.scheme.reference_percent, ceiling))
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

    return drawn(title, inches + 0.85, draw)


def _agreement_rows(study: Study, words: Words) -> list[tuple[str, Any]]:
    of_category = study.by_category
    rows = [(words.plain("Overall"), study.overall), *of_category.items()]
    return [row for row in rows if row[1]["usable_agreement"]["value"] is not None]


def _agreement_range(
    rows: Sequence[tuple[str, Any]], published: Mapping[str, float], ceiling: float | None
) -> tuple[float, float]:
    values = [part["usable_agreement"][end] for _, part in rows for end in ("value", "low")]
    values += [published[name] / 100 for name, _ in rows if name in published] + [ceiling]
    lowest = min(value for value in values if value is not None)
    return max(0.0, int(lowest * 10 - 0.2) / 10) - 0.01, 1.015


def _agreement_title(study: Study, words: Words) -> str:
    rows = _agreement_rows(study, words)
    if not rows:
        return ""
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


def _agreement_alt(study: Study, words: Words) -> str:
    title, reference = _agreement_title(study, words), study.scheme.reference_agreement
    if reference is None:
        return words.plain("{title}. By category, with 95 % intervals", title=title)
    return words.plain(
        "{title}. By category, with 95 % intervals and {judge}'s agreement", title=title, judge=reference.judge
    )


def _agreement_numbers(study: Study, words: Words) -> list[list[Any]]:
    heading = [words.plain(text) for text in ("Part", "n", "Usable agreement, %", "low", "high")]
    reference = study.scheme.reference_agreement
    if reference is not None:
        heading.append(words.plain("{judge} in the paper", judge=reference.judge))
    rows = []
    for name, part in _agreement_rows(study, words):
        measure = part["usable_agreement"]
        ends = [_in_percent(measure[end]) for end in ("value", "low", "high")]
        published = [study.scheme.reference_percent.get(name)] if reference is not None else []
        rows.append([name, part["n"]["value"], *ends, *published])
    return [heading, *rows]


# --- Levels given by both -------------------------------------------------------------------------------------------


def confusion_plot(study: Study, words: Words = _ENGLISH) -> Figure | None:
    """How often each pair of levels was given, and of not usable and usable."""
    counts, two = study.confusion, study.confusion_usable
    if not any(map(sum, counts)):
        return None

    def draw(figure: Figure) -> None:
        against = _against(study, words, 22)
        axes = axes_at(figure, left=0.55, bottom=0.55, width=2.5, height=2.5)
        _counts(axes, counts, [str(level) for level in range(1, len(counts) + 1)])
        axes.axhline(USABLE_FROM - 1, color=INK, linewidth=0.8)
        axes.axvline(USABLE_FROM - 1, color=INK, linewidth=0.8)
        axes.set_xlabel(words.plain("Level by {against}", against=against))
        axes.set_ylabel(words.plain("Level by the judge"))
        axes = axes_at(figure, left=4.0, bottom=1.65, width=1.4, height=1.4)
        _counts(axes, two, [words.plain("not usable").replace(" ", "\n"), words.plain("usable")])
        axes.set_xlabel(words.plain("By {against}", against=against))
        axes.set_ylabel(words.plain("By the judge"))

    return drawn(_confusion_title(study, words), 3.05, draw)


def _counts(axes: Axes, counts: Sequence[Sequence[int]], names: Sequence[str]) -> None:
    largest = max(map(max, counts))
    for row, cells in enumerate(counts):
        for column, count in enumerate(cells):
            shade = 0.8 * count / largest
            edge = ACCENT if row == column else "white"
            face = [1 - shade * (1 - part) for part in to_rgb(ACCENT)]
            axes.add_patch(Rectangle((column + 0.03, row + 0.03), 0.94, 0.94, facecolor=face, edgecolor=edge))
            colour = "white" if shade > 0.45 else INK
            axes.text(column + 0.5, row + 0.5, str(count), ha="center", va="center", color=colour)
    ticks = [index + 0.5 for index in range(len(names))]
    axes.set_xticks(ticks, names)
    axes.set_yticks(ticks, names)
    axes.set_xlim(0, len(names))
    axes.set_ylim(len(names), 0)  # level 1 on top, as in the tables
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _confusion_title(study: Study, words: Words) -> str:
    counts, two = study.confusion, study.confusion_usable
    return words.plain(
        "Same level on {same} of {total} answers; {judge} called usable only by the judge, {others} only by {against}",
        same=sum(counts[level][level] for level in range(len(counts))),
        total=sum(map(sum, counts)),
        judge=two[1][0],
        others=two[0][1],
        against=_against(study, words, 28),
    )


def _confusion_alt(study: Study, words: Words) -> str:
    return words.plain("{title}. Counts of levels given by both", title=_confusion_title(study, words))


def _confusion_numbers(study: Study, words: Words) -> list[list[Any]]:
    levels = range(1, len(study.confusion) + 1)
    corner = (
        f"{words.plain('Level by the judge')} / {words.plain('Level by {against}', against=words.known(study.against))}"
    )
    return [[corner, *levels], *([level, *counts] for level, counts in zip(levels, study.confusion, strict=True))]


# --- Confidence -----------------------------------------------------------------------------------------------------


def calibration_plot(study: Study, words: Words = _ENGLISH) -> Figure | None:
    """The judge's P(usable) against the share of usable answers, with intervals; area grows with the answers."""
    confidence = study.confidence
    if not confidence or not confidence.curve:
        return None
    curve = confidence.curve
    smallest, largest = min(point["n"] for point in curve), max(point["n"] for point in curve)
    to = words.plain("to")
    counts = f"{largest}" if smallest == largest else f"{smallest} {to} {largest}"

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=0.75, bottom=0.6, width=4.4, height=3.3)
        axes.plot([0, 1], [0, 1], color=SOFT, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
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

    return drawn(_calibration_title(study, words), 3.9, draw)


def _calibration_title(study: Study, words: Words) -> str:
    confidence = study.confidence
    if not confidence or not confidence.curve:
        return ""
    total = sum(point["n"] for point in confidence.curve)
    predicted = 100 * sum(point["n"] * point["predicted"] for point in confidence.curve) / total
    observed = 100 * sum(point["n"] * point["observed"] for point in confidence.curve) / total
    return words.plain(
        "The judge expects {predicted} % usable, and {observed} % are; calibration error {error} points",
        predicted=f"{predicted:.0f}",
        observed=f"{observed:.0f}",
        error=f"{100 * confidence.ece:.1f}",
    )


def _calibration_alt(study: Study, words: Words) -> str:
    title = _calibration_title(study, words)
    return words.plain("{title}. Predicted against observed shares of usable answers", title=title)


def _calibration_numbers(study: Study, words: Words) -> list[list[Any]]:
    names = ("Predicted, %", "Observed, %", "low", "high", "n")
    curve = study.confidence.curve if study.confidence else []
    shares = [[_in_percent(point[key]) for key in ("predicted", "observed", "low", "high")] for point in curve]
    return [
        [words.plain(name) for name in names],
        *([*row, point["n"]] for row, point in zip(shares, curve, strict=True)),
    ]


def risk_coverage_plot(study: Study, words: Words = _ENGLISH) -> Figure | None:
    """The share of errors that is left where the judge decides only the answers that it is surest of."""
    curve = _risk_curve(study)
    if not curve:
        return None

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=0.75, bottom=0.6, width=4.4, height=2.5)
        coverage, risk = [point["coverage"] for point in curve], [point["risk"] for point in curve]
        axes.axhline(risk[-1], color=SOFT, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot(coverage, risk, color=ACCENT, linewidth=2)
        axes.plot(coverage[-1], risk[-1], "o", color=ACCENT, markersize=5.5, clip_on=False)
        axes.set_xlim(0, 1)
        axes.set_ylim(0, max(0.05, 1.15 * max(risk)))
        in_percent(axes, "xy")
        axes.set_xlabel(words.plain("Answers that the judge decides, the surest first"))
        axes.set_ylabel(words.plain("Errors among them"))

    return drawn(_risk_title(study, words), 3.1, draw)


def _risk_curve(study: Study) -> list[RiskPoint]:
    """Empty where it has fewer than two points: a judge that is equally sure of everything."""
    curve = study.confidence.risk_coverage if study.confidence else []
    return curve if len(curve) > 1 else []


def _risk_title(study: Study, words: Words) -> str:
    curve = _risk_curve(study)
    if not curve:
        return ""
    half = min(curve, key=lambda point: abs(point["coverage"] - 0.5))
    return words.plain(
        "On the surest {share} % of the answers the judge errs on {risk} %, on all of them on {all} %",
        share=f"{100 * half['coverage']:.0f}",
        risk=f"{100 * half['risk']:.1f}",
        all=f"{100 * curve[-1]['risk']:.1f}",
    )


def _risk_alt(study: Study, words: Words) -> str:
    return words.plain("{title}. Share of errors against share of answers decided", title=_risk_title(study, words))


def _risk_numbers(study: Study, words: Words) -> list[list[Any]]:
    heading = [words.plain(name) for name in ("Answers that the judge decides, %", "Errors among them, %")]
    return [heading, *([_in_percent(point["coverage"]), _in_percent(point["risk"])] for point in _risk_curve(study))]


# --- Ranking --------------------------------------------------------------------------------------------------------


def ranking_plot(study: Study, words: Words = _ENGLISH) -> Figure | None:
    """Usability rates of the answering models by physicians and by the judge; hollow marks are the teacher's."""
    ranking = study.ranking
    if not ranking:
        return None
    models = ranking.models
    inches = max(2.7, 0.19 * len(models))
    has_teacher = any(rates.teacher is not None for rates in models.values())

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=0.75, bottom=0.85, width=2.7, height=inches)
        known = [rate for rates in models.values() for rate in _known(rates)]
        low, high = max(0.0, min(known) - 0.05), min(1.0, max(known) + 0.05)
        axes.plot([low, high], [low, high], color=SOFT, linewidth=1, linestyle=(0, (4, 3)), zorder=0)
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

    return drawn(_ranking_title(study, words), inches + 0.85, draw)


def _known(rates: ModelRates) -> list[float]:
    return [rate for rate in (rates.physicians, rates.judge, rates.teacher) if rate is not None]


def _ranking_title(study: Study, words: Words) -> str:
    if not study.ranking:
        return ""
    against, right = _against(study, words, 28), study.ranking.pairwise_accuracy["value"]
    if right is None:
        return words.plain("No two models are told apart by {against}", against=against)
    return words.plain(
        "Of the pairs of models told apart by {against}, the judge orders {share} % alike",
        against=against,
        share=f"{100 * right:.0f}",
    )


def _ranking_alt(study: Study, words: Words) -> str:
    return words.plain("{title}. Usability rates of the models by both", title=_ranking_title(study, words))


def _ranking_numbers(study: Study, words: Words) -> list[list[Any]]:
    against = words.known(study.against)
    heading = [words.plain(name) for name in ("Model", "n")]
    heading += [words.plain("Usable to {against}, %", against=against), words.plain("to the judge, %")]
    heading.append(words.plain("to the teacher, %"))
    rows = [
        [name, rates.n, *map(_in_percent, (rates.physicians, rates.judge, rates.teacher))]
        for name, rates in (study.ranking.models if study.ranking else {}).items()
    ]
    return [heading, *rows]


# --- Marks and their names -------------------------------------------------------------------------------------------


def _percent(measure: Mapping[str, float | None], words: Words) -> str:
    value, low, high = (None if measure[key] is None else 100 * (measure[key] or 0) for key in ("value", "low", "high"))
    to = words.plain("to")
    return f"{value:.1f} %" if low is None else f"{value:.1f} % ({low:.0f} {to} {high:.0f})"


def _in_percent(share: float | None) -> float | None:
    return None if share is None else round(100 * share, 2)
