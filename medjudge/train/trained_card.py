"""`judge.json` of a judge that was just trained: what it is, what it saw and how it was made."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from medjudge.files import file_sha256
from medjudge.judge.folder import JudgeCard, TrainedOn
from medjudge.models.loading import base_name, commit, located
from medjudge.models.packaged import source_of
from medjudge.rubrics.render import prompt_hashes
from medjudge.train.adapters import quantization_of, seen_before
from medjudge.train.arguments import TrainingConfig
from medjudge.train.checkpoints import kept_step
from medjudge.train.checks import batch_size
from medjudge.train.features import TrainingData, question_ids
from medjudge.train.temperature import agreement_measures, calibrated

_MEASURES = ("eval_loss", "eval_quadratic_kappa", "eval_usable_agreement", "eval_score_mass")


def _measures(metrics: Mapping[str, float]) -> dict[str, float]:
    return {name: round(metrics[name], 6) for name in _MEASURES if name in metrics}


def _measured(trainer: Any) -> dict[str, Any]:
    """The losses of a finished run, the temperature fitted on the answers that chose the checkpoint, and its measures.

    `untuned` has the same measures before the first step; None where they were not taken.
    """
    history = trainer.state.log_history
    # A run that resumed after its best evaluation did not make that one.
    evaluation = trainer.evaluations.get(kept_step(trainer)) or trainer.predict(
        trainer.eval_dataset, metric_key_prefix="eval"
    )
    target, level = evaluation.label_ids
    calibration = calibrated(evaluation.predictions, target, level, trainer.levels_at)
    rows = trainer.levels_at(np.asarray(evaluation.predictions), calibration.temperature)
    agreement = agreement_measures(rows, level)
    return {
        "calibration": {
            name: round(value, 4) if isinstance(value, float) else value
            for name, value in calibration._asdict().items()
        },
        "validation": _measures(evaluation.metrics | {f"eval_{name}": value for name, value in agreement.items()}),
        "untuned": next((_measures(entry) for entry in history if entry["step"] == 0 and "eval_loss" in entry), None),
        "loss": [[entry["step"], round(entry["loss"], 6)] for entry in history if "loss" in entry],
    }


def trained_card(trainer: Any, config: TrainingConfig, data: TrainingData, start: JudgeCard | None) -> JudgeCard:
    """Measures a judge that was just trained on these lines, and describes it; every process calls it.

    `start` is the card of the judge that training continued from: the questions that it saw count as seen.
    """
    measured = _measured(trainer)
    judge, model, training = config
    assert model.model_name_or_path
    assert training.max_length
    # A rubric that the judge never saw may change.
    trained = {line.question.category for line in data.train}
    hashes = prompt_hashes(judge.style, data.scheme) if judge.kind == "generative" else {}
    files = [Path(file) for file in (judge.train_file, judge.validation_file)]
    trained_on = TrainedOn(
        files={file.name: file_sha256(file) for file in files},
        question_ids=sorted(question_ids(data.train)),
        tuned_question_ids=sorted(question_ids(data.validation)),
    )
    if start is not None and judge.start_folder is not None:
        trained_on = seen_before(judge.start_folder, trained_on, start.trained_on)
    revision = None if model.model_revision == "main" else model.model_revision
    weights = {"score_loss_weight": judge.score_loss_weight, "regression_weight": judge.regression_weight}
    return JudgeCard(
        kind=judge.kind,
        base_model=base_name(model.model_name_or_path),
        base_revision=revision or commit(model.model_name_or_path, model.model_revision),
        base_source=source_of(Path(located(model.model_name_or_path))),
        quantization=quantization_of(model),
        style=judge.style,
        scheme=data.scheme.ref,
        prompt_hashes={name: digest for name, digest in hashes.items() if name.split(".")[0] in trained},
        max_length=training.max_length,
        windows=judge.windows if judge.kind == "ordinal" else 1,
        only_languages=judge.only_languages,
        temperature=measured["calibration"]["temperature"],
        trained_on=trained_on,
        training={
            "started_from": judge.start_from,
            "objective": "ordinal" if judge.kind == "ordinal" else weights,
            "answers": len(data.train),
            "questions": len({line.question.id for line in data.train}),
            "languages": sorted({line.question.language for line in data.train}),
            "categories": sorted({line.question.category for line in data.train}),
            "sources": sorted({line.source for line in data.train}),
            "epochs": training.num_train_epochs,
            "learning_rate": training.learning_rate,
            "batch": batch_size(training),
            "processes": training.world_size,
            "zero_stage": None if training.deepspeed_plugin is None else training.deepspeed_plugin.zero_stage,
            "seed": training.seed,
            "bf16": training.bf16,
            "lora_r": model.lora_r,
            "lora_alpha": model.lora_alpha,
            **measured,
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        },
    )
