"""LoRA adapters for judges, from a config's `lora_*` fields."""

import json
from pathlib import Path

from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PreTrainedModel
from trl import ModelConfig

from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.judge.adapter import ADAPTER_CONFIG


def upper_lora(
    base: PreTrainedModel, options: ModelConfig, upper: int | None, task_type: str = "CAUSAL_LM"
) -> LoraConfig:
    """The configuration of an adapter on the last `upper` layers of a model, or on all.

    Raises:
        InputError: The model does not have so many layers.
    """
    config = lora_config(options, task_type)
    if upper is None:
        return config
    count = base.config.get_text_config().num_hidden_layers
    if not 1 <= upper <= count:
        raise InputError(f"config: upper_layers is {upper}, and the model has {count}; take 1 to {count}")
    if upper < count:
        config.exclude_modules = rf".*\.layers?\.({'|'.join(map(str, range(count - upper)))})\..*|.*pooler.*"
    return config


def lora_config(options: ModelConfig, task_type: str) -> LoraConfig:
    """The adapter's configuration; without `lora_target_modules` it sits on all linear layers.

    Args:
        options: TRL's model options.
        task_type: `CAUSAL_LM` or `FEATURE_EXTRACTION`.
    """
    return LoraConfig(
        task_type=task_type,
        r=options.lora_r,
        lora_alpha=options.lora_alpha,
        lora_dropout=options.lora_dropout,
        target_modules=options.lora_target_modules or "all-linear",
        # A pooler is loaded with an encoder but not run by the judge; an adapter on it would get no gradient.
        exclude_modules=r".*pooler.*" if task_type == "FEATURE_EXTRACTION" else None,
        use_rslora=options.use_rslora,
        use_dora=options.use_dora,
        bias="none",
    )


def add_lora(body: PreTrainedModel, options: ModelConfig, upper: int | None = None) -> PeftModel:
    """Puts a fresh adapter on a body, or on its last `upper` layers.

    Raises:
        InputError: The model has no layer that `lora_target_modules` names.
    """
    try:
        model = get_peft_model(body, upper_lora(body, options, upper, "FEATURE_EXTRACTION"))
    except ValueError as error:
        raise InputError(f"lora_target_modules: {' '.join(str(error).split())[:200]}") from None
    assert isinstance(model, PeftModel)
    return model


def write_base_name(folder: Path, base_model: str) -> None:
    """Names the base model in a saved adapter's `adapter_config.json`, where peft writes its path on this machine."""
    path = folder / ADAPTER_CONFIG
    if path.exists():  # a judge that was trained in full has none
        write_json(path, json.loads(path.read_text(encoding="utf-8")) | {"base_model_name_or_path": base_model})
