import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medjudge.report.rendered import with_rendering

ORDERED = "\ufdda"
"""The mark of `ol`, which its start follows."""


def raw_of(text: Any) -> Any:
    """As `answers.js` reads it."""
    return re.sub(f"{ORDERED}\\d*|[\ufdd0-\ufdef]", "", text[0]) if isinstance(text, list) else text


def seen_in(text: Any) -> str:
    """What the rendering shows, without its elements."""
    shown = re.sub("\ufdef[^\ufdef]*\ufdef", "", text[0])
    return re.sub(f"{ORDERED}\\d*|[\ufdd0-\ufdef]", "", shown)


def test_a_text_without_markdown_stays_as_it_is() -> None:
    assert with_rendering("每日 3.5 mg\n两次") == "每日 3.5 mg\n两次"
    assert with_rendering(None) is None
    assert with_rendering("") == ""


def test_what_is_markup_is_hidden_and_nothing_is_lost() -> None:
    text = "# 诊断\n\n**布洛芬**：*400* mg\n\n3. 一\n4. 二\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`x*y` 与 a\\*b &lt;"
    woven = with_rendering(text)
    assert isinstance(woven, list)
    assert raw_of(woven) == text
    assert seen_in(woven) == "诊断布洛芬：400 mg一二ab12x*y 与 a*b &lt;"
    assert f"{ORDERED}3" in woven[0]


def test_a_text_with_the_marks_themselves_is_never_rendered() -> None:
    assert with_rendering("**a** \ufdd0") == "**a** \ufdd0"


@given(st.text(alphabet=st.sampled_from("*_`~#>|-+1.) \n\\ab药<&;[](")))
def test_no_text_is_changed(text: str) -> None:
    assert raw_of(with_rendering(text)) == text


@given(st.text())
def test_no_text_of_any_letters_is_changed(text: str) -> None:
    woven = with_rendering(text)
    assert raw_of(woven) == (text.replace("\r\n", "\n").replace("\r", "\n") if isinstance(woven, list) else text)


@pytest.mark.parametrize("text", ["*a*\r\n*b*", "* a\r* b"])
def test_line_ends_of_all_systems_are_read(text: str) -> None:
    assert isinstance(with_rendering(text), list)
