import re

import pytest

from medjudge.text.markdown import TAGS, has_markdown, markdown_html

HOSTILE = (
    "**a** <script>run()</script> <img src=x onerror=run()> [x](javascript:run()) ![i](http://h/x.png) <http://h>\n\n"
    "[r]: javascript:run()\n\n# <b onclick=run()>t</b>\n\n"
    '```html"><script>\n</code></pre><script>run()</script>\n```\n\n'
    "| <svg/onload=run()> | b |\n|---|:--:|\n| &lt;i&gt; | \\<u> |\n\n<style>*{}</style>\n<!-- c -->"
)


@pytest.mark.parametrize("text", [HOSTILE, f"> {HOSTILE}", f"- {HOSTILE}", HOSTILE.replace("\n", "\r\n")])
def test_only_harmless_elements_without_attributes_come_out(text: str) -> None:
    html = markdown_html(text)
    for name, attributes in re.findall(r"<\s*/?\s*([a-zA-Z!][\w-]*)([^>]*)>", html):
        assert name in TAGS
        assert re.fullmatch(r'\s*/?(?:\s*start="\d+")?', attributes)
    assert "<strong>a</strong>" in html
    assert "[x](javascript:run())" in html  # text


def test_lists_tables_and_line_breaks_are_rendered() -> None:
    assert markdown_html("甲\n乙") == "<p>甲<br>\n乙</p>\n"
    assert '<ol start="3">' in markdown_html("3. 三\n4. 四")
    assert "<td>1</td>" in markdown_html("| a | b |\n|---|---|\n| 1 | 2 |")
    assert markdown_html("# 诊断") == "<p><strong>诊断</strong></p>\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("plain, 3.5 mg", False), ("**b**", True), ("1. a", True), ("a-b (c)", False), ("**a** " * 20_000, False)],
)
def test_plain_text_and_a_text_too_long_to_read_are_left_alone(text: str, expected: bool) -> None:
    assert has_markdown(text) is expected


def test_deep_nesting_ends() -> None:
    for text in ("> " * 5_000 + "a", "- " * 5_000 + "a", "*" * 20_000):
        assert markdown_html(text).startswith("<")
