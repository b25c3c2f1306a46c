"""Colours and settings that all plots share; needs no matplotlib."""

from typing import Any

INK, SOFT, LINE, ACCENT = "#1b2530", "#5b6875", "#d9dfe5", "#1f7a5c"
STYLE: Any = {  # Any, because matplotlib 3.11 types the name of every setting
    # Text stays text, so that the reader's fonts draw the names of models in any script. DejaVu comes with matplotlib:
    # what is measured is the same everywhere.
    "svg.fonttype": "none",
    "svg.hashsalt": "medjudge",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Noto Sans", "Arial", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei"],
    "font.size": 9,
    # A name with two dollar signs is no formula.
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
}
