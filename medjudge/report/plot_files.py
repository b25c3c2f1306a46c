"""The report's plots as files, for slides and papers."""

import re
from collections.abc import Sequence
from pathlib import Path

from medjudge.errors import notify
from medjudge.files import replacing, write_whole
from medjudge.judge.study_summary import AgainstKind
from medjudge.report.board_plots import board_plots
from medjudge.report.boards import leaderboards
from medjudge.report.contents import read_contents
from medjudge.report.drawing import as_png, as_svg
from medjudge.report.plots import Plot, plots
from medjudge.report.sections import studies_of
from medjudge.report.words import Words
from medjudge.store import Run


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
    contents, words = [read_contents(run) for run in runs], Words(language)
    plots_by_judge = [(board.judge, plot) for board in leaderboards(contents) for plot in board_plots(board, words)]
    for run in contents:
        for judge in run.judgments:
            for study in studies_of(run.run, judge):
                against = "" if study.against_kind == AgainstKind.PHYSICIANS else f"-against-{study.against}"
                plots_by_judge += [(f"{judge}{against}", plot) for plot in plots(study, words)]
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
