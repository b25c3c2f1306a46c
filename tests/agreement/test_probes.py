import re
import time
from collections import Counter
from itertools import groupby
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap

from medjudge.agreement.probes import PROBES, _texts, probe_effect, probed
from medjudge.benchmark.sample import sample_folder
from medjudge.errors import InputError
from medjudge.records import Answer, Judgment, Question
from medjudge.store import Run

ADDING = ("filler", "instruction", "authority", "quoted-rubric", "language-wrapper", "doubled", "fluent-wrong")
AMOUNT = re.compile(r"[<>≤≥±+-]? ?\d+(?:[.,]\d+)*(?: ?(?:[A-Za-zµ%°℃]+|[⁰-⁹²³]+)(?:/[A-Za-z]+)?)?")


@pytest.fixture(scope="module")
def sample() -> list[tuple[Question, Answer, int]]:
    run = Run(sample_folder())
    questions = {question.id: question for question in run.questions()}
    level = {score.answer_key: score.level for score in run.physician_scores()}
    return [(questions[answer.question_id], answer, level[answer.key]) for answer in run.answers()]


def ask(language: str = "en", **fields: Any) -> Question:
    base = {"id": "q1", "category": "MK", "group": "q1", "prompt": "?", "language": language}
    return Question.model_validate({**base, **fields})


def change(
    text: str, probe: str, language: str = "en", seed: int = 0, level: int | None = 1, **fields: Any
) -> str | None:
    answer = Answer(question_id="q1", model="m", text=text, finish_reason="stop")
    found = probed(ask(language, **fields), answer, probe, seed, level)
    return None if found is None else found.text


def pieces(text: str) -> Counter[str]:
    """The lines or, in a single line, the sentences."""
    lines = text.strip().split("\n")
    parts = lines if len(lines) > 1 else re.split(r"(?<=[。！？])|(?<=[.!?])\s+", text)
    return Counter(part.strip() for part in parts if part.strip())


@pytest.mark.parametrize("probe", PROBES)
def test_sample_answers_change_and_keep_their_content(sample, probe) -> None:
    applied = Counter()
    for question, answer, level in sample:
        found = probed(question, answer, probe, level=level)
        assert found == probed(question, answer, probe, level=level)
        if found is None:
            continue
        applied[question.language] += 1
        assert found.text != answer.text
        assert found.key == answer.key
        assert found.finish_reason == answer.finish_reason
        assert Counter(AMOUNT.findall(answer.text)) <= Counter(AMOUNT.findall(found.text))
        if probe == "reordered":
            assert pieces(found.text) == pieces(answer.text)
        elif probe == "filler":
            kept = iter(found.text.split("\n"))
            assert all(line in kept for line in answer.text.split("\n"))
        elif probe in ADDING:
            assert answer.text in found.text
        else:
            assert not re.search(r"(?m)\*\*|^[-*•] |^#|\|", found.text)
            # Nothing but marks is gone; a table's headings come again in each row.
            words = Counter(re.findall(r"\w+", answer.text))
            assert words <= Counter(re.findall(r"\w+", found.text))
    least = {
        "filler": (150, 50),
        "reordered": (70, 14),
        "plain": (40, 7),
        "doubled": (150, 50),
        "fluent-wrong": (88, 24),
    }
    english, chinese = least.get(probe, (220, 60))
    assert applied["en"] >= english
    assert applied["zh"] >= chinese


def test_the_seed_and_the_answer_choose_variant_and_place(sample) -> None:
    question, answer, _ = sample[0]
    for probe in set(PROBES) - {"plain", "doubled"}:
        texts = {found.text for seed in range(20) if (found := probed(question, answer, probe, seed, 1))}
        assert len(texts) >= 5, probe
    others = [probed(question, answer.model_copy(update={"model": f"m{n}"}), "instruction") for n in range(20)]
    assert len({found.text for found in others if found}) >= 5
    ends = {str(change("A.", "authority", seed=seed)).startswith("A.") for seed in range(10)}
    assert ends == {True, False}


def test_added_words_are_in_the_language_of_the_question_but_for_the_wrapper() -> None:
    for probe in set(ADDING) - {"doubled"}:
        other = probe == "language-wrapper"
        for seed in range(12):
            assert bool(re.search(r"[\u4e00-\u9fff]", change("A.", probe, "en", seed) or "")) == other
            chinese = change("好。", probe, "zh", seed) or ""
            if '{"' not in chinese and "[5]" not in chinese:
                added = chinese.replace("好。", "")
                assert bool(re.search(r"[\u4e00-\u9fff]", added)) != other


def test_no_filler_frame_or_wrapper_says_anything_medical() -> None:
    for language, medical in (
        (
            "en",
            r"\d|doctor|physician|clinic|hospital|medic|dose|drug|treat|diagnos|symptom|patient|disease|health|safe|risk",
        ),
        ("zh", r"\d|医|药|病|诊|患|治|症|剂|健康|安全|风险"),
    ):
        variants = _texts(language).variants
        for name in ("filler", "wrapper", "fluent"):
            for place, texts in variants[name].items():
                assert len(texts) >= 4
                assert not [text for text in texts if re.search(medical, text, re.IGNORECASE)], (name, place)
        for name in ("instruction", "authority", "quoted_rubric"):
            assert len(variants[name]) >= 6
            assert all(isinstance(text, str) for text in variants[name])
        assert all("5" in text for text in variants["quoted_rubric"])


def test_where_a_probe_does_not_apply() -> None:
    for probe in PROBES:
        assert change("  \n", probe) is None
    assert change("Wrong.", "fluent-wrong", level=2) is not None
    assert change("Right.", "fluent-wrong", level=3) is None
    assert change("Unknown.", "fluent-wrong", level=None) is None
    assert change("No marks in 5 mg.", "plain") is None
    assert change("One sentence only.", "reordered") is None
    assert change("***", "plain") is None
    with pytest.raises(InputError, match=r"probe fillers: no such probe; take one of filler, "):
        change("A.", "fillers")


def test_questions_that_ask_for_length_order_or_form_are_left_out() -> None:
    text = "- **A** is given.\n- B is given.\n\nC is given."
    asked = {
        "filler": ("Answer in at most 60 words.", "200字以内。"),
        "doubled": ("Answer briefly.", "请简要回答。"),
        "reordered": ("Rank the causes.", "请按优先次序列出。"),
        "plain": ("Make a table.", "用表格列出。"),
    }
    for probe, (english, chinese) in asked.items():
        assert change(text, probe) is not None
        assert change(text, probe, prompt=english) is None
        assert change(text, probe, checklist=f"Core requirements: 1. {english}") is None
        assert change(text, probe, "zh", prompt=chinese) is None
        assert change(text, probe, category="MTG") is None
    assert change(text, "instruction", category="MTG", prompt="A table in 60 words, please.") is not None
    assert change(text, "plain", prompt="Which tablets in order to sleep?") is not None
    assert change(text, "filler", "zh", prompt="患者过了一段时间又来了。") is not None


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
        change(text, "plain")
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
    assert change("### 一、治疗\n•血糖**升高**者\n- **剂量：**每次5～10 mg<br>每日2次", "plain", "zh") == (
        "一、治疗\n血糖升高者\n剂量：每次5～10 mg\n每日2次"
    )
    assert change("| 病名 | 例数 |\n|---|---|", "plain", "zh") == "病名; 例数"


def test_lone_marks_are_no_formatting() -> None:
    for text in (
        "*",
        "a * b",
        "5 < 6 > 4",
        "**",
        "`",
        "_",
        "a_b",
        "#1 cause",
        "|x|",
        "<b",
        "p<b and c>d",
        "1. a",
        "-5",
        "~5 mg",
    ):
        assert change(text, "plain") is None, text


def test_reordered_lists_keep_their_lead_and_their_numbers() -> None:
    text = "Take:\n1. Aspirin 300 mg.\n   With water.\n2. Heparin.\n3. Oxygen.\n\nCall 112."
    for seed in range(10):
        lines = (change(text, "reordered", seed=seed) or "").split("\n")
        place = lines.index("Take:")
        assert re.match(r"\d\. ", lines[place + 1])
        assert lines[lines.index("1. Aspirin 300 mg.") + 1] == "   With water."
        assert Counter(lines) == Counter(text.split("\n"))
    # What "avoid" leads up to stays under it, though blank lines stand between.
    loose = "Give:\n\n- paracetamol\n\nAvoid:\n\n- ibuprofen\n\n- aspirin"
    for seed in range(10):
        moved = change(loose, "reordered", seed=seed)
        assert moved == "Give:\n\n- paracetamol\n\nAvoid:\n\n- aspirin\n\n- ibuprofen"
    assert change("- Avoid:\n- ibuprofen\n- aspirin", "reordered") is None
    assert change("1. **Avoid**\n\nIbuprofen.\n\n2. **Take**\n\nParacetamol.", "reordered") is None
    assert change("Steps in this order:\n- wash\n- inject", "reordered") is None


def test_reordered_sections_paragraphs_and_lines() -> None:
    sections = "Intro.\n\n## Avoid\nIbuprofen.\n\n## Take\nParacetamol."
    assert change(sections, "reordered") == "Intro.\n\n## Take\nParacetamol.\n\n## Avoid\nIbuprofen."
    paragraphs = "The cause is a clot.\n\nIt needs heparin.\n\nBleeding is rare."
    assert change(paragraphs, "reordered") == "Bleeding is rare.\n\nThe cause is a clot.\n\nIt needs heparin."
    headed = "**Avoid**\nIbuprofen.\n\n**Take**\nParacetamol."
    assert change(headed, "reordered") == "**Take**\nParacetamol.\n\n**Avoid**\nIbuprofen."
    assert change("A: urgent.\nB: routine.", "reordered") == "B: routine.\nA: urgent."
    assert change("First wash.\n\nThen inject.", "reordered") is None
    assert change("A line that is\nwrapped at the edge. The\nsentence goes on.", "reordered") is None
    assert change("```\na\n\nb\n```", "reordered") is None


def test_sentences_move_behind_the_first_and_only_where_none_leans_on_another() -> None:
    text = "Gout is common. Colchicine 0.5 mg helps, e.g. twice a day. It causes diarrhoea. Ice is fine."
    moved = "Gout is common. Ice is fine. Colchicine 0.5 mg helps, e.g. twice a day. It causes diarrhoea."
    assert change(text, "reordered") == moved
    assert change("Gout is common. Ice helps. Then give colchicine.", "reordered") is None
    assert change("Gout is common. Ice helps. Rest helps", "reordered") is None
    assert change("Gout is common. (Ice helps. Rest helps.) Drink.", "reordered") is None
    chinese = "痛风很常见。秋水仙碱0.5 mg有效！冷敷“可用”。多饮水。"
    seen = {change(chinese, "reordered", "zh", seed) for seed in range(20)}
    assert len(seen) == 5
    assert all(one is not None and one.startswith("痛风很常见。") and pieces(one) == pieces(chinese) for one in seen)
    assert change("痛风很常见。冷敷有效。它也安全。", "reordered", "zh") is None
    assert change("痛风很常见。首先冷敷。然后服药。", "reordered", "zh") is None


def test_filler_stands_between_paragraphs_but_not_inside_lists_or_behind_a_lead() -> None:
    text = "Aspirin is given.\n\nAvoid:\n\n- alcohol\n\n- ibuprofen\n\n| a |\n|---|\n\nCall 112."
    for seed in range(10):
        found = change(text, "filler", seed=seed) or ""
        assert "Avoid:\n\n- alcohol\n\n- ibuprofen\n\n| a |\n|---|\n\n" in found
        paragraphs = found.split("\n\n")
        assert paragraphs.index("Avoid:") == paragraphs.index("Aspirin is given.") + 2
        assert paragraphs.index("Call 112.") == paragraphs.index("| a |\n|---|") + 2


def test_windows_newlines_stay() -> None:
    text = "- **A** is given.\r\n- B is given.\r\n\r\nC is given.\r\n"
    for probe in PROBES:
        found = change(text, probe) or ""
        assert found.count("\r\n") == found.count("\n") > 0
        assert change(text.replace("\r\n", "\n"), probe) == found.replace("\r\n", "\n")


LONG = {
    "sentences": "Give 5 mg of the drug daily. " * 1700,
    "chinese": "每日给药5 mg一次。" * 4200,
    "list": "- **Give** 5 mg.\n" * 3000,
    "table": "| a | b |\n|---|---|\n| 1 | 2 |\n\n" * 1500,
    "stars": "*" * 50_000,
    "open marks": "**a _b `c [d <p " * 3000,
    "dots": "." * 50_000,
    "blanks": "a" + " " * 49_998 + "b",
    "blank rows": "a|\n" + " " * 24_000 + "|" + " " * 24_000,
    "newlines": "a." + "\n" * 49_996 + "b.",
    "tags": '<b a="' * 8000,
}


@pytest.mark.parametrize("name", LONG)
def test_long_texts_take_no_time(name) -> None:
    change("A. B.", "filler"), change("A. B.", "filler", "zh")
    for probe in PROBES:
        for language in ("en", "zh"):
            # The best of some runs: other work on the machine is not what is measured.
            taken = []
            while len(taken) < 8 and min(taken, default=1) > 0.1:
                begin = time.perf_counter()
                change(LONG[name], probe, language)
                taken.append(time.perf_counter() - begin)
            assert min(taken) < 0.1, (probe, language)


# --- The effect -----------------------------------------------------------------------------------------------------


def verdict(
    question: str, score: int | None, expected: float | None = None, round: int = 1, model: str = "m"
) -> Judgment:
    error = "no verdict" if score is None else None
    return Judgment(
        question_id=question, model=model, judge="j", round=round, score=score, expected=expected, error=error
    )


def test_the_effect_of_a_few_answers_by_hand() -> None:
    before = [
        verdict("a", 3, 3.2),
        verdict("b", 4, 4.0),
        verdict("c", 5),
        verdict("d", 4),
        verdict("d", 5, round=2),
        verdict("e", None),
        verdict("not probed", 4),
    ]
    after = [
        verdict("a", 4, 3.9),
        verdict("b", 3, 3.3),
        verdict("c", None),
        verdict("d", 5),
        verdict("d", 3, round=2),
        verdict("e", 5),
    ]
    groups = {name: name for name in ("a", "b", "c", "d", "e", "not probed")}
    found = probe_effect(before, after, groups, "filler")
    # a rose; b fell; c was usable and is unscored; d's rounds average to 4.5 and then 4: usable both times.
    assert (found["n"], found["skipped"], found["unscored"]) == (4, 2, 1)
    assert found["shift"]["value"] == pytest.approx((0.7 - 0.7 - 0.5) / 3, abs=1e-6)
    assert found["flips"]["value"] == 2 / 4
    assert found["to_usable"]["value"] == 1 / 4
    assert found["to_unusable"]["value"] == 2 / 4
    wrong = probe_effect(before, after, groups, "fluent-wrong")
    assert wrong["flips"] == wrong["to_usable"] == found["to_usable"]
    assert probe_effect(reversed(before), reversed(after), groups, "filler") == found


def shares(flipped: list[bool], groups: list[str]) -> dict[str, float]:
    names = [f"q{n}" for n in range(len(flipped))]
    before = [verdict(name, 2) for name in names]
    after = [verdict(name, 4 if up else 2) for name, up in zip(names, flipped, strict=True)]
    return probe_effect(before, after, dict(zip(names, groups, strict=True)), "instruction", resamples=50)["flips"]


def test_shares_have_wilsons_interval_for_conversations_of_one_answer() -> None:
    for k, n in ((0, 40), (7, 40), (40, 40), (1, 1)):
        found = shares([place < k for place in range(n)], [f"g{place}" for place in range(n)])
        interval = binomtest(k, n).proportion_ci(0.95, method="wilson")
        assert (found["low"], found["high"]) == pytest.approx((interval.low, interval.high), abs=1e-6)
    assert shares([False] * 40, [f"g{n}" for n in range(40)])["high"] > 0.05


def test_answers_of_one_conversation_are_worth_less() -> None:
    eight = [f"g{n // 5}" for n in range(40)]
    none = shares([False] * 40, eight)
    assert none["high"] == pytest.approx(binomtest(0, 8).proportion_ci(0.95, method="wilson").high, abs=1e-6)
    together = shares([n < 10 for n in range(40)], eight)
    apart = shares([n % 4 == 0 for n in range(40)], eight)
    assert together["high"] - together["low"] > 1.3 * (apart["high"] - apart["low"])


def test_intervals_of_shares_cover_the_truth_for_clustered_answers() -> None:
    generator = np.random.default_rng(3)
    groups = [f"g{n // 5}" for n in range(200)]
    covered = 0
    for _ in range(60):
        rate = np.repeat(generator.beta(0.15, 0.85, 40), 5)
        found = shares((generator.random(200) < rate).tolist(), groups)
        covered += found["low"] <= 0.15 <= found["high"]
    assert covered >= 53  # 57 of 60 expected; independent answers assumed, it is about 45


def test_the_interval_of_the_shift_is_scipys_bootstrap_over_conversations() -> None:
    generator = np.random.default_rng(0)
    change_by_group = generator.normal(0.1, 0.3, 30)
    before, after, groups = [], [], {}
    for n, (by, model) in enumerate((by, model) for by in change_by_group for model in ("a", "b")):
        groups[f"q{n}"] = f"g{n // 2}"
        before.append(verdict(f"q{n}", 3, 3.0, model=model))
        after.append(verdict(f"q{n}", 3, 3.0 + by, model=model))
    found = probe_effect(before, after, groups, "plain", resamples=20_000)["shift"]
    other = bootstrap((change_by_group,), np.mean, method="percentile", n_resamples=20_000, rng=1).confidence_interval
    assert found["value"] == pytest.approx(change_by_group.mean(), abs=1e-6)
    assert (found["low"], found["high"]) == pytest.approx((other.low, other.high), abs=0.01)


def test_nothing_to_compare_and_one_conversation_only() -> None:
    nothing = {"value": None, "low": None, "high": None}
    empty = probe_effect([], [], {}, "filler")
    assert (empty["n"], empty["shift"], empty["flips"]) == (0, nothing, nothing)
    stopped = probe_effect([verdict("a", 4)], [verdict("a", None)], {"a": "a"}, "filler")
    assert stopped["shift"] == nothing
    assert (stopped["unscored"], stopped["flips"]["value"], stopped["to_unusable"]["value"]) == (1, 0.0, 1.0)
    one = probe_effect([verdict("a", 4)], [verdict("a", 5)], {"a": "a"}, "filler")
    assert one["shift"] == {"value": 1.0, "low": None, "high": None}


@pytest.mark.slow
def test_the_built_in_similarity_judge_is_moved_by_form(sample) -> None:
    from medjudge.judge.open import choose_judge, load_chosen
    from medjudge.judge.protocol import assignments

    judge = load_chosen(choose_judge("similarity"), device="cpu")
    by_question = groupby(sample, key=lambda row: row[0].id)
    chosen = [rows[place % len(rows)] for place, rows in enumerate(list(group) for _, group in by_question)]
    chosen = [row for row in chosen if all(probed(*row[:2], probe) for probe in ("doubled", "filler"))][:40]
    questions = [question for question, _, _ in chosen]
    groups = {question.id: question.group for question in questions}
    before = list(judge.judge(assignments(questions, [answer for _, answer, _ in chosen])))
    for probe, least in (("doubled", 0.05), ("filler", 0.1), ("language-wrapper", 0.3)):
        changed = [found for question, answer, _ in chosen if (found := probed(question, answer, probe))]
        found = probe_effect(before, list(judge.judge(assignments(questions, changed))), groups, probe)
        assert found["n"] == len(chosen) >= 38
        # It averages over an answer's tokens, so that whatever says nothing pulls its score down, surely so here.
        assert found["shift"]["value"] < -least, probe
        assert found["shift"]["high"] < 0, probe
