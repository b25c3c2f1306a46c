"""The parts of a run's `run.json` that readers rely on."""

from typing import Any

from pydantic import BaseModel, ConfigDict


class JudgeEntry(BaseModel):
    """The parts of a judge's entry in `run.json` that readers rely on."""

    model_config = ConfigDict(strict=True)

    kind: str = ""
    sha256: str = ""
    rubrics_sha256: str = ""
    stale_temperature: str | None = None
    seconds: float = 0.0
    judgments: int = 0
    base_model: str | None = None
    base_revision: str | None = None
    seen_question_ids: list[str] = []
    validated_on: list[dict[str, Any]] = []
    refused_parameters: list[str] = []
    reply_tokens: int = 0
    served: list[str | None] = []


class _ModelEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    seconds: float = 0.0


class _SpendingEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    usd: float | None = None


class _BenchmarkEntry(BaseModel):
    model_config = ConfigDict(strict=True)

    source: str
    questions: int = 0
    sha256: str = ""  # empty until the questions are written


class Manifest(BaseModel):
    """The entries of `run.json` that readers rely on; other entries may have any form."""

    model_config = ConfigDict(strict=True)

    id: str = ""
    updated: str = ""
    judge: str | None = None
    judges: dict[str, JudgeEntry] = {}
    item_judges: dict[str, JudgeEntry] = {}
    pair_judges: dict[str, JudgeEntry] = {}
    models: dict[str, _ModelEntry] = {}
    notes: list[str] = []
    versions: dict[str, str] = {}
    benchmark: _BenchmarkEntry | None = None
    spending: _SpendingEntry | None = None
