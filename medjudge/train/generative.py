"""Trains a `generative` judge with TRL's SFT trainer."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase
from trl import ModelConfig, SFTConfig, SFTTrainer
from trl.trainer.utils import get_quantization_config

from medjudge.base_models import load_causal_lm
from medjudge.errors import InputError
from medjudge.train.lora import lora_config


def generative_trainer(
    options: ModelConfig, tokenizer: PreTrainedTokenizerBase, arguments: SFTConfig, train: Any, validation: Any
) -> SFTTrainer:
    """A trainer over datasets from `generative_dataset`; with `load_in_4bit` the base is quantised (QLoRA).

    Raises:
        InputError: The base model cannot be had, or has no layer that `lora_target_modules` names.
    """
    assert options.model_name_or_path
    quantization = get_quantization_config(options)
    extra = {} if quantization is None else {"quantization_config": quantization}
    if quantization is not None and find_spec("bitsandbytes") is None:
        raise InputError("config: load_in_4bit needs bitsandbytes; pip install 'medjudge[gpu]', or train without it")
    model = load_causal_lm(
        options.model_name_or_path,
        options.model_revision,
        dtype=options.dtype or "auto",
        attn_implementation=options.attn_implementation,
        **extra,
    )
    try:
        return SFTTrainer(
            model=model,
            args=arguments,
            train_dataset=train,
            eval_dataset=validation,
            processing_class=tokenizer,
            peft_config=lora_config(options, "CAUSAL_LM"),
        )
    except ValueError as error:
        if "arget modules" not in str(error):
            raise
        raise InputError(f"lora_target_modules: {' '.join(str(error).split())[:200]}") from None


def save_generative(trainer: SFTTrainer, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Writes adapter and tokenizer; the card comes last, by the recipe."""
    trainer.save_model(str(folder))
    if trainer.accelerator.is_main_process:
        for name in ("README.md", "training_args.bin"):
            (folder / name).unlink(missing_ok=True)
        tokenizer.save_pretrained(folder)
