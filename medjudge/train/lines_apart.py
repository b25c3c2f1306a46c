"""Whether the lines of a pack see each other, tried out on the model: it depends on the model and its attention."""

import torch
from peft import PeftModel
from transformers import PreTrainedModel
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

from medjudge.errors import InputError
from medjudge.judge.prompt_packs import takes_tree_attention


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
    was_training = base.training
    apart = not getattr(base.config, "attention_dropout", 0) and takes_tree_attention(base)
    base.train(was_training)
    if not apart:
        raise InputError(
            f"config: share_prefixes would let lines see each other in {type(base).__name__}; train without it"
        )
