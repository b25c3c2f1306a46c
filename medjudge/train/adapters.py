"""Adapters of judges, fresh from a config's `lora_*` fields or from a judge folder, and quantised bases (QLoRA)."""

from pathlib import Path

from peft import LoraConfig
from transformers import PreTrainedModel
from trl import ModelConfig

from medjudge.errors import InputError
from medjudge.files import read_json, write_json
from medjudge.judge.adapter import ADAPTER_CONFIG
from medjudge.judge.folder import JudgeCard, TrainedOn, read_card
from medjudge.models.loading import base_name
from medjudge.models.quantization import Quantization

_DTYPES = ("bfloat16", "float16", "float32")


def quantization_of(options: ModelConfig) -> Quantization | None:
    """The quantisation of the base model by the options, as the judge's card keeps it; None where there is none.

    Raises:
        InputError: No format for the activations is named.
    """
    if not options.load_in_4bit:
        return None
    if options.dtype not in _DTYPES:
        raise InputError(f"config: dtype is {options.dtype}, and load_in_4bit needs {' or '.join(_DTYPES)}")
    nested = bool(options.use_bnb_nested_quant)
    return Quantization(bits=4, type=options.bnb_4bit_quant_type, nested=nested, dtype=options.dtype)


def keep_differentiable(model: PreTrainedModel) -> None:
    """Keeps bitsandbytes from packing 4-bit weights for inference on a CPU, as it does in the first evaluation.

    No gradient goes through packed weights: training would continue, with wrong gradients in all layers but the last.
    """
    from bitsandbytes.nn.modules import Linear4bit

    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False


def lora_config(
    base: PreTrainedModel, options: ModelConfig, upper: int | None, task_type: str = "CAUSAL_LM"
) -> LoraConfig:
    """The configuration of an adapter on the last `upper` layers of a model, or on all.

    Raises:
        InputError: The model does not have so many layers.
    """
    config = LoraConfig(
        task_type=task_type,
        r=options.lora_r,
        lora_alpha=options.lora_alpha,
        lora_dropout=options.lora_dropout,
        target_modules=options.lora_target_modules or "all-linear",
        # A pooler is loaded with an encoder but not run by the judge; an adapter on it would get no gradient.
        exclude_modules=r".*pooler.*" if any("pooler" in name for name, _ in base.named_modules()) else None,
        use_rslora=options.use_rslora,
        use_dora=options.use_dora,
        bias="none",
    )
    if upper is None:
        return config
    count = base.config.get_text_config().num_hidden_layers
    if not 1 <= upper <= count:
        raise InputError(f"config: upper_layers is {upper}, and the model has {count}; take 1 to {count}")
    if upper < count:
        config.exclude_modules = rf".*\.layers?\.({'|'.join(map(str, range(count - upper)))})\..*|.*pooler.*"
    return config


def lora_refusal(error: ValueError) -> Exception:
    """An InputError where peft refused the layers for LoRA; the error itself where it is about something else."""
    if "arget modules" not in str(error) and "target_modules" not in str(error):
        return error
    return InputError(f"lora_target_modules: {' '.join(str(error).split())[:200]}")


def write_base_name(folder: Path, base_model: str) -> None:
    """Names the base model in a saved adapter's `adapter_config.json`, where peft writes its path on this machine."""
    path = folder / ADAPTER_CONFIG
    write_json(path, read_json(path) | {"base_model_name_or_path": base_model})


def starting_card(folder: Path, kind: str, options: ModelConfig) -> JudgeCard:
    """Reads the card of the judge to continue from; sets base model, quantisation and adapter shape to the judge's.

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
    if (quantization := card.quantization) is not None:  # the adapter corrects what quantising changed
        options.load_in_4bit, options.use_bnb_nested_quant = True, quantization.nested
        options.dtype = quantization.dtype
        options.bnb_4bit_quant_type = quantization.type or options.bnb_4bit_quant_type
    shape = read_json(folder / ADAPTER_CONFIG)  # which `read_card` checked
    options.lora_r, options.lora_alpha = shape["r"], shape["lora_alpha"]
    options.use_rslora, options.use_dora = shape.get("use_rslora", False), shape.get("use_dora", False)
    return card


def seen_before(folder: Path, trained_on: TrainedOn, before: TrainedOn) -> TrainedOn:
    """The training data of a judge that continued from another one: the lines of both.

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
