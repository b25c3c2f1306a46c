"""The report's tables in the paper's layout, as LaTeX, Markdown and CSV: pure functions from scores to text."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Literal, NamedTuple

import numpy as np

from medjudge.records import Question
from medjudge.report.boards import JudgedRun, grouped, named_models
from medjudge.report.paired import ties
from medjudge.report.verdict import few_answers_line
from medjudge.statistics.estimates import Estimate
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.records import Study
from medjudge.validation.usability import ModelUsability, Rate, best_first

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


Mark = Literal["", "best", "tied"]
"""The best of its column; or not shown to be worse than the best."""


class Cell(NamedTuple):
    """A value with its interval."""

    text: str
    interval: str = ""
    mark: Mark = ""


class Table(NamedTuple):
    """A table before it is LaTeX or Markdown; its first column is text, the others are numbers."""

    kind: Kind
    title: str
    header: list[str]
    rows: list[list[Cell]]
    notes: list[str]


def latex(boards: Sequence[JudgedRun], kinds: Sequence[Kind] = ()) -> str:
    """Tables for `\\input` in a paper; they need the package booktabs.

    Args:
        kinds: Which tables; all unless given.
    """
    parts = [_latex(table, number) for number, table in enumerate(_tables(boards, kinds), 1)]
    text = "\n".join(["% needs \\usepackage{booktabs}", *parts])
    if not text.isascii():
        return f"% not only ASCII: compile with XeLaTeX or LuaLaTeX and a font that has it all (Chinese: ctex)\n{text}"
    return text


def markdown(boards: Sequence[JudgedRun], kinds: Sequence[Kind] = ()) -> str:
    """Tables as GitHub and pandoc read them; arguments as for `latex`."""
    return "\n".join(_markdown(table) for table in _tables(boards, kinds))


def rates_csv(boards: Sequence[JudgedRun], kinds: Sequence[Kind] = ()) -> str:
    """Rates in the long format: a line a run, judge, model and part, with subcategories below their category.

    RFC 4180, for `pandas.read_csv`. `part` is OP or a category; `subcategory` is empty where the rate is of the whole
    part. `validated` is the state of the judge for that part. Names that a spreadsheet would take for a formula (they
    begin with = + - @, a tab or a line break) get an apostrophe before them, and so do names that begin with one, so
    that `.str.removeprefix("'")` gives every name back.

    Args:
        kinds: `leaderboard`, `subcategories`; both unless given.
    """
    fields = ["run", "judge", "validated", "model", "part", "subcategory"]
    numbers = ["rate", "low", "high", "usable", "questions", "unscored", "not_answered"]
    rows = (
        [
            *map(_no_formula, [board.run, board.judge, _state(board, part), model, part, name]),
            *map(asdict(rate).get, numbers),
        ]
        for board in boards
        for model, part, name, rate in _rates(board)
        if not kinds or ("subcategories" if name else "leaderboard") in kinds
    )
    return _csv([*fields, *numbers], rows)


def agreement_csv(boards: Sequence[JudgedRun]) -> str:
    """Agreement in the long format: a line a run, judge, part and measure, with the number `n` of answers behind it."""
    rows = (
        [*map(_no_formula, [board.run, board.judge, study.against, part, measure]), *bounds, cells["n"]["value"]]
        for board in boards
        if (study := board.study)
        for part, cells in [("overall", study.overall), *study.by_category.items()]
        for measure in MEASURES
        for bounds in [list(_ends(cells[measure]))]
    )
    return _csv(["run", "judge", "against", "part", "measure", "value", "low", "high", "n"], rows)


# --- Content of the tables -------------------------------------------------------------------------------------------


def _tables(boards: Sequence[JudgedRun], kinds: Sequence[Kind]) -> Iterator[Table]:
    for group in grouped(boards):
        if not kinds or "leaderboard" in kinds:
            yield _leaderboard(group)
        if not kinds or "agreement" in kinds:
            yield from (_agreement(board, board.study) for board in group if board.study)
        if not kinds or "subcategories" in kinds:
            yield from _subcategories(group)


def _of(group: Sequence[JudgedRun]) -> str:
    names = list(dict.fromkeys(board.run for board in group))
    return f"judge {group[0].judge}, {', '.join(names) if len(names) <= 3 else f'{len(names)} runs'}"


def _models(group: Sequence[JudgedRun]) -> dict[str, tuple[ModelUsability, np.ndarray]]:
    """The rates of all models and what is usable of each."""
    named = named_models(group, [board.run for board in group])
    return {name: (board.models[model], board.usable[model]) for name, (board, model) in named.items()}


def _leaderboard(group: Sequence[JudgedRun]) -> Table:
    named = _models(group)
    models = {name: named[name] for name in best_first({name: rates for name, (rates, _) in named.items()})}
    names = _columns(group[0])
    columns = [_column(part, group[0].questions, models) for part in names]
    unscored = [Cell(str(rates.overall.unscored + rates.overall.not_answered)) for rates, _ in models.values()]
    counts = next((rates.parts for rates, _ in models.values()), {})
    question_counts = ", ".join(f"{part} {counts[part].questions}" for part in names if part in counts)
    return Table(
        "leaderboard",
        f"Usability rates in percent (95 % interval), {_of(group)}",
        ["Model", *names, "unscored"],
        [[Cell(model), *cells] for model, *cells in zip(models, *columns, unscored, strict=True)],
        [
            *filter(None, [few_answers_line({model: rates for model, (rates, _) in models.items()})]),
            f"Questions: {question_counts}. Unscored: questions without a score; they count as not usable.",
            "Bold: the best of its column. †: a tie, not shown to be worse than the best: the 95 % interval of the "
            "difference, paired over the same conversations (bias-corrected and accelerated bootstrap), reaches 0, or "
            f"there are fewer than {FEWEST_CONVERSATIONS} conversations. Each interval holds for its pair alone; "
            "nothing is corrected for the number of pairs.",
            *dict.fromkeys(note for board in group for note in (_validation_note(board), *board.notes)),
        ],
    )


def _validation_note(board: JudgedRun) -> str:
    """The judge's validation status, overall and by category."""
    by_state: dict[str, list[str]] = {}
    for category in _columns(board)[1:]:
        by_state.setdefault(_state(board, category), []).append(category)
    note = f"Judge {board.judge}: {board.validation_status['OP'].line}."
    if len(by_state) == 1:
        return note
    listed = "; ".join(f"{', '.join(categories)} {state}" for state, categories in by_state.items())
    return f"{note} {listed}."


def _subcategories(group: Sequence[JudgedRun]) -> Iterator[Table]:
    models = _models(group)
    for category in _columns(group[0])[1:]:
        for start in range(0, len(models), _MODELS_ACROSS):
            across = list(models)[start : start + _MODELS_ACROSS]
            rates_of_models = [models[model][0].subcategories.get(category, {}) for model in across]
            names = sorted({name for rates in rates_of_models for name in rates})
            if names:
                yield Table(
                    "subcategories",
                    f"{category} by subcategory, usability rates in percent (95 % interval), {_of(group)}",
                    ["Subcategory", "questions", *across],
                    [_subcategory(name, [rates.get(name) for rates in rates_of_models]) for name in names],
                    [],
                )


def _subcategory(name: str, rates: Sequence[Rate | None]) -> list[Cell]:
    questions = next(rate.questions for rate in rates if rate is not None)
    return [Cell(name), Cell(str(questions)), *[_rate(rate) for rate in rates]]


def _agreement(board: JudgedRun, study: Study) -> Table:
    parts = {"overall": study.overall, **study.by_category}
    result = {True: "passed", False: "failed", None: "inconclusive"}[study.gate.passed]
    gate = "The gate" if study.gate.usual else "A custom gate, not the default one,"
    return Table(
        "agreement",
        f"Agreement with {study.against} (95 % interval), {_of([board])}",
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


def _ends(estimate: Estimate) -> tuple[float | None, float | None, float | None]:
    return estimate["value"], estimate["low"], estimate["high"]


def _measure(estimate: Estimate) -> Cell:
    value, low, high = _ends(estimate)
    if value is None:
        return Cell(_NONE)
    span = "" if low is None or high is None else f"{low:.2f}–{high:.2f}"
    return Cell(f"{value:.2f}".replace("-", "−"), span.replace("-", "−"))


def _column(
    part: str, questions: Sequence[Question], models: Mapping[str, tuple[ModelUsability, np.ndarray]]
) -> list[Cell]:
    """Cells of rates that are compared with each other, on the questions of a part."""
    inside = [index for index, question in enumerate(questions) if part in ("OP", question.category)]
    differences = ties([questions[index] for index in inside], {name: row[inside] for name, (_, row) in models.items()})
    known = [rates.parts[part].rate for rates, _ in models.values() if part in rates.parts]
    best = max((value for value in known if value is not None), default=None)
    cells = []
    for name, (rates, _) in models.items():
        rate = rates.parts.get(part)
        mark: Mark = ""
        if rate is not None and rate.rate is not None and rate.rate == best:
            mark = "best"
        elif name in differences and differences[name].tie:
            mark = "tied"
        cells.append(_rate(rate, mark))
    return cells


def _rate(rate: Rate | None, mark: Mark = "") -> Cell:
    if rate is None or rate.rate is None:
        return Cell(_NONE)
    if rate.mostly_unanswered:
        return Cell(f"{rate.usable} of {rate.answered}")
    return Cell(f"{rate.rate:.2f}", "" if rate.low is None else f"{rate.low:.1f}–{rate.high:.1f}", mark)


def _rates(board: JudgedRun) -> Iterator[tuple[str, str, str, Rate]]:
    """Model, part, subcategory (or none) and rate."""
    for model, rates in board.models.items():
        for part in _columns(board):
            if part in rates.parts:
                yield model, part, "", rates.parts[part]
        for category, names in rates.subcategories.items():
            for name, rate in names.items():
                yield model, category, name, rate


def _columns(board: JudgedRun) -> list[str]:
    """Overall (`OP`) and the categories of the benchmark's scheme."""
    return list(board.validation_status)


def _state(board: JudgedRun, part: str) -> str:
    return board.validation_status[part].state


# --- CSV -------------------------------------------------------------------------------------------------------------


def _csv(header: Sequence[str], rows: Iterator[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()


def _no_formula(text: str) -> str:
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r", "\n", "'")) else text


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
        *_latex_notes(table.notes),
        "\\end{table}",
        "",
    ]
    return "\n".join(lines)


def _latex_notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield "\\par\\smallskip"
        yield "\\begin{minipage}{\\linewidth}\\footnotesize"
        yield "\\\\\n".join(_latex_text(note) for note in notes)
        yield "\\end{minipage}"


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
