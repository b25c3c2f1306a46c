from collections.abc import Callable

import pytest

from medjudge.judge.protocol import Assignment


@pytest.fixture
def assignment(question, answer) -> Callable[..., Assignment]:
    """Builds an assignment from an answer's text, with any field of the question."""

    def build(text: str = "At most 4 g a day.", round: int = 1, model: str = "m", **fields: object) -> Assignment:
        asked = question(**{"reference": "At most 4 g a day for an adult.", **fields})
        reason = None if text.strip() else "stop"
        return Assignment(asked, (), answer(question_id=asked.id, text=text, model=model, finish_reason=reason), round)

    return build
