"""The report's tables in the paper's layout, as LaTeX, Markdown and CSV: pure functions from scores to text."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

from medjudge.report.boards import Board, JudgedRun, leaderboards
from medjudge.report.paired import ties
from medjudge.report.verdict import banner, few_answers_line
from medjudge.report.words import Words
from medjudge.statistics.estimates import Estimate
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.records import Study
from medjudge.validation.usability import Rate

Kind = Literal["leaderboard", "subcategories", "agreement"]

MEASURES = {
    "usable_agreement": "usable agreement",
    "cohen_kappa": "Cohen's kappa",
    "quadratic_kappa": "quadratic kappa",
    "spearman": "Spearman",
}
_MODELS_ACROSS = 5
"""Columns of a table with a column a model: as many as a page takes."""
_NONE = "–"


class Cell(NamedTuple):
    """A value with its interval; the mark is `best` in its column, or `tied`, not shown to be worse than the best."""

    text: str
    interval: str = ""
    mark: str = ""


class Table(NamedTuple):
    """A table before it is LaTeX or Markdown; its first column is text, the others are numbers."""

    kind: Kind
    title: str
    header: list[str]
    rows: list[list[Cell]]
    notes: list[str]


def latex(runs: Sequence[JudgedRun], kinds: Sequence[Kind] = ()) -> str:
    """Tables for `\\input` in a paper; they need the package booktabs.

    Args:
        kinds: Which tables; all unless given.
    """
    parts = [_latex(table, number) for number, table in enumerate(_tables(runs, kinds), 1)]
    text = "\n".join(["% needs \\usepackage{booktabs}", *parts])
    if not text.isascii():
        return f"% not only ASCII: compile with XeLaTeX or LuaLaTeX and a font that has it all (Chinese: ctex)\n{text}"
    return text


def markdown(runs: Sequence[JudgedRun], kinds: Sequence[Kind] = ()) -> str:
    """Tables as GitHub and pandoc read them; arguments as for `latex`."""
    return "\n".join(_markdown(table) for table in _tables(runs, kinds))


def rates_csv(runs: Sequence[JudgedRun], kinds: Sequence[Kind] = ()) -> str:
    """Rates in the long format: a line a run, judge, model and part, with subcategories below their category.

    RFC 4180, for `pandas.read_csv`. `part` is OP or a category; `subcategory` is empty where the rate is of the whole
    part. `validated` is the state of the judge for that part. Names that a spreadsheet would take for a formula (they
    begin with = + - @, a tab or a line break) get an apostrophe before them, and so do names that begin with one, so
    that `.str.removeprefix("'")` gives every name back.

    Args:
        kinds: `leaderboard`, `subcategories`; both unless given.
    """
    numbers = ["rate", "low", "high", "usable", "questions", "unscored", "not_answered"]
    rows = (
        [
            *map(_no_formula, [run.run, run.judge, run.validation_status[part].state, model, part, name]),
            *map(asdict(rate).get, numbers),
        ]
        for run in runs
        for model, part, name, rate in _rates(run)
        if not kinds or ("subcategories" if name else "leaderboard") in kinds
    )
    return _csv(["run", "judge", "validated", "model", "part", "subcategory", *numbers], rows)


def _rates(run: JudgedRun) -> Iterator[tuple[str, str, str, Rate]]:
    """Model, part, subcategory (or none) and rate."""
    for model, rates in run.models.items():
        for part in run.validation_status:
            if part in rates.parts:
                yield model, part, "", rates.parts[part]
        for category, names in rates.subcategories.items():
            for name, rate in names.items():
                yield model, category, name, rate


def agreement_csv(runs: Sequence[JudgedRun]) -> str:
    """Agreement in the long format: a line a run, judge, part and measure, with the number `n` of answers behind it."""
    rows = (
        [
            *map(_no_formula, [run.run, run.judge, study.against, part, measure]),
            *(cells[measure][end] for end in ("value", "low", "high")),
            cells["n"]["value"],
        ]
        for run in runs
        if (study := run.study)
        for part, cells in [("overall", study.overall), *study.by_category.items()]
        for measure in MEASURES
    )
    return _csv(["run", "judge", "against", "part", "measure", "value", "low", "high", "n"], rows)


def _csv(header: Sequence[str], rows: Iterable[list[Any]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows([header, *rows])
    return text.getvalue()


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "'")) else text


# --- Content of the tables -------------------------------------------------------------------------------------------


def _tables(runs: Sequence[JudgedRun], kinds: Sequence[Kind]) -> Iterator[Table]:
    for board in leaderboards(runs):
        if not kinds or "leaderboard" in kinds:
            yield _leaderboard(board)
        if not kinds or "agreement" in kinds:
            yield from (_agreement(run, run.study) for run in board.judged if run.study)
        if not kinds or "subcategories" in kinds:
            yield from _subcategories(board)


def _of(runs: Sequence[JudgedRun]) -> str:
    names = list(dict.fromkeys(run.run for run in runs))
    return f"judge {runs[0].judge}, {', '.join(names) if len(names) <= 3 else f'{len(names)} runs'}"


def _leaderboard(board: Board) -> Table:
    names = list(board.validation_status)
    columns = [_column(board, part) for part in names]
    unscored = [Cell(str(rates.overall.unscored + rates.overall.not_answered)) for rates in board.models.values()]
    counts = next(iter(board.models.values())).parts
    question_counts = ", ".join(f"{part} {counts[part].questions}" for part in names if part in counts)
    return Table(
        "leaderboard",
        f"Usability rates in percent (95 % interval), {_of(board.judged)}",
        ["Model", *names, "unscored"],
        [[Cell(model), *cells] for model, *cells in zip(board.models, *columns, unscored, strict=True)],
        [
            *filter(None, [few_answers_line(board.models)]),
            f"Questions: {question_counts}. Unscored: questions without a score; they count as not usable.",
            "Bold: the best of its column. †: a tie, not shown to be worse than the best: the 95 % interval of the "
            "difference, paired over the same conversations (bias-corrected and accelerated bootstrap), reaches 0, or "
            f"there are fewer than {FEWEST_CONVERSATIONS} conversations. Each interval holds for its pair alone; "
            "nothing is corrected for the number of pairs.",
            *dict.fromkeys(note for run in board.judged for note in (_validation_note(run), *run.notes)),
        ],
    )


def _validation_note(run: JudgedRun) -> str:
    status = run.validation_status
    return f"Judge {run.judge}: {status['OP'].line}. {banner(status, Words()).unescape()}"


def _subcategories(board: Board) -> Iterator[Table]:
    models = list(board.models.items())
    for category, names in models[0][1].subcategories.items():
        for start in range(0, len(models) if names else 0, _MODELS_ACROSS):
            across = dict(models[start : start + _MODELS_ACROSS])
            rows = [[Cell(name), Cell(str(rate.questions))] for name, rate in names.items()]
            for row, name in zip(rows, names, strict=True):
                row += [_rate(rates.subcategories[category][name]) for rates in across.values()]
            title = f"{category} by subcategory, usability rates in percent (95 % interval), {_of(board.judged)}"
            yield Table("subcategories", title, ["Subcategory", "questions", *across], rows, [])


def _agreement(run: JudgedRun, study: Study) -> Table:
    parts = {"overall": study.overall, **study.by_category}
    result = {True: "passed", False: "failed", None: "inconclusive"}[study.gate.passed]
    gate = "The gate" if study.gate.usual else "A custom gate, not the default one,"
    return Table(
        "agreement",
        f"Agreement with {study.against} (95 % interval), {_of([run])}",
        ["", "n", *MEASURES.values()],
        [
            [Cell(part), Cell(str(cells["n"]["value"])), *[_measure(cells[name]) for name in MEASURES]]
            for part, cells in parts.items()
        ],
        [
            f"n: answers scored by both; {study.questions} questions in {study.conversations} conversations, "
            f"coverage {100 * study.coverage:.1f} %. Usable: level 4 and above. {gate} is {result}.",
        ],
    )


def _measure(estimate: Estimate) -> Cell:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is None:
        return Cell(_NONE)
    span = "" if low is None or high is None else f"{low:.2f}–{high:.2f}"
    return Cell(f"{value:.2f}".replace("-", "−"), span.replace("-", "−"))


def _column(board: Board, part: str) -> list[Cell]:
    """Cells of rates that are compared with each other, on the questions of a part."""
    questions = board.judged[0].questions
    inside = [index for index, question in enumerate(questions) if part in ("OP", question.category)]
    asked = [questions[index] for index in inside]
    differences = ties(asked, {name: row[inside] for name, row in board.usable.items()}) if part != "OP" else board.ties
    rates = {name: rates.parts.get(part) for name, rates in board.models.items()}
    best = max((rate.rate for rate in rates.values() if rate and rate.rate is not None), default=None)
    cells = []
    for name, rate in rates.items():
        tied = name in differences and differences[name].tie
        cells.append(_rate(rate, "best" if rate and rate.rate == best else "tied" if tied else ""))
    return cells


def _rate(rate: Rate | None, mark: str = "") -> Cell:
    if rate is None or rate.rate is None:
        return Cell(_NONE)
    if rate.mostly_unanswered:
        return Cell(f"{rate.usable} of {rate.answered}")
    return Cell(f"{rate.rate:.2f}", "" if rate.low is None else f"{rate.low:.1f}–{rate.high:.1f}", mark)


# --- Markdown --------------------------------------------------------------------------------------------------------


def _markdown(table: Table) -> str:
    right = ["---", *["---:"] * (len(table.header) - 1)]
    rows = [[_markdown_cell(cell) for cell in row] for row in table.rows]
    header = [_markdown_text(name) for name in table.header]
    lines = [f"| {' | '.join(cells)} |" for cells in (header, right, *rows)]
    notes = [f"\n{_markdown_text(note)}" for note in table.notes]
    return "\n".join([f"**{_markdown_text(table.title)}**", "", *lines, *notes, ""])


def _markdown_cell(cell: Cell) -> str:
    text = _markdown_text(cell.text)
    text = f"**{text}**" if cell.mark == "best" else text
    return f"{text}{'†' if cell.mark == 'tied' else ''}{f' ({cell.interval})' if cell.interval else ''}"


def _markdown_text(text: str) -> str:
    """Text that no reader of Markdown takes for markup, a cell's end or HTML."""
    return re.sub(r"[\\`*_\[\]<>|~$&^]|:(?=//)", r"\\\g<0>", _one_line(text))


def _one_line(text: str) -> str:
    """Control characters and line breaks as spaces: a table's row is one line."""
    return re.sub(r"[\x00-\x20\x7f-\x9f\u2028\u2029]+", " ", text).strip()


# --- LaTeX -----------------------------------------------------------------------------------------------------------

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "`": "\\textasciigrave{}",
    # At the start of a row they would be read as an option of the `\\` that ends the row before.
    "[": "{[}",
    "*": "{*}",
    # Two in a row would become one sign.
    "-": "-{}",
    "'": "'{}",
    "–": "--",
    "−": "$-$",
    "†": "$\\dagger$",
}
_SPECIAL_TO_LATEX = re.compile(r"-(?=-)|'(?=')|[&%$#_{}\\~^<>|`\[*–−†]")


def _latex(table: Table, number: int) -> str:
    columns = "l" + "r" * (len(table.header) - 1)
    notes = []
    if table.notes:
        notes = ["\\par\\smallskip", "\\begin{minipage}{\\linewidth}\\footnotesize"]
        notes += ["\\\\\n".join(_latex_text(note) for note in table.notes), "\\end{minipage}"]
    lines = [
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{_latex_text(table.title)}}}",
        f"\\label{{tab:{table.kind}-{number}}}",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        " & ".join(_latex_text(name) for name in table.header) + r" \\",
        "\\midrule",
        *[line for row in table.rows for line in _latex_row(row)],
        "\\bottomrule",
        "\\end{tabular}",
        *notes,
        "\\end{table}",
        "",
    ]
    return "\n".join(lines)


def _latex_row(row: Sequence[Cell]) -> Iterator[str]:
    """A line of values and, where there are intervals, one of them below."""
    yield " & ".join(_latex_cell(cell) for cell in row) + r" \\"
    if any(cell.interval for cell in row):
        spans = [f"{{\\scriptsize {_latex_text(cell.interval)}}}" if cell.interval else "" for cell in row]
        yield " & ".join(spans) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = _latex_text(cell.text)
    text = f"\\textbf{{{text}}}" if cell.mark == "best" else text
    return f"{text}$^\\dagger$" if cell.mark == "tied" else text


def _latex_text(text: str) -> str:
    return _SPECIAL_TO_LATEX.sub(lambda match: _LATEX[match[0]], _one_line(text))
