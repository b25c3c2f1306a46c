"""What the reader learns from: labels follow from how an example was made, and no text of the probes is in it."""

import re
from difflib import SequenceMatcher

import numpy as np
import pytest
from reader_alarms import ADVICE
from reader_asides import asides_of
from reader_examples import PHRASES, Example, Pair, disturbed, fold_of, graded, matching, mined, verbatim
from reader_training import balanced

from medjudge.judge.points import sentence_spans
from medjudge.probes.texts import probe_texts

USABLE = (0.0, 0.0, 0.0, 0.5, 0.5)
NEARLY = 0.8
"""The ratio of characters in common from which a phrase is nearly a text of a probe."""


def example(answer: str, language: str = "en", group: str = "g", source: str = "mediqa") -> Example:
    return Example("How is it treated?", "", "", answer, language, USABLE, None, group, source)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_text_of_the_probes_is_learned(language: str) -> None:
    probes = probe_texts(language)
    asked = {*probes.harm, *probes.negated, *probes.echo}
    lists = [texts for name, texts in PHRASES[language].items() if name != "slots"]
    learned = {text for texts in lists for text in texts} - {"{prompt}"}
    learned |= {text for pair in ADVICE[language] for text in pair.values()}
    assert not asked & learned
    frames = (probes.filler, probes.wrapper, probes.fluent)
    around = [text for frame in frames for texts in frame.model_dump().values() for text in texts]
    around += [
        *probes.instruction,
        *probes.authority,
        *probes.quoted_rubric,
        *probes.verdict_first,
        *probes.only_praise,
    ]
    sentences = {text[span.start : span.end].strip() for text in around for span in sentence_spans(text, language)}
    learned_asides = {_plain(text) for text, _ in asides_of(language)} - {""}
    near = {(text, aside) for text in map(_plain, sentences) for aside in learned_asides if _is_near(text, aside)}
    assert not near


def _plain(text: str) -> str:
    """Its words alone, without numbers."""
    return re.sub(r"[\W_\d]", "", text).casefold()


def _is_near(text: str, other: str) -> bool:
    """Whether two texts are nearly the same."""
    alike = SequenceMatcher(None, text, other)
    return alike.real_quick_ratio() >= NEARLY and alike.quick_ratio() >= NEARLY and alike.ratio() >= NEARLY


def test_what_spoils_an_answer_takes_its_usable_label_and_what_frames_it_does_not() -> None:
    examples = [example(f"Take {number} mg of it a day.", group=f"g{number}") for number in range(40)]
    made = disturbed(examples, seed=0)
    by_way: dict[str, list[Example]] = {}
    for each in made:
        by_way.setdefault(each.source.removeprefix("disturbed-"), []).append(each)
    assert set(by_way) == {"as-is", "framed", "denied", "harmed", "safe", "echo", "empty"}
    for way, found in by_way.items():
        usable = {sum(each.label[3:]) > 0.5 for each in found}
        assert usable == {way in ("as-is", "framed", "safe")}, way
        assert {each.alarm for each in found} == {way in ("denied", "harmed")}, way
        assert not any("{" in each.answer for each in found)
    originals = {each.answer for each in examples}
    assert all(any(original in each.answer for original in originals) for each in by_way["harmed"])


def test_an_answer_to_another_question_is_wrong_for_this_one() -> None:
    pairs = [
        Pair(f"What is disease {n}?", f"Disease {n} is a condition of organ {n}.", f"{n % 3}", "en") for n in range(30)
    ]
    made = matching(pairs, 20, seed=0)
    answer_of = {pair.question: pair.answer for pair in pairs}
    for each in made:
        assert (sum(each.label[3:]) > 0.5) == (each.answer == answer_of[each.prompt])


def test_graded_answers_keep_what_is_known_of_their_points() -> None:
    text = "Take 500 mg of it twice a day with food. Do not drive after the first dose. See a doctor after one week. "
    pairs = [
        Pair(f"How is disease {n} treated?", f"{text}It costs {n + 2} coins at the desk.", "t", "en") for n in range(12)
    ]
    made = graded(pairs, 60, seed=0)
    assert {int(np.argmax(each.label)) + 1 for each in made} >= {1, 3, 5}
    assert {each.verdict for each in made} == {0, None}
    assert all(int(np.argmax(each.label)) == 4 for each in made if each.verdict == 0)
    assert any(each.checklist for each in made)


def test_a_group_is_in_one_fold() -> None:
    examples = [example("x", group=f"g{n % 25}", source="liveqa" if n % 2 else "mediqa") for n in range(100)]
    folds = fold_of(examples, 5, 0)
    assert sorted(folds) == sorted({each.group for each in examples})
    assert {list(folds.values()).count(number) for number in range(5)} == {5}


def claim(number: int, verdict: int = 0, kind: str = "none") -> Example:
    passage = f"Disease {number} is rare in adults. It is found in organ {number} of the body."
    return Example(
        "", f"Disease {number} is uncommon.", "", passage, "en", None, verdict, f"d{number}", f"claims/{kind}"
    )


def test_what_a_passage_says_word_for_word_is_supported() -> None:
    made = verbatim([claim(number) for number in range(9)], 6, seed=0)
    assert len(made) == 6
    assert all(each.reference in each.answer and each.verdict == 0 for each in made)


def test_a_mined_passage_is_near_and_about_another_topic() -> None:
    claims = [claim(number) for number in range(12)]

    def vector(text: str) -> np.ndarray:
        """Neighbouring numbers point in nearly the same direction."""
        angle = int(text.split()[1]) / 4
        return np.array([np.cos(angle), np.sin(angle)])

    made = mined(claims, vector, 12, seed=0)
    assert len(made) == 12
    for each in made:
        assert each.verdict == 1
        assert each.answer != next(other.answer for other in claims if other.reference == each.reference)


def test_verdicts_are_balanced_and_rare_kinds_are_repeated() -> None:
    claims = [claim(n) for n in range(60)] + [claim(n, 1, "added") for n in range(90)] + [claim(0, 1, "other")] * 10
    claims += [claim(n, 2, "dose") for n in range(4)] + [claim(n, 2, "negation") for n in range(64)]
    chosen = [claims[at] for at in balanced(claims)]
    verdicts = [sum(each.verdict == verdict for each in chosen) for verdict in (0, 1, 2)]
    assert max(verdicts) - min(verdicts) <= 2
    doses, negations = (sum(each.source == f"claims/{kind}" for each in chosen) for kind in ("dose", "negation"))
    assert negations / doses == pytest.approx(4, rel=0.1)
