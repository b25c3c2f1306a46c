from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medjudge.report.cases import with_rendering
from medjudge.text.markdown import TAGS


def names_in(nodes: list[Any]) -> set[str]:
    return {name for node in nodes if isinstance(node, list) for name in (node[0], *names_in(node[1:]))}


@pytest.mark.parametrize("text", ["每日 3.5 mg\n两次", None, "", "3 - 4 a day"])
def test_a_text_without_markdown_stays_as_it_is(text: str | None) -> None:
    assert with_rendering(text) == text


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_markup_becomes_elements_and_everything_else_text(end: str) -> None:
    text = "# 诊断\n\n3. 一\n4. 二\n\n`x*y` 与 a\\*b <b> &lt;".replace("\n", end)
    raw, nodes = with_rendering(text)
    assert raw == text
    assert nodes == [
        ["p", ["strong", "诊断"]],
        ["ol", 3, ["li", "一"], ["li", "二"]],
        ["p", ["code", "x*y"], " 与 a*b <b> &lt;"],
    ]


@given(st.text(alphabet=st.sampled_from("*_`~#>|-+1.) \n\\ab药<&;[](")) | st.text())
def test_no_text_makes_another_element(text: str) -> None:
    made = with_rendering(text)
    if isinstance(made, list):
        assert made[0] == text
        assert names_in(made[1]) <= set(TAGS)
    else:
        assert made == text
