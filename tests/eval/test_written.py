"""The texts in `eval/written` and the cases in `eval/cases`: fields, line counts, and the test split."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

EVAL = Path(__file__).parents[2] / "eval"
TABLE = re.findall(
    r"^\| `(\w+\.jsonl)` \| (\d+) \| (\d+|–) \|", (EVAL / "written/README.md").read_text(encoding="utf-8"), re.MULTILINE
)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize(("name", "count", "test"), TABLE)
def test_the_readme_counts_the_lines_and_all_have_the_same_fields(name: str, count: str, test: str) -> None:
    rows = lines(EVAL / "written" / name)
    assert len(rows) == int(count)
    assert len({tuple(row) for row in rows}) == 1
    assert {row["language"] for row in rows} == {"en", "zh"}
    assert sum(row.get("split") == "test" for row in rows) == (0 if test == "–" else int(test))
    assert len({json.dumps(row) for row in rows}) == len(rows) or name == "phrases.jsonl"


def test_the_readme_names_every_file() -> None:
    assert {name for name, *_ in TABLE} == {path.name for path in (EVAL / "written").glob("*.jsonl")}


def test_no_passage_occurs_twice() -> None:
    facts = [fact for row in lines(EVAL / "written/contrasts.jsonl") for fact in row["facts"]]
    points = lines(EVAL / "written/points.jsonl")
    for rows, names in ((facts, ("says_statement", "says_opposite")), (points, ("met", "open", "contradicted"))):
        passages = [row[name] for row in rows for name in names]
        assert all(passages)
        assert len(set(passages)) == len(passages)


def test_cases_of_answer_keys_say_right_or_wrong() -> None:
    rows = lines(EVAL / "cases/answer_keys.jsonl")
    assert all(list(row) == ["prompt", "reference", "answer", "right"] for row in rows)
    assert {row["right"] for row in rows} == {True, False}
