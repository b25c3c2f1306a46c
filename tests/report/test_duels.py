import numpy as np
import pytest

from medjudge.records import Judgment
from medjudge.report.duels import Duel, duels, mean_levels


def judged(question_id: str, model: str, *scores: int | None) -> list[Judgment]:
    return [
        Judgment(
            question_id=question_id,
            model=model,
            sample=sample,
            judge="j",
            score=score,
            error=None if score else "no score",
        )
        for sample, score in enumerate(scores)
    ]


def test_levels_are_means_over_samples_and_missing_where_nothing_is_scored(question) -> None:
    questions = [question(id=name) for name in "abc"]
    judgments = [*judged("a", "m", 5, 4, None), *judged("b", "m", None), *judged("x", "m", 1), *judged("a", "other", 1)]
    means = mean_levels(questions, judgments, ["m"])
    assert means.tolist()[0][0] == 4.5
    assert np.isnan(means[0, 1:]).all()


def test_every_model_meets_every_other() -> None:
    nan = float("nan")
    levels = {"a": np.array([5, 4, 3, nan, 2]), "b": np.array([4, 4, 5, 1, nan]), "c": np.array([nan] * 5)}
    table = duels(levels)
    assert table["a"] == {"b": Duel(1, 1, 1), "c": Duel(0, 0, 0)}
    assert table["b"]["a"] == Duel(1, 1, 1)
    assert set(table["c"]) == {"a", "b"}


@pytest.mark.parametrize("scores", [(5, 4, 4), (1, 2, 2)])
def test_the_same_levels_in_another_order_are_a_tie(question, scores) -> None:
    judgments = [*judged("a", "m", *scores), *judged("a", "n", *reversed(scores))]
    means = mean_levels([question(id="a")], judgments, ["m", "n"])
    assert duels(dict(zip("mn", means, strict=True)))["m"]["n"] == Duel(0, 1, 0)
