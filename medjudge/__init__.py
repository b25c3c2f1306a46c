"""Distil expensive judgments of medical answers into a small local judge, and measure how far it can be trusted.

Each function below is one station of the pipeline; what it imports is loaded when it is first used.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

# Before any of these libraries is imported. Whoever sets a variable keeps what they set.
for _name, _off in (
    ("HF_HUB_DISABLE_TELEMETRY", "1"),
    ("DO_NOT_TRACK", "1"),
    ("RAY_USAGE_STATS_ENABLED", "0"),
    ("VLLM_NO_USAGE_STATS", "1"),
    ("VLLM_DO_NOT_TRACK", "1"),
    ("WANDB_ERROR_REPORTING", "false"),
    # torch on a CPU: by default oneDNN keeps the products of 1,024 text lengths, of 30 MB each in bfloat16.
    ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16"),
    ("LRU_CACHE_CAPACITY", "16"),
):
    os.environ.setdefault(_name, _off)

if TYPE_CHECKING:
    from medjudge.workflows.answer import answer_questions as answer_questions
    from medjudge.workflows.distill import distill_training_set as distill_training_set
    from medjudge.workflows.evaluate import evaluate as evaluate
    from medjudge.workflows.refine import refine_checklists as refine_checklists
    from medjudge.workflows.report import write_report as write_report
    from medjudge.workflows.score import load_judge as load_judge
    from medjudge.workflows.train import train_judge as train_judge
    from medjudge.workflows.validate import validate as validate

__version__ = "0.1.0"

_MODULES = {
    "answer_questions": "answer",
    "distill_training_set": "distill",
    "evaluate": "evaluate",
    "load_judge": "score",
    "refine_checklists": "refine",
    "train_judge": "train",
    "validate": "validate",
    "write_report": "report",
}
"""Each function that is exported, and its module of `medjudge.workflows`."""

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    """Loads what is exported when it is first used (PEP 562), so that `import medjudge` stays fast."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"medjudge.workflows.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
