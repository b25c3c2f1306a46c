"""Training that continues from a judge folder: what the new judge takes over from it."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from peft import PeftModel
from safetensors import SafetensorError
from torch import nn
from trl import ModelConfig

from medjudge.errors import InputError
from medjudge.files import read_text
from medjudge.judge.adapter import ADAPTER_CONFIG, load_adapter
from medjudge.judge.folder import JudgeCard, TrainedOn, read_card
from medjudge.models.loading import base_name
from medjudge.train.quantized import set_quantization

_LORA_FIELDS = {
    "lora_r": "r",
    "lora_alpha": "lora_alpha",
    "use_rslora": "use_rslora",
    "use_dora": "use_dora",
}


def starting_card(folder: Path, kind: str, options: ModelConfig) -> JudgeCard:
    """Reads the card of the judge to continue from, and sets its base model, quantised or not, and its adapter's shape.

    Args:
        folder: The judge folder.
        kind: Of the judge to train.
        options: TRL's model options; base model, revision, quantisation and LoRA shape are set to the folder's.

    Raises:
        InputError: It is no judge folder, or one of another kind or base model, or `adapter_config.json` is corrupt.
    """
    card = read_card(folder)
    if card.kind != kind:
        raise InputError(f"start_from {folder}: a judge of kind {card.kind}, and kind is {kind}; change one of them")
    if options.model_name_or_path and base_name(options.model_name_or_path) != card.base_model:
        raise InputError(
            f"start_from {folder}: its base model is {card.base_model}, and model_name_or_path is "
            f"{options.model_name_or_path}; leave model_name_or_path out, or start from another judge"
        )
    options.model_name_or_path = card.base_model
    options.model_revision = card.base_revision or "main"
    if card.quantization is not None:
        set_quantization(options, card.quantization)
    adapter = folder / ADAPTER_CONFIG
    if not adapter.is_file():
        raise InputError(
            f"start_from {folder}: was trained in full, and only an adapter can be trained further; start from another"
        )
    with damage_explained(folder):
        shape = json.loads(read_text(adapter))
        for field, name in _LORA_FIELDS.items():
            setattr(options, field, shape[name])
    return card


def adapter_to_train(model: nn.Module, folder: Path) -> PeftModel:
    """Puts the adapter of a judge folder onto its base model, to be trained on.

    Raises:
        InputError: Its files are corrupt or do not fit the base model.
    """
    with damage_explained(folder):
        return load_adapter(model, folder, trainable=True)


@contextmanager
def damage_explained(folder: Path) -> Iterator[None]:
    """Turns what damaged files of a judge folder raise into an InputError."""
    try:
        yield
    except (SafetensorError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        if isinstance(error, torch.cuda.OutOfMemoryError):
            raise
        reason = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())[:200]
        raise InputError(
            f"start_from {folder}: its files are corrupt or do not fit its base model ({reason}); "
            "restore them or train the judge again"
        ) from None


def seen_before(folder: Path, trained_on: TrainedOn, before: TrainedOn) -> TrainedOn:
    """What a judge that continued from another one has seen: the lines of both.

    A file keeps its name; where two files of one name differ, the earlier judge's gets its folder's name in front.
    """
    earlier = {
        name if trained_on.files.get(name, digest) == digest else f"{folder.resolve().name}/{name}": digest
        for name, digest in before.files.items()
    }
    return TrainedOn(
        files={**trained_on.files, **earlier},
        question_ids=sorted({*trained_on.question_ids, *before.question_ids}),
        tuned_question_ids=sorted({*trained_on.tuned_question_ids, *before.tuned_question_ids}),
    )
