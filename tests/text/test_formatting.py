import re

import pytest

from medjudge.text.formatting import plain
from medjudge.text.markdown import TAGS, has_markdown, markdown_html


def test_plain_strips_marks_and_nothing_else_and_no_lone_ones() -> None:
    text = """## 1. Treatment 💊 ##
**Dose:** give *at once* `5 mg`, __not__ <b>50 mg</b>; see [the page](https://x.org/a_b).
---
- pH < 7.2 and K > 5.5: p<0.05
* -5 °C, CO2, 10<sup>9</sup>/L, H<sub>2</sub>O
  + **Nested**: ~~10 mg~~ 2 * 3 * 4
1. first
2. Juli: CYP2C19*2 and HLA-B*57:01
> 5 mmol/L is high
> A quoted line.
```text
10**9/L and 10**12/L
```
| Bed | Pulse | Note |
|:---|---:|---|
| 1 | 76 | |
| 2 | **124** | < 5 L |

✅ aspirin ❌ ibuprofen 1️⃣ now ⚠️ a|b _____ snake_case 5😀6"""
    assert (
        plain(text)
        == """1. Treatment
Dose: give at once 5 mg, not 50 mg; see the page (https://x.org/a_b).
pH < 7.2 and K > 5.5: p<0.05
-5 °C, CO2, 10^9/L, H2O
Nested: ~~10 mg~~ 2 * 3 * 4
1. first
2. Juli: CYP2C19*2 and HLA-B*57:01
> 5 mmol/L is high
A quoted line.
10**9/L and 10**12/L
Bed: 1; Pulse: 76
Bed: 2; Pulse: 124; Note: < 5 L

✅ aspirin ❌ ibuprofen 1. now a|b _____ snake_case 5 6"""
    )
    assert plain("### 一、治疗\n•血糖**升高**者\n- **剂量：**每次5～10 mg<br>每日2次") == (
        "一、治疗\n血糖升高者\n剂量：每次5～10 mg\n每日2次"
    )
    assert plain("| 病名 | 例数 |\n|---|---|") == "病名; 例数"
    text = "* | a * b | 5 < 6 > 4 | ** | ` | _ | a_b | #1 cause | <b | p<b and c>d | 1. a | -5 | ~5 mg"
    for lone in (*text.split(" | "), "|x|"):
        assert plain(lone) == lone


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


def test_plain_text_and_a_text_too_long_to_read_are_left_alone_and_deep_nesting_ends() -> None:
    texts = ("plain, 3.5 mg", "**b**", "1. a", "a-b (c)", "**a** " * 20_000)
    assert [text for text in texts if has_markdown(text)] == ["**b**", "1. a"]
    for text in ("> " * 5_000 + "a", "- " * 5_000 + "a", "*" * 20_000):
        assert markdown_html(text).startswith("<")
