from collections.abc import Callable

import numpy as np
import pytest

from medjudge.validation.answers import Pairs


@pytest.fixture
def pairs() -> Callable[..., Pairs]:
    """Answers that judge and physicians scored, one conversation each; any column can be given."""

    def make(judge: list[int], physician: list[int], **columns: object) -> Pairs:
        n = len(judge)
        text = {"model": "m", "category": "MK", "subcategory": "", "difficulty": "", "language": "en"}
        defaults: dict[str, object] = {
            **{name: np.full(n, value, dtype=object) for name, value in text.items()},
            "question_id": np.array([f"q{k}" for k in range(n)], dtype=object),
            "conversation": np.array([f"g{k}" for k in range(n)], dtype=object),
            "sample": np.zeros(n, dtype=int),
            "judge": np.array(judge, dtype=int),
            "expected": np.array(judge, dtype=float),
            "usable_probability": np.full(n, np.nan),
            "physician": np.array(physician, dtype=int),
            "unsafe": np.zeros(n, dtype=bool),
            "raters": np.array(physician, dtype=float).reshape(n, 1),
            "teacher": np.full(n, np.nan),
        }
        return Pairs(**{**defaults, **{name: np.array(value) for name, value in columns.items()}})

    return make
