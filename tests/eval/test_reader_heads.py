"""What the level head makes of points that an answer contradicts."""

import numpy as np
from reader_examples import Example
from reader_features import Seen
from reader_heads import AUXILIARY, OF_CONTRADICTED, OF_QUESTION, head_of

from medjudge.judge.comparison import REFERENCE_THERE
from medjudge.judge.reader import FEATURES


def made(count: int, language: str, seed: int, points: bool = True) -> Seen:
    """Answers whose level falls with the points that they contradict."""
    draw = np.random.default_rng(seed)
    levels = draw.integers(1, 6, count)
    features = draw.normal(size=(count, FEATURES))
    features[:, REFERENCE_THERE] = points
    features[:, OF_CONTRADICTED[2]] = (5 - levels) / 4 + 0.1 * draw.normal(size=count)
    examples = [
        Example(
            "q", "r" if points else "", "", "a", language, tuple(np.eye(5)[level - 1]), None, f"{seed}-{at}", "made"
        )
        for at, level in enumerate(levels)
    ]
    opinions = draw.normal(size=count) if language == "en" else np.full(count, np.nan)
    return Seen(examples, features, np.full(count, -50.0), opinions[:, None], np.zeros(count, bool), np.zeros(count))


def both(seed: int) -> Seen:
    parts = made(200, "zh", seed), made(200, "en", seed + 1), made(50, "zh", seed + 2, points=False)
    rest = (np.concatenate(field) for field in zip(*(part[1:] for part in parts), strict=True))
    return Seen([example for part in parts for example in part.examples], *rest)


def test_contradicted_points_lower_chinese_answers_alone_and_an_ablated_feature_has_no_weight() -> None:
    seen = {source: both(number) for number, source in enumerate(AUXILIARY)}
    seen["scored"], seen["scored-alone"] = made(100, "en", 10), made(100, "en", 11, points=False)
    everyone = np.ones(100, bool)
    weights = head_of(seen, everyone).weights
    assert weights[1, OF_CONTRADICTED[2]] < -1
    assert (weights[1, list(OF_CONTRADICTED)] <= 0).all()
    assert (weights[3, list(OF_CONTRADICTED)] == 0).all()
    assert (weights[[1, 3]][:, list(OF_QUESTION)] == 0).all()
    assert head_of(seen, everyone, OF_CONTRADICTED[2:]).weights[1, OF_CONTRADICTED[2]] == 0
