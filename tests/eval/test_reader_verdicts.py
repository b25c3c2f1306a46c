"""The weights of verdicts: what they make of layers and nearness, and which pieces they come from."""

import numpy as np
import torch
from reader_contrasts import HELD_OUT, contrasts, subjects
from reader_examples import Example
from reader_verdicts import Pieces, Weights, fit, for_weights, mean_met

MET, OPEN, CONTRADICTED = range(3)


def pieces(numbers: np.ndarray, verdicts: np.ndarray | None = None, levels: np.ndarray | None = None) -> Pieces:
    """One piece of each example."""
    count = len(numbers)
    labels = [None] * count if levels is None else [tuple(np.eye(5)[level - 1]) for level in levels]
    known = [None] * count if verdicts is None else verdicts.tolist()
    examples = [
        Example("", "point", "", "answer", "en", label, verdict, str(at), "made")
        for at, (label, verdict) in enumerate(zip(labels, known, strict=True))
    ]
    return Pieces(examples, np.arange(count), numbers.astype(np.float32))


def said(weights: Weights, numbers: np.ndarray) -> np.ndarray:
    return (numbers @ weights.weights.T + weights.biases).argmax(axis=1)


def test_layers_that_are_right_are_believed_and_noise_is_not() -> None:
    draw = np.random.default_rng(0)
    verdicts = draw.integers(0, 3, 600)
    noise = draw.normal(size=(600, 6))
    right = noise.copy()
    right[np.arange(600), verdicts] += 4
    assert (said(fit([pieces(right, verdicts)], []), right) == verdicts).mean() > 0.95
    near = noise.copy()
    near[:, 3] = np.where(verdicts == MET, 3.0, -3.0)
    weights = fit([pieces(near, verdicts)], [])
    assert ((said(weights, near) == MET) == (verdicts == MET)).mean() > 0.9


def test_answers_with_levels_teach_that_nearness_means_met() -> None:
    draw = np.random.default_rng(1)
    levels = draw.integers(1, 6, 300)
    numbers = draw.normal(size=(300, 6))
    numbers[:, 3] = levels - 3 + 0.1 * draw.normal(size=300)
    answers = pieces(numbers, levels=levels)
    weights = fit([], [answers])
    logits = torch.from_numpy(numbers @ weights.weights.T + weights.biases)
    met = mean_met(logits, answers).numpy()
    assert np.corrcoef(met, levels)[0, 1] > 0.8


def test_chosen_pieces_belong_to_the_examples_that_are_left() -> None:
    numbers = np.arange(24.0).reshape(4, 6)
    some = Pieces(pieces(numbers[:3], np.array([MET, OPEN, CONTRADICTED])).examples, np.array([0, 1, 1, 2]), numbers)
    left = some.chosen(np.array([False, True, True]))
    assert [example.verdict for example in left.examples] == [OPEN, CONTRADICTED]
    assert left.owner.tolist() == [0, 0, 1]
    assert (left.numbers == numbers[1:]).all()


def test_no_subject_both_fits_the_weights_and_is_measured() -> None:
    examples = contrasts([each for each in subjects() if each.author in HELD_OUT], 0)
    fits = for_weights(examples)
    sides = [{each.group for each, fit in zip(examples, fits, strict=True) if fit == side} for side in (True, False)]
    assert len(sides[0]) == len(sides[1]) / 4 == 24
    assert not sides[0] & sides[1]
