"""The page in Chinese: no text of the page is missing in it, and no sentence that records hold in English."""

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from browsing import text_of

import medjudge.report
from medjudge.judge.study_summary import CheckState
from medjudge.report.page import report_page
from medjudge.report.sections import studies_of
from medjudge.report.verdict import ADVICE, COUNTED, SPOILED
from medjudge.report.words import Words
from medjudge.store import Run
from medjudge.validation.status import ValidationState
from medjudge.validation.usability import NOT_JUDGED, REASONS
from medjudge.validation.validations import statuses_in

PACKAGE = Path(medjudge.report.__file__).parent
CHINESE = Words("zh")
BUILT = {"By "}
"""Beginnings of texts that templates complete; their whole forms are in FROM_LISTS."""
FROM_LISTS = [
    *REASONS.values(),
    NOT_JUDGED,
    *ADVICE.values(),
    *COUNTED.values(),
    *SPOILED.values(),
    *ValidationState,
    *CheckState,
    *(f"By {part}" for part in ("category", "subcategory", "model", "difficulty", "language")),
    *("low", "high", "Overall", "physicians", "constructed levels"),
    *("instruction following", "correctness", "effectiveness", "readability", "safety"),
]


def texts_of_the_page() -> Iterator[str]:
    for file in (files("medjudge.report") / "page").iterdir():
        for match in re.finditer(r'\bt\(\s*"((?:[^"\\]|\\.)*)"', file.read_text(encoding="utf-8")):
            yield match[1].replace('\\"', '"')
    for path in PACKAGE.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            is_plain = isinstance(node.func, ast.Attribute) and node.func.attr == "plain"
            called = is_plain or (isinstance(node.func, ast.Name) and node.func.id == "words")
            if called and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value


def test_every_text_of_the_page_is_translated_with_its_values() -> None:
    texts = [str(text) for text in {*texts_of_the_page(), *FROM_LISTS} - BUILT]
    assert len(texts) > 250
    assert [text for text in texts if text not in CHINESE.texts] == []
    for text in texts:
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", CHINESE.texts[text])), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("calls 18 of 60 unusable answers in MTG usable", "把MTG中的60个不可用回答中的18个判为可用"),
        ("calls 2 of 9 unsafe answers usable", "把9个不安全回答中的2个判为可用"),
        ("usable agreement, MK", "可用一致率，MK"),
        ("60 answers in 48 conversations; the gate requires 100 in 50", None),
        ("gate failed (1 passed, 2 failed, 6 inconclusive): calls 16 of 60 unusable answers usable; "
         "agrees on usable with physicians on 86.7 % (79–95) of "
         "60 answers, Cohen's kappa 0.72 (a.xlsx)", None),
        ("stale: other rubrics; before that: never validated against physicians", None),
    ],
)  # fmt: skip
def test_sentences_of_records_are_translated_with_their_values(text: str, expected: str | None) -> None:
    translated = CHINESE.known(text) or ""
    assert expected is None or translated == expected
    assert not re.search(r"[a-z]{4,}", re.sub(r"a\.xlsx|Cohen|stale", "", translated)), translated
    assert re.findall(r"\d+", translated) != [] or "2" not in text


CODES = r"MK|MLU|MR|MSE|MTG|AC1|ICC|MAE|GPT-4o|LLMEval-Med|EMNLP|arXiv|JavaScript|medjudge validate \S+ --judge \w+"
PEOPLE = "Wilson|Cohen|Gwet|Krippendorff|Spearman|Kendall|Pearson|Brier|Calderon|Reichart|Dror|Dr [ABC]"
RECORDS = r"medjudge|validated|copy|model-\w|gpt|mine|filler|\w+-(?:en|zh)-\d+|[\w.]+\.jsonl|--\w+"


@pytest.mark.usefixtures("without_plots")
def test_no_english_word_is_left_in_the_chinese_page(run: Run) -> None:
    page = re.sub(r"<(bdi|noscript|script|style)\b.*?</\1>", "", report_page([run], "zh"), flags=re.DOTALL)
    shown = re.sub("|".join([CODES, PEOPLE, RECORDS]), " ", text_of(page))
    assert set(re.findall("[A-Za-z]{3,}", shown)) <= {"pip", "install", "report", "CSV"}


def test_all_sentences_of_a_study_and_of_its_status_are_translated(run: Run) -> None:
    (study, *_) = studies_of(run, "mine")
    sentences = [*study.weaknesses, *study.cannot_conclude, study.interval]
    sentences += [check.check for check in study.gate.checks] + [check.why for check in study.gate.checks if check.why]
    sentences += [status.line for judge in ("mine", "gpt") for status in statuses_in(run, judge).values()]
    assert len(sentences) > 20
    assert [text for text in sentences if CHINESE.known(text) == text] == []
