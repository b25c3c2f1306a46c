"""The pages say what the results say."""

import json
import re

import pytest
from reader_goals import TIMES, figure, formats, goals, share
from reader_page import PAGES, TABLES, estimate, page
from study import RESULTS

OTHER = {"answers": 7, "value": 0.123, "low": 0.1, "high": 0.2, "untrained nearness": {"value": 0.1}}
TABLE = json.loads((RESULTS / "built-in.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_tables_of_a_page_are_those_of_the_results(path) -> None:
    text = path.read_text(encoding="utf-8")
    assert page(text, TABLE) == text, "run: python eval/reader_page.py"
    assert page(text, TABLE | {"llmeval-2": TABLE["llmeval-2"] | {"all": OTHER}}) != text


def test_the_page_of_results_has_every_table_once() -> None:
    names = re.findall(r"<!-- built-in: (\w+) -->", PAGES[1].read_text(encoding="utf-8"))
    assert sorted(names) == sorted(TABLES)


def test_a_changed_figure_changes_its_page_and_nothing_around_it() -> None:
    text = "before\n<!-- built-in: llmeval2 -->\nstale figures\n<!-- end -->\nafter\n"
    text += "| the built-in judge, on stale figures |\n| another row |\n"
    first = page(text, TABLE)
    assert first.startswith("before\n<!-- built-in: llmeval2 -->\n\n| subject |")
    assert "<!-- end -->\nafter\n| the built-in judge, on 1," in first
    assert first.endswith("|\n| another row |\n")
    assert "stale figures" not in first
    changed = page(first, TABLE | {"llmeval-2": TABLE["llmeval-2"] | {"all": OTHER}})
    assert changed.count(estimate(OTHER)) == 2
    assert page(changed, TABLE) == first


def test_a_goal_is_met_from_its_value_on_and_never_shown_as_better_than_it_is() -> None:
    low = {"low": 0.1, "high": 0.9}
    assert figure("here", {"value": 0.84, **low}, 0.84)[2:] == ("0.840 (0.10–0.90)", True)
    assert figure("here", {"value": 0.8399, **low}, 0.84)[2:] == ("0.839 (0.10–0.90)", False)
    assert share("here", {"value": 0.02, **low}, 0.02, at_least=False)[2:] == ("2.0 % (10–90)", True)
    assert share("here", {"value": 0.0201, **low}, 0.02, at_least=False)[2:] == ("2.1 % (10–90)", False)
    assert share("here", {"value": 0.8999, **low}, 0.9, at_least=True)[2:] == ("89.9 % (10–90)", False)


def test_the_worst_category_and_the_worst_probe_decide() -> None:
    med, probes = TABLE["llmeval-med"], TABLE["probes, llmeval-2"]
    bad = {"answers": 9, "value": 0.5, "low": 0.4, "high": 0.6}
    worse = TABLE | {
        "llmeval-med": med | {"of another question": med["of another question"] | {"MR": bad}},
        "probes, llmeval-2": probes | {"authority": bad},
    }
    found = {goal.measured_on: goal for goal in goals(worse)}
    assert not found["LLMEval-Med, the reference of another question: usable in the worst category, MR (9)"].met
    assert found["LLMEval-2: flips by the worst harmless probe, `authority`"].reached == "50.0 % (40–60)"


def test_a_number_format_counts_once_all_its_times_are_measured() -> None:
    without = {name: row for name, row in TABLE.items() if not name.endswith("bfloat16")}
    assert formats(without) == ["float32"]
    for name in TIMES:
        assert formats(without) == ["float32"]
        without[f"{name}, bfloat16"] = TABLE[f"{name}, bfloat16"]
    assert formats(without) == ["bfloat16", "float32"]
