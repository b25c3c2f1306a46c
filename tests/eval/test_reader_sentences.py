"""Heads over the states of sentences: what they learn, and the logit that a share of the sentences reach."""

import numpy as np
import torch
from reader_sentences import fitted, logits_of, reached_by, sentences_in, shift

from medjudge.judge.sentence_reader import head_over


def test_a_head_learns_a_boundary_that_is_no_line() -> None:
    draw = np.random.default_rng(0)
    vectors = draw.normal(size=(1200, 4)).astype(np.float32)
    labels = vectors[:, 0] * vectors[:, 1] > 0
    head = fitted(vectors[:1000], labels[:1000], units=16, passes=150)
    assert ((logits_of(head, vectors[1000:]) > 0) == labels[1000:]).mean() > 0.8


def test_a_shift_puts_the_threshold_where_a_share_of_the_sentences_reaches_it() -> None:
    torch.manual_seed(0)
    vectors = np.random.default_rng(1).normal(size=(1000, 4)).astype(np.float32)
    head = head_over(4, 8)
    torch.nn.init.normal_(head[-1].weight)
    shift(head, 2.0 - reached_by(head, vectors, share=0.05))
    assert (logits_of(head, vectors) >= 2.0).sum() == 50


def test_a_new_head_finds_nothing() -> None:
    assert (logits_of(head_over(4, 8), np.ones((3, 4), np.float32)) < -10).all()


def test_short_sentences_are_left_out() -> None:
    assert sentences_in("Yes. Take the tablet with water. No.", "en") == ["Take the tablet with water."]
