"""Whether the lines of a pack see each other, tried out on the model: it depends on the model and its attention."""

from typing import Any

import torch
from peft import PeftModel
from transformers import PreTrainedModel
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from medjudge.errors import InputError
from medjudge.judge.shared_prefixes import can_share
from medjudge.models.tree_attention import TREE_ATTENTION, path_ends, tree_mask


def require_lines_apart(model: PreTrainedModel) -> None:
    """Raises InputError where what one packed line says depends on the line before it.

    Whether positions that begin again keep lines apart is up to the model and its attention: with transformers' masks
    (eager, sdpa, flex) and flash attention they do, in a state-space model they do not. So it is tried out.
    """
    if is_deepspeed_zero3_enabled():
        raise InputError("config: packing cannot be tried out under ZeRO-3; train without packing, or with zero2.yaml")
    was_training, length = model.training, 8
    model.eval()
    positions = torch.arange(length, device=model.device).repeat(2)[None]
    after = []
    for first in (10, 30):
        tokens = [*range(first, first + length), *range(50, 50 + length)]
        with torch.inference_mode():
            logits = model(torch.tensor([tokens], device=model.device), position_ids=positions, use_cache=False).logits
        after.append(logits[0, length:].float())
    model.train(was_training)
    first_time, second_time = after
    if not torch.allclose(first_time, second_time, rtol=1e-3, atol=1e-3):
        raise InputError(
            f"config: packing would let lines see each other in {type(model).__name__} with attention "
            f"{model.config._attn_implementation}; train without packing"
        )


def require_branches_apart(model: PreTrainedModel | PeftModel) -> None:
    """Gives a model `TREE_ATTENTION`; raises InputError where it reads a line of a tree otherwise than the line alone.

    That is tried out: models with windows, states or positions of their own do not heed the tree.
    """
    if is_deepspeed_zero3_enabled():
        raise InputError(
            "config: share_prefixes cannot be tried out under ZeRO-3; train without it, or with zero2.yaml"
        )
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    was_training, length = base.training, 8
    first, other, line = [list(range(start, start + length)) for start in (10, 30, 50)]
    alone = _last_logits(base, torch.tensor([[*first, *line]]), length)
    apart = can_share(base) and not getattr(base.config, "attention_dropout", 0)
    if apart:
        base.set_attn_implementation(TREE_ATTENTION)
        ends = path_ends([2 * length, 2 * length], [0, length]).to(base.device)
        positions = torch.tensor([[*range(2 * length), *range(length, 2 * length)]], device=base.device)
        tree = torch.tensor([[*first, *other, *line]])
        found = _last_logits(base, tree, length, position_ids=positions, attention_mask=tree_mask(ends))
        # In 16 bits, two ways to compute the same differ by a few per cent.
        apart = bool((found - alone).norm() < 0.1 * alone.norm())
    base.train(was_training)
    if not apart:
        raise InputError(
            f"config: share_prefixes would let lines see each other in {type(base).__name__}; train without it"
        )


def _last_logits(model: Any, tokens: torch.Tensor, last: int, **options: Any) -> torch.Tensor:
    """The logits at the last tokens of one sequence, (last, vocabulary)."""
    model.eval()
    with torch.inference_mode():
        logits: torch.Tensor = model(tokens.to(model.device), use_cache=False, **options).logits
    return logits[0, -last:].float()
