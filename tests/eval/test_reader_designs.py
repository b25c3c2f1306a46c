"""Designs for verdicts on points, trained on the same examples."""

from pathlib import Path

import numpy as np
from reader_designs import CrossEncoder, Judged, by_cross_encoder, measured, once
from reader_examples import Example

POINTS = ("The dose is 5 mg.", "Give it at night.", "It is safe in children.", "Stop it before surgery.")


def pairs(count: int) -> list[Example]:
    return [
        Example("", POINTS[at % 4], "", POINTS[at % 4 - at % 2], "en", None, at % 2, f"group-{at}", "contrasts")
        for at in range(count)
    ]


def test_a_cross_encoder_says_three_probabilities_and_counts_the_tokens_it_read() -> None:
    held = pairs(6)
    judged = by_cross_encoder(pairs(64), held)
    assert judged.chances.shape == (6, 3)
    assert np.allclose(judged.chances.sum(axis=1), 1, atol=1e-5)
    tokenizer = CrossEncoder().tokenizer
    rows = tokenizer([each.reference for each in held], [each.answer for each in held])["input_ids"]
    assert judged.cost["tokens per verdict"] == sum(map(len, rows)) / len(held)


def test_a_design_that_tells_the_verdicts_apart_has_the_whole_area() -> None:
    examples = pairs(40)
    right = np.eye(3)[[each.verdict for each in examples]]
    assert measured(right, examples)["auc of met"]["value"] == 1
    assert measured(1 - right[:, :1], examples)["auc of met"]["value"] == 0
    assert "macro_f1" not in measured(right[:, :1], examples)


def test_what_a_design_said_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "designs" / "one.json"
    first = once(kept, lambda: Judged(np.eye(3), {"seconds of training": 1.5}))
    again = once(kept, lambda: Judged(np.zeros((3, 3)), {}))
    assert np.array_equal(first.chances, again.chances)
    assert again.cost == {"seconds of training": 1.5}
