"""The logits of the labels in float32, where the model computes in 16 bits, also by autocast."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import PreTrainedModel

_IN_16_BITS = (torch.bfloat16, torch.float16)


@contextmanager
def exact_label_logits(model: PreTrainedModel, label_ids: Sequence[int]) -> Iterator[None]:
    """Has the output layer of a model give float32, and compute it for the labels.

    In bfloat16, logits from 8 to 16 are multiples of 1/16: two labels are then often equal, and rounding decides
    between them. Five rows of the output layer cost nothing.

    Args:
        label_ids: The tokens whose logits are computed in float32; those of the others are rounded as before.
    """
    head = model.get_output_embeddings()
    # Under ZeRO-3 a process holds no whole weight outside of a pass.
    if type(head) is not nn.Linear or not head.weight.numel():
        yield
        return
    ids = torch.tensor(label_ids, device=head.weight.device)
    weight, bias = head.weight[ids].float(), None if head.bias is None else head.bias[ids].float()

    def exact(module: nn.Module, inputs: tuple[torch.Tensor, ...], logits: torch.Tensor) -> torch.Tensor:
        if logits.dtype not in _IN_16_BITS:
            return logits
        logits = logits.float()
        with torch.autocast(logits.device.type, enabled=False):
            logits[..., ids] = functional.linear(inputs[0].float(), weight, bias)
        return logits

    hook: Any = head.register_forward_hook(exact)
    try:
        yield
    finally:
        hook.remove()
