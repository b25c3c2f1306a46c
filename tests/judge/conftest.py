from collections.abc import Callable

import pytest

from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_causal_lm, load_tokenizer


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")


@pytest.fixture
def assignment(question, answer) -> Callable[..., Assignment]:
    """Builds an assignment from an answer's text, with any field of the question."""

    def build(text: str = "At most 4 g a day.", round: int = 1, model: str = "m", **fields: object) -> Assignment:
        asked = question(**{"reference": "At most 4 g a day for an adult.", **fields})
        reason = None if text.strip() else "stop"
        return Assignment(asked, (), answer(question_id=asked.id, text=text, model=model, finish_reason=reason), round)

    return build


@pytest.fixture
def judge(tiny_lm) -> GenerativeJudge:
    """A generative judge in memory, on random weights."""
    model = load_causal_lm(str(tiny_lm)).eval()
    return GenerativeJudge("tiny", model, load_tokenizer(str(tiny_lm)), GenerativeSettings(4096, batch_tokens=6000))
