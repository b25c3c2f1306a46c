"""Which sentences of an answer the judge leaves out."""

import numpy as np

from medjudge.judge.asides import SURE, without_asides
from medjudge.judge.points import sentence_spans
from medjudge.judge.sentence_reader import Sentence, SentenceLogits

MATTER = ("Take paracetamol four times a day.", "Drink plenty of water and rest.", "See a doctor if the fever stays.")
GREETING, CLOSING = "Thank you so much for writing to us.", "Best wishes to you."
LOGITS = {
    GREETING: SentenceLogits(-9.0, SURE + 0.1),
    CLOSING: SentenceLogits(-9.0, SURE + 0.1),
    MATTER[0]: SentenceLogits(-9.0, SURE - 0.1),
}


def left(text: str) -> str | None:
    spans = sentence_spans(text, "en")
    sentences = [Sentence(span, text[slice(*span)].strip(), np.arange(1)) for span in spans]
    return without_asides(text, sentences, LOGITS)


def test_an_aside_is_left_out_and_the_rest_stays_as_it_was() -> None:
    matter = f"{MATTER[0]}  {MATTER[1]}\n\n- {MATTER[2]}"
    assert left(f"{GREETING} {matter}") == matter
    assert left(f"{matter}\n\n{CLOSING}") == matter
    assert left(f"{MATTER[0]}  {GREETING} {MATTER[1]}\n\n- {MATTER[2]}") == matter
    assert left(matter) is None


def test_lone_brackets_are_left_out_and_signs_that_may_be_an_answer_are_not() -> None:
    assert left(f'{{"\n{MATTER[0]}\n"}}') == MATTER[0]
    assert left(f"{MATTER[0]}\n(+)\n√") is None


def test_what_is_said_twice_is_left_out_once() -> None:
    once = "\n".join(MATTER)
    assert left(f"{once}\n\n{once}") == once
    assert left(f"Yes. {MATTER[0]} Yes.") is None


def test_an_answer_of_nothing_but_asides_is_read_as_it_is() -> None:
    assert left(GREETING) is None
    assert left(f"{GREETING} {CLOSING}") is None
