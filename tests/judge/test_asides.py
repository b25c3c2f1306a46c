"""Which sentences of an answer the judge leaves out."""

import numpy as np
import pytest
import torch
from tiny_models import build_tiny_encoder
from torch import nn

from medjudge.judge.asides import SURE, sentence_vector, sentences_of, without_asides
from medjudge.judge.states import LAYERS, FrozenEncoder, TextStates
from medjudge.models.loading import load_encoder, load_tokenizer

MATTER = ("Take paracetamol four times a day.", "Drink plenty of water and rest.", "See a doctor if the fever stays.")
GREETING = "Thank you so much for writing to us."


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> FrozenEncoder:
    base = str(build_tiny_encoder(tmp_path_factory.mktemp("base"), layers=LAYERS[-1]))
    return FrozenEncoder(load_encoder(base).eval(), load_tokenizer(base), max_length=256, most_windows=2)


def read(encoder: FrozenEncoder, text: str) -> TextStates:
    (states,) = encoder.read([text])
    return states


def look_for(encoder: FrozenEncoder, text: str) -> nn.Linear:
    """A look that takes the first sentence of a text for an aside, and no other."""
    states = read(encoder, text)
    vectors = np.stack([sentence_vector(states, each) for each in sentences_of(text, states, "en")])
    target = np.full(len(vectors), SURE - 3.0)
    target[0] = SURE + 3.0
    weight, *_ = np.linalg.lstsq(vectors, target, rcond=None)
    look = nn.Linear(vectors.shape[1], 1)
    with torch.no_grad():
        look.weight.copy_(torch.from_numpy(weight)[None])
        look.bias.zero_()
    return look


def test_an_aside_is_left_out_and_the_rest_is_read_as_it_stands(encoder) -> None:
    text = " ".join([GREETING, *MATTER])
    states = read(encoder, text)
    cut = without_asides(text, states, "en", look_for(encoder, text))
    assert cut is not None
    assert cut.text == "\n".join(MATTER)
    assert np.array_equal(cut.states.states, states.states[-len(cut.states.ids) :])
    assert text[cut.states.spans[0, 0] :].startswith(MATTER[0])
    assert np.linalg.norm(cut.states.whole) == pytest.approx(1, abs=1e-3)


def test_what_is_said_twice_is_read_once(encoder) -> None:
    text = "\n".join([*MATTER, *MATTER])
    never = nn.Linear(2 * encoder.width, 1)
    nn.init.zeros_(never.weight)
    nn.init.constant_(never.bias, SURE - 1)
    states = read(encoder, text)
    cut = without_asides(text, states, "en", never)
    assert cut is not None
    assert cut.text == "\n".join(MATTER)
    assert len(cut.states.ids) == len(states.ids) / 2
    once = read(encoder, MATTER[0])
    assert without_asides(MATTER[0], once, "en", never) is None


def test_an_answer_of_nothing_but_asides_is_read_as_it_is(encoder) -> None:
    always = nn.Linear(2 * encoder.width, 1)
    nn.init.zeros_(always.weight)
    nn.init.constant_(always.bias, SURE + 1)
    text = " ".join(MATTER)
    assert without_asides(text, read(encoder, text), "en", always) is None
