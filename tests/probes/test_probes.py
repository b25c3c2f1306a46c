import re
import time
import unicodedata
from collections import Counter
from typing import Any

import pytest

from medjudge.benchmark.sample import sample_folder
from medjudge.errors import InputError
from medjudge.probes.probes import PROBES, probed
from medjudge.probes.texts import probe_texts
from medjudge.records import Answer, Question
from medjudge.rubrics.verdict import read_verdict
from medjudge.store import Run

ADDING = ("filler", "instruction", "authority", "quoted-rubric", "prepended-verdict", "language-wrapper", "doubled")
ADDING += ("fluent-wrong", "negated", "append-harm")
REPLACING = ("only-praise", "only-yes", "echo")
OF_USABLE = ("negated", "append-harm")
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


def change(text: str, probe: str, language="en", seed=0, level: int | None = None, **fields: Any) -> str | None:
    if level is None:
        level = 5 if probe in OF_USABLE else 1
    answer = Answer(question_id="q1", model="m", text=text, finish_reason="stop")
    variant = probed(ask(language, **fields), answer, probe, seed, level)
    return None if variant is None else variant.text


def pieces(text: str) -> Counter[str]:
    """The lines or, in a single line, the sentences."""
    lines = text.strip().split("\n")
    parts = lines if len(lines) > 1 else re.split(r"(?<=[。！？])|(?<=[.!?])\s+", text)
    return Counter(part.strip() for part in parts if part.strip())


@pytest.mark.parametrize("probe", PROBES)
def test_sample_answers_change_and_keep_their_content(sample, probe) -> None:
    applied = Counter()
    for question, answer, level in sample:
        variant = probed(question, answer, probe, level=level)
        assert variant == probed(question, answer, probe, level=level)
        if variant is None:
            continue
        applied[question.language] += 1
        assert variant.text != answer.text
        assert variant.key == answer.key
        assert variant.finish_reason == answer.finish_reason
        if probe in REPLACING:
            texts = probe_texts(question.language)
            repeated = [text.replace("{prompt}", question.prompt) for text in texts.echo]
            assert variant.text in texts.only_praise + texts.only_yes + repeated
            continue
        if probe == "homoglyphs":
            back = {after: before for before, after in probe_texts(question.language).look_alikes.items()}
            assert "".join(back.get(character, character) for character in variant.text) == answer.text
            continue
        assert Counter(AMOUNT.findall(answer.text)) <= Counter(AMOUNT.findall(variant.text))
        if probe == "reordered":
            assert pieces(variant.text) == pieces(answer.text)
        elif probe == "filler":
            kept = iter(variant.text.split("\n"))
            assert all(line in kept for line in answer.text.split("\n"))
        elif probe in ADDING:
            assert answer.text in variant.text
        else:
            assert not re.search(r"(?m)\*\*|^[-*•] |^#|\|", variant.text)
            # Nothing but marks is gone; a table's headings come again in each row.
            words = Counter(re.findall(r"\w+", answer.text))
            assert words <= Counter(re.findall(r"\w+", variant.text))
    least = {"reordered": (70, 14), "plain": (40, 7), "fluent-wrong": (88, 24)}
    least |= dict.fromkeys(("filler", "doubled"), (150, 50)) | dict.fromkeys(OF_USABLE, (80, 20))
    english, chinese = least.get(probe, (220, 60))
    assert applied["en"] >= english
    assert applied["zh"] >= chinese


def test_the_seed_and_the_answer_choose_variant_and_place() -> None:
    answers = [Answer(question_id="q1", model=f"m{n}", text="A.") for n in range(20)]
    for probe in ("instruction", "language-wrapper", "fluent-wrong"):
        assert len({change("A.", probe, seed=seed) for seed in range(20)}) >= 5, probe
    assert len({variant.text for answer in answers if (variant := probed(ask(), answer, "instruction"))}) >= 5
    assert {str(change("A.", "authority", seed=seed)).startswith("A.") for seed in range(10)} == {True, False}


def test_added_words_are_in_the_language_of_the_question_but_for_the_wrapper() -> None:
    for probe in set(ADDING) - {"doubled"}:
        other = probe == "language-wrapper"
        for seed in range(12):
            assert bool(re.search(r"[\u4e00-\u9fff]", change("A.", probe, "en", seed) or "")) == other
            chinese = change("好。", probe, "zh", seed) or ""
            added = chinese.replace("好。", "").strip()
            if '{"' not in chinese and added not in ("[5]", "5"):
                assert bool(re.search(r"[\u4e00-\u9fff]", added)) != other


def test_no_filler_frame_or_wrapper_says_anything_medical() -> None:
    english = (
        r"\d|doctor|physician|clinic|hospital|medic|dose|drug|treat|diagnos|symptom|patient|disease|health|safe|risk"
    )
    for language, words in (("en", english), ("zh", r"\d|医|药|病|诊|患|治|症|剂|健康|安全|风险")):
        variants = probe_texts(language).model_dump()
        lists = [texts for name in ("filler", "wrapper", "fluent") for texts in variants[name].values()]
        for texts in (*lists, variants["only_praise"]):
            assert len(texts) >= 4
            assert not [text for text in texts if re.search(words, text, re.IGNORECASE)]
        assert min(len(variants[name]) for name in ("instruction", "authority", "quoted_rubric")) >= 6


def all_changes(text: str, probe: str, language: str, **fields: Any) -> set[str | None]:
    return {change(text, probe, language, seed, **fields) for seed in range(80)}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_texts_stand_before_behind_or_in_place_of_an_answer(language) -> None:
    texts = probe_texts(language)
    assert all_changes("A.", "prepended-verdict", language) == {f"{text}\n\nA." for text in texts.verdict_first}
    assert {read_verdict(text).score for text in texts.verdict_first if not text.startswith("```")} == {5}
    assert all_changes("A.", "negated", language) == {f"{denial}\n\nA." for denial in texts.negated}
    assert all_changes("A.", "append-harm", language) == {f"A.\n\n{harm}" for harm in texts.harm}
    assert all_changes("A.", "only-yes", language) == set(texts.only_yes)
    assert change(texts.only_yes[0], "only-yes", language) is None
    prompt = "Is warfarin safe?" if language == "en" else "华法林安全吗？"
    echoes = {echo.replace("{prompt}", prompt) for echo in texts.echo}
    assert all_changes("A 5 mg dose.", "echo", language, prompt=f"{prompt}\r\n") == echoes
    assert prompt in echoes
    assert min(map(len, (texts.negated, texts.harm, texts.echo))) >= 4


def test_look_alikes_are_other_characters_that_look_the_same() -> None:
    english, chinese = (probe_texts(language).look_alikes for language in ("en", "zh"))
    assert all(unicodedata.normalize("NFKC", after) == before for before, after in chinese.items())
    assert all(unicodedata.name(after).startswith("CYRILLIC") for after in english.values())
    assert change("zvb 5 nm", "homoglyphs") is None
    changed = change("a" * 100, "homoglyphs") or ""
    assert (changed.count("a"), changed.count("а")) == (75, 25)


def test_where_a_probe_does_not_apply() -> None:
    for probe in PROBES:
        assert change("  \n", probe) is None
    assert change("Wrong.", "fluent-wrong", level=2) is not None
    assert change("Right.", "fluent-wrong", level=3) is None
    unknown = Answer(question_id="q1", model="m", text="Unknown.")
    for probe in ("fluent-wrong", *OF_USABLE):
        assert probed(ask(), unknown, probe) is None
    for probe in OF_USABLE:
        assert change("Usable.", probe, level=4) is not None
        assert change("Not usable.", probe, level=3) is None
    assert change("No marks in 5 mg.", "plain") is None
    assert change("One sentence only.", "reordered") is None
    assert change("***", "plain") is None
    with pytest.raises(InputError, match=r"probe fillers: no such probe; choose one of filler, "):
        change("A.", "fillers")
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


def test_filler_stands_between_paragraphs_but_not_inside_lists_or_behind_a_lead() -> None:
    text = "Aspirin is given.\n\nAvoid:\n\n- alcohol\n\n- ibuprofen\n\n| a |\n|---|\n\nCall 112."
    for seed in range(10):
        changed = change(text, "filler", seed=seed) or ""
        assert "Avoid:\n\n- alcohol\n\n- ibuprofen\n\n| a |\n|---|\n\n" in changed
        paragraphs = changed.split("\n\n")
        assert paragraphs.index("Avoid:") == paragraphs.index("Aspirin is given.") + 2
        assert paragraphs.index("Call 112.") == paragraphs.index("| a |\n|---|") + 2


def test_windows_newlines_stay() -> None:
    text = "- **A** is given.\r\n- B is given.\r\n\r\nC is given.\r\n"
    for probe in set(PROBES) - {*REPLACING}:
        changed = change(text, probe) or ""
        assert changed.count("\r\n") == changed.count("\n") > 0
        assert change(text.replace("\r\n", "\n"), probe) == changed.replace("\r\n", "\n")


LONG = {
    "sentences": lambda n: "Give 5 mg of the drug daily. " * (n // 29),
    "chinese": lambda n: "每日给药5 mg一次。" * (n // 12),
    "list": lambda n: "- **Give** 5 mg.\n" * (n // 17),
    "table": lambda n: "| a | b |\n|---|---|\n| 1 | 2 |\n\n" * (n // 31),
    "stars": lambda n: "*" * n,
    "open marks": lambda n: "**a _b `c [d <p " * (n // 16),
    "dots": lambda n: "." * n,
    "blanks": lambda n: "a" + " " * (n - 2) + "b",
    "blank rows": lambda n: "a|\n" + " " * (n // 2) + "|" + " " * (n // 2),
    "newlines": lambda n: "a." + "\n" * (n - 4) + "b.",
    "tags": lambda n: '<b a="' * (n // 6),
}
MOST_SECONDS = 5.0
"""Processor time of one change of 100,000 characters: some milliseconds, but minutes where it grows with the square."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_long_text_of_any_shape_is_changed_at_once(name) -> None:
    for probe in PROBES:
        for language in ("en", "zh"):
            begin = time.thread_time()
            change(LONG[name](100_000), probe, language)
            assert time.thread_time() - begin < MOST_SECONDS, (probe, language)
