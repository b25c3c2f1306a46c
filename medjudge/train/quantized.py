"""Training on a quantised base model (QLoRA, arXiv 2305.14314)."""

from transformers import PreTrainedModel
from trl import ModelConfig

from medjudge.errors import InputError
from medjudge.models.quantization import Quantization

_DTYPES = ("bfloat16", "float16", "float32")


def quantization_of(options: ModelConfig) -> Quantization | None:
    """How the options quantise the base model; the judge's card keeps it. None where they do not.

    Raises:
        InputError: No format for the activations is named.
    """
    if not options.load_in_4bit and not options.load_in_8bit:
        return None
    if options.dtype not in _DTYPES:
        raise InputError(f"config: dtype is {options.dtype}, and load_in_4bit needs {' or '.join(_DTYPES)}")
    if options.load_in_8bit:
        return Quantization(bits=8, dtype=options.dtype)
    nested = bool(options.use_bnb_nested_quant)
    return Quantization(bits=4, type=options.bnb_4bit_quant_type, nested=nested, dtype=options.dtype)


def set_quantization(options: ModelConfig, quantization: Quantization) -> None:
    """Quantises the base model as that of the judge to continue from: its adapter corrects what quantising changed."""
    options.load_in_4bit, options.load_in_8bit = quantization.bits == 4, quantization.bits == 8
    options.use_bnb_nested_quant, options.dtype = quantization.nested, quantization.dtype
    if quantization.type is not None:
        options.bnb_4bit_quant_type = quantization.type


def keep_differentiable(model: PreTrainedModel) -> None:
    """Keeps bitsandbytes from packing 4-bit weights for inference on a CPU, as it does in the first evaluation.

    No gradient goes through packed weights: training would continue, with wrong gradients in all layers but the last.
    """
    from bitsandbytes.nn.modules import Linear4bit

    for module in model.modules():
        if isinstance(module, Linear4bit):
            module.support_avx512bf16_for_cpu = False
