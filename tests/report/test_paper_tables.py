import io
import re
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from markdown_it import MarkdownIt

from medjudge.records import Judgment, PhysicianScore, Question
from medjudge.report.boards import BoardKey, JudgedRun
from medjudge.report.tables import agreement_csv, latex, markdown, rates_csv
from medjudge.validation.records import Study
from medjudge.validation.status import validation_statuses
from medjudge.validation.study import Settings, agreement_study
from medjudge.validation.usability import Coverage, score_models, usable_table

NAMES = [
    "[a] b",
    "*star",
    "a & b",
    "50% $x$ #1 _u_ {v} ~t~ ^c^ \\textbf{x} \\input{/etc/passwd}",
    "<script>alert(1)</script>|<b>`q``--gpt---4''\"",
    "a\\|b| c \\",
    "[text](javascript:alert(1)) https://a.example &amp; **bold**",
    "=1+1",
    "'quoted",
    "通义千问-72B",
]


@pytest.fixture
def board(question: Callable[..., Question]) -> Callable[..., JudgedRun]:
    """A run in which each model scored at a question what it is told to, in the questions' order."""

    def build(levels: dict[str, list[int | None]], study: Any = None) -> JudgedRun:
        count, models = len(next(iter(levels.values()))), list(levels)
        kinds = [{"category": "MTG"}, {"category": "MK", "subcategory": "Drugs_& co"}]
        questions = [question(id=f"q{n}", **kinds[n % 2]) for n in range(count)]
        judgments = [
            Judgment(question_id=f"q{n}", model=model, judge="j&j", score=level, error=None if level else "no score")
            for model, all_levels in levels.items()
            for n, level in enumerate(all_levels)
        ]
        return JudgedRun(
            run="run_1",
            path=Path("run_1"),
            place=0,
            key=BoardKey("q", "s", "j&j", None),
            models=score_models(questions, judgments, models),
            validation_status=validation_statuses([study.summary()] if study else []),
            questions=questions,
            usable=dict(zip(models, usable_table(questions, judgments, models), strict=True)),
            coverage=Coverage(0, 0),
            truncated={},
            study=study,
            notes=["100% made up."],
        )

    return build


@pytest.fixture(scope="module")
def study() -> Study:
    questions = [
        Question(id=f"q{n}", group=f"q{n}", category="MK" if n < 12 else "MSE", prompt="?", language="en")
        for n in range(14)
    ]
    keys = [{"question_id": question.id, "model": model} for question in questions for model in ("a", "b")]
    # Opposite scores, so that kappa is negative; in MSE one score throughout, so that it is undefined.
    levels = [1 + n % 5 if n < 24 else 3 for n in range(len(keys))]
    judgments = [Judgment(**key, judge="j&j", score=6 - level) for key, level in zip(keys, levels, strict=True)]
    scores = [PhysicianScore(**key, rater="dr", score=level) for key, level in zip(keys, levels, strict=True)]
    measured = agreement_study("j&j", questions, judgments, scores, settings=Settings(resamples=50))
    return measured.model_copy(update={"file": "scores.jsonl"})


# --- Markdown --------------------------------------------------------------------------------------------------------


def tables_of(text: str) -> list[list[list[str]]]:
    """A table as a reader of Markdown shows it: the text of each cell, by table and row; no cell holds markup."""
    tables: list[list[list[str]]] = []
    tokens = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)
    for before, token in zip([None, *tokens], tokens, strict=False):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif before and before.type in ("td_open", "th_open"):
            kinds = {child.type for child in token.children or []}
            assert kinds <= {"text", "text_special", "strong_open", "strong_close"}, token.content
            tables[-1][-1].append("".join(child.content for child in token.children or []))
    return tables


def test_markdown_gives_every_name_back_and_nothing_else(board) -> None:
    levels = {name: [5, 1, None] for name in [*NAMES, "a\nb\n"]}
    text = markdown([board(levels)], ["leaderboard"])
    (rows,) = tables_of(text)
    assert [row[0] for row in rows] == ["Model", *NAMES, "a b"]
    assert rows[1] == ["[a] b", "33.33", "–", "0.00", "–", "–", "50.00", "1"]
    assert "\n\n100% made up.\n" in text
    assert "never validated against physicians" in text


def test_best_first_the_best_bold_and_ties_marked(board) -> None:
    some = {
        "low": [1] * 40,
        # The intervals of all that follow overlap; this one is worse on five conversations and better on none.
        "below": [4] * 19 + [1] * 21,
        "near": [1] * 10 + [4] * 22 + [1] * 8,
        "best": [4] * 24 + [1] * 16,
        "same": [4] * 24 + [1] * 16,
    }
    lines = markdown([board(some)], ["leaderboard"]).splitlines()
    cells = [line.split(" | ")[:4] for line in lines if line.startswith("| ")][2:]
    expected = ["| best **60.00** (", "| same **60.00** (", "| near 55.00† (", "| below 47.50 (", "| low 0.00 ("]
    assert [" ".join(row[:2])[: len(start)] for row, start in zip(cells, expected, strict=True)] == expected
    assert "†" in cells[3][3]  # twenty conversations a category tell no two models apart


def test_subcategories_have_a_column_a_model_and_five_at_most(board) -> None:
    levels = {f"m{n}": [5, 1] for n in range(7)}
    first, second = tables_of(markdown([board(levels)], ["subcategories"]))
    assert first == [["Subcategory", "questions", *list(levels)[:5]], ["Drugs_& co", "1", *["0.00"] * 5]]
    assert second[0][2:] == ["m5", "m6"]


def test_agreement_says_against_whom_and_what_the_gate_said(board, study) -> None:
    text = markdown([board({"m": [5, 1]}, study=study)], ["agreement"])
    (rows,) = tables_of(text)
    assert rows[0] == ["", "n", "usable agreement", "Cohen's kappa", "quadratic kappa", "Spearman"]
    assert [row[0] for row in rows[1:]] == ["overall", "MK", "MSE"]
    assert rows[1][1] == "28"
    assert re.fullmatch(r"−0\.\d\d \(−0\.\d\d–−?0\.\d\d\)", rows[1][3]), rows[1]
    assert rows[3][3] == "–"  # one level throughout: kappa is undefined
    assert "Agreement with physicians" in text
    assert "The gate is failed." in text
    assert "unusable answers usable; agrees on usable" in markdown([board({"m": [5, 1]}, study=study)], ["leaderboard"])


# --- LaTeX -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("[a] b", "{[}a] b"),  # at the start of a row LaTeX would take it for an option of the row before
        ("*star", "{*}star"),
        ("50% $x$ #1 _u_ {v} a & b", r"50\% \$x\$ \#1 \_u\_ \{v\} a \& b"),
        (
            "~t~ ^c^ \\input{x}",
            r"\textasciitilde{}t\textasciitilde{} \textasciicircum{}c\textasciicircum{} \textbackslash{}input\{x\}",
        ),
        ("<b>|`q``", r"\textless{}b\textgreater{}\textbar{}\textasciigrave{}q\textasciigrave{}\textasciigrave{}"),
        ("-- ---x ''", "-{}- -{}-{}-x '{}'"),  # two in a row would become one sign
        ("a\nb\n\n\\\\ c\x07\u2028", r"a b \textbackslash{}\textbackslash{} c"),
    ],
)
def test_no_name_is_a_command_of_latex(board, name, expected) -> None:
    lines = latex([board({name: [5, 1]})], ["leaderboard"]).splitlines()
    assert any(line.startswith(f"{expected} & ") for line in lines)
    assert len({line.count(" & ") for line in lines if line.endswith(" \\\\")}) == 1


def test_latex_has_all_tables_with_their_own_labels(board, study) -> None:
    text = latex([board({name: [5, 1, None] * 8 for name in NAMES}, study=study)])
    assert text.startswith("% not only ASCII: compile with XeLaTeX")
    labels = re.findall(r"\\label{tab:(\w+)-\d}", text)
    assert labels == ["leaderboard", "agreement", "subcategories", "subcategories"]
    rows = text.splitlines()
    assert r"{[}a] b & \textbf{33.33} & -- & \textbf{33.33} & -- & -- & \textbf{33.33} & 8 \\" in rows
    assert r" & {\scriptsize 18.0--53.3} &  & {\scriptsize 13.8--60.9} &  &  & {\scriptsize 13.8--60.9} &  \\" in rows
    plain = latex([board({"gpt-4o": [5, 1], "b": [1, 1]})], ["leaderboard"])
    assert plain.startswith("% needs \\usepackage{booktabs}\n\\begin{table}\n")
    assert "b & 0.00$^\\dagger$ &" in plain


# --- CSV -------------------------------------------------------------------------------------------------------------


def test_csv_is_the_scores_as_pandas_reads_them(board) -> None:
    names = [*NAMES, "two\nlines", "\tx"]
    written_board = board({name: [5, 1, None] * 8 for name in names})
    text = rates_csv([written_board])
    assert text.endswith("\r\n")
    table = pd.read_csv(io.StringIO(text, newline=""), keep_default_na=False)
    words = table[["run", "judge", "model", "subcategory"]].to_numpy().ravel()
    assert not [cell for cell in words if cell.startswith(tuple("=+-@\t\r\n"))]  # none that a spreadsheet would run
    table["model"] = table["model"].str.removeprefix("'")
    assert list(dict.fromkeys(table["model"])) == names
    rates = written_board.models["=1+1"]
    whole = table[(table["model"] == "=1+1") & (table["subcategory"] == "")].set_index("part")
    numbers = ["rate", "low", "high", "usable", "questions", "unscored", "not_answered"]
    assert whole.loc["MTG", numbers].to_dict() == asdict(rates.parts["MTG"])
    assert whole.loc["OP", "validated"] == "never validated"
    inside = table[(table["model"] == "=1+1") & (table["subcategory"] != "")]
    assert inside[["part", "subcategory", "rate"]].values.tolist() == [["MK", "Drugs_& co", 33.33]]
    assert "Drugs_" not in rates_csv([written_board], ["leaderboard"])


def test_agreement_csv_holds_the_study(board, study) -> None:
    table = pd.read_csv(io.StringIO(agreement_csv([board({"m": [5]}, study=study), board({"m": [5]})])))
    assert set(table["part"]) == {"overall", "MK", "MSE"}
    row = table[(table["part"] == "MK") & (table["measure"] == "cohen_kappa")].iloc[0]
    measured = study.by_category["MK"]["cohen_kappa"]
    assert (row["value"], row["low"], row["high"], row["n"]) == (*(measured[k] for k in ("value", "low", "high")), 24)
    undefined = table[(table["part"] == "MSE") & (table["measure"] == "cohen_kappa")].iloc[0]
    assert pd.isna(undefined["value"])
    assert set(table["against"]) == {"physicians"}
