from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_models import build_tiny_encoder

from medjudge.judge.folder import JudgeCard
from medjudge.judge.level_head import ROWS, LevelHead
from medjudge.judge.protocol import Assignment
from medjudge.judge.reader import FEATURES, Reader
from medjudge.judge.states import LAYERS, OVERLAP, FrozenEncoder, vocabulary_sha256
from medjudge.models.loading import load_encoder, load_tokenizer


@pytest.fixture
def assignment(question, answer) -> Callable[..., Assignment]:
    """Builds an assignment from an answer's text, with any field of the question."""

    def build(text: str = "At most 4 g a day.", round: int = 1, model: str = "m", **fields: object) -> Assignment:
        asked = question(**{"reference": "At most 4 g a day for an adult.", **fields})
        reason = None if text.strip() else "stop"
        return Assignment(asked, (), answer(question_id=asked.id, text=text, model=model, finish_reason=reason), round)

    return build


@pytest.fixture(scope="session")
def reader_base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_encoder(tmp_path_factory.mktemp("base"), layers=LAYERS[-1])


@pytest.fixture(scope="session")
def reader_encoder(reader_base: Path) -> FrozenEncoder:
    base = str(reader_base)
    return FrozenEncoder(load_encoder(base).eval(), load_tokenizer(base), max_length=64 + OVERLAP, most_windows=3)


@pytest.fixture
def reader_folder(reader_base: Path, reader_encoder: FrozenEncoder, tmp_path: Path) -> Path:
    torch.manual_seed(0)
    weights = np.tile(np.linspace(-0.1, 0.2, FEATURES + 1), (ROWS, 1))
    head = LevelHead(weights, np.tile([-1.0, 0.0, 0.5, 1.0], (ROWS, 1)))
    reader = Reader(reader_encoder.words)
    torch.nn.init.zeros_(reader.near.weight)  # made for the published encoder, it drowns what a tiny one says
    reader.save(tmp_path, head)
    card = JudgeCard(
        kind="reader",
        base_model=str(reader_base),
        max_length=128,
        windows=3,
        vocabulary_sha256=vocabulary_sha256(reader_encoder.tokenizer),
        only_languages=["en", "zh"],
    )
    card.write(tmp_path)
    return tmp_path
