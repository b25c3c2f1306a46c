"""The pages say what the results say."""

import json

import pytest
from reader_goals import goals
from reader_page import PAGES, estimate, page
from study import RESULTS

OTHER = {"answers": 7, "value": 0.123, "low": 0.1, "high": 0.2, "untrained nearness": {"value": 0.1}}
TABLE = json.loads((RESULTS / "built-in.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_the_tables_of_a_page_are_those_of_the_results(path) -> None:
    text = path.read_text(encoding="utf-8")
    assert page(text, TABLE | {"llmeval-2": TABLE["llmeval-2"] | {"all": OTHER}}) != text
    assert page(text, TABLE) == text, "run: python eval/reader_page.py"


def test_a_changed_figure_changes_its_page_and_nothing_around_it() -> None:
    text = "before\n<!-- built-in: llmeval2 -->\nold\n<!-- end -->\nafter\n"
    text += "| the built-in judge, on old |\n| another row |\n"
    first = page(text, TABLE)
    assert first.startswith("before\n<!-- built-in: llmeval2 -->\n| subject |")
    assert "<!-- end -->\nafter\n| the built-in judge, on 1," in first
    assert first.endswith("|\n| another row |\n")
    assert "old" not in first
    changed = page(first, TABLE | {"llmeval-2": TABLE["llmeval-2"] | {"all": OTHER}})
    assert changed.count(estimate(OTHER)) == 2
    assert page(changed, TABLE) == first


def test_a_goal_is_met_from_its_value_on() -> None:
    def folds(value: float) -> dict[str, object]:
        row = TABLE["mediqa folds"]
        return TABLE | {"mediqa folds": row | {"usable_agreement": row["usable_agreement"] | {"value": value}}}

    assert next(goals(folds(0.84))).met
    missed = next(goals(folds(0.8394)))
    assert not missed.met
    assert missed.reached == "0.839"
