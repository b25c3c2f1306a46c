"""Which sentences of an answer the judge leaves out."""

import numpy as np

from medjudge.judge.asides import SURE, without_asides
from medjudge.judge.points import sentence_spans
from medjudge.judge.sentences import Sentence, Signs

MATTER = ("Take paracetamol four times a day.", "Drink plenty of water and rest.", "See a doctor if the fever stays.")
GREETING = "Thank you so much for writing to us."
SIGNS = {GREETING: Signs(-9.0, SURE + 0.1), MATTER[0]: Signs(-9.0, SURE - 0.1)}


def left(text: str, read: int | None = None) -> str | None:
    """What is left of a text of whose characters some are read, all if omitted."""
    spans = [span for span in sentence_spans(text, "en") if read is None or span.start < read]
    return without_asides(text, [Sentence(span, np.arange(1)) for span in spans], SIGNS)


def test_an_aside_is_left_out_and_the_rest_stays_as_it_was() -> None:
    matter = f"{MATTER[0]}  {MATTER[1]}\n\n- {MATTER[2]}"
    assert left(f"{GREETING} {matter}") == matter
    assert left(f"{matter}\n\n{GREETING}") == matter
    assert left(f"{MATTER[0]}  {GREETING} {MATTER[1]}\n\n- {MATTER[2]}") == matter
    assert left(f'{{"\n{matter}\n"}}') == matter
    assert left(matter) is None


def test_what_is_said_twice_is_left_out_once() -> None:
    once = "\n".join(MATTER)
    assert left(f"{once}\n\n{once}") == once
    assert left(f"Yes. {MATTER[0]} Yes.") is None


def test_what_was_not_read_stays() -> None:
    text = f"{MATTER[0]} {MATTER[0]} {MATTER[1]}"
    assert left(text, read=2 * len(MATTER[0])) == f"{MATTER[0]} {MATTER[1]}"


def test_an_answer_of_nothing_but_asides_is_read_as_it_is() -> None:
    assert left(GREETING) is None
    assert left(f"{GREETING} {GREETING}") is None
