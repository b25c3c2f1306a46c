"""The logits of the labels are in float32, whatever the model computes in."""

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from medjudge.judge.generative import exact_label_logits

LABELS = [5, 6, 7, 8, 9]


def model_in(dtype: torch.dtype) -> Qwen3ForCausalLM:
    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Qwen3Config(**shape, num_key_value_heads=2, head_dim=16, vocab_size=50, initializer_range=2.0)
    return Qwen3ForCausalLM(config).to(dtype).eval()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["of the model", "of autocast"])
def test_labels_are_not_rounded_to_16_bits(dtype) -> None:
    model, tokens = model_in(dtype), torch.arange(10, 20)[None]
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
        rounded = model(tokens).logits
        with exact_label_logits(model, LABELS):
            exact = model(tokens).logits
        hidden = model.model(tokens).last_hidden_state.float()
        again = model(tokens).logits
    expected = hidden @ model.lm_head.weight[LABELS].detach().float().T
    assert exact.dtype == torch.float32
    assert torch.allclose(exact[..., LABELS], expected, rtol=1e-5)
    others = [token for token in range(50) if token not in LABELS]
    assert torch.equal(exact[..., others], rounded[..., others].float())
    assert (exact[..., LABELS] - rounded[..., LABELS].float()).abs().max() > 1e-2
    assert torch.equal(again, rounded)  # the model is as it was


def test_a_weight_that_is_shared_out_over_processes_is_left_alone() -> None:
    model = model_in(torch.bfloat16)
    model.lm_head.weight.data = torch.empty(0, dtype=torch.bfloat16)  # as DeepSpeed leaves it between passes
    with exact_label_logits(model, LABELS):
        assert model.lm_head._forward_hooks == {}
