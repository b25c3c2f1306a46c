"""Training steps of an adapter without the float32 copies that peft makes of each layer's input."""

from typing import Any

import torch
from peft.helpers import disable_input_dtype_casting
from peft.tuners.lora import LoraLayer
from torch import nn
from transformers import Trainer


class LeanSteps(Trainer):
    """A Trainer that leaves the casts between base and adapter to autocast.

    peft casts the input of each layer to the adapter's float32, and autocast casts it back: two copies of it for each
    projection, 300 MB a layer of Qwen3-1.7B at 4,096 tokens, where one input could serve query, key and value.
    """

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:
        # The whole step: with gradient checkpointing, the backward pass runs the layers again.
        with disable_input_dtype_casting(self.model, self.accelerator.native_amp and plain_lora(self.model)):
            return super().training_step(*arguments, **options)


def plain_lora(model: nn.Module) -> bool:
    """Whether all adapters are plain LoRA; DoRA computes norms in the dtype of its input."""
    return not any(isinstance(module, LoraLayer) and module.lora_variant for module in model.modules())
