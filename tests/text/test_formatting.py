from medjudge.text.formatting import plain


def test_plain_strips_marks_and_nothing_else() -> None:
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


def test_lone_marks_are_no_formatting() -> None:
    text = "* | a * b | 5 < 6 > 4 | ** | ` | _ | a_b | #1 cause | <b | p<b and c>d | 1. a | -5 | ~5 mg"
    for lone in (*text.split(" | "), "|x|"):
        assert plain(lone) == lone
