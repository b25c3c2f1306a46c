"""A judge on a quantised base: it is run as it was trained and calibrated."""

import numpy as np
import pytest
import torch
from recipe_runs import score_logits
from safetensors.torch import load_file
from scipy.special import log_softmax
from tiny_models import build_generative_judge
from trl import ModelConfig

from medjudge.errors import InputError
from medjudge.judge.folder import folder_identity, load_judge, read_card
from medjudge.judge.generative import GenerativeJudge
from medjudge.models.quantization import Quantization
from medjudge.models.tree_attention import TREE_ATTENTION
from medjudge.train.adapters import quantization_of, starting_card
from medjudge.train.checkpoints import kept_step
from medjudge.train.features import read_training_lines

CPU = torch.device("cpu")


@pytest.mark.slow
@pytest.mark.filterwarnings("error:.*an autograd kernel was not registered")
def test_qlora_judge_runs_as_it_was_validated(trained, training_files, trainers) -> None:
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed; pip install 'medjudge[gpu]'")
    options = {"load_in_4bit": True, "use_bnb_nested_quant": True, "dtype": "bfloat16", "gradient_checkpointing": True}
    folder = trained("generative", **options, packing=True, max_steps=8)
    (trainer,) = trainers
    trained = trainer.model
    quantised = {type(module.base_layer).__name__ for module in trained.modules() if hasattr(module, "base_layer")}
    assert quantised == {"Linear4bit"}
    weight = trained.base_model.model.model.layers[0].self_attn.q_proj.base_layer.weight
    assert (weight.quant_type, weight.dtype) == ("nf4", torch.uint8)
    # Evaluated in between, and yet not packed for inference: no gradient goes through packed weights.
    assert not getattr(weight.quant_state, "packing_format_for_cpu", False)
    assert all(np.abs(value).max() > 0 for value in load_file(folder / "adapter_model.safetensors").values())
    card = read_card(folder)
    losses = [loss for _, loss in card.training["loss"]]
    assert losses[-1] < losses[0]
    assert card.quantization == Quantization(bits=4, type="nf4", nested=True, dtype="bfloat16")
    assert "LoRA on a base quantised to NF4, nested" in (folder / "README.md").read_text()
    judge = load_judge(folder, "tiny", CPU)
    assert isinstance(judge, GenerativeJudge)
    projection = judge.model.model.layers[0].self_attn.q_proj  # not merged
    assert type(projection.base_layer).__name__ == "Linear4bit"
    assert projection.lora_A["default"].weight.dtype == torch.bfloat16
    assert judge.model.config._attn_implementation == TREE_ATTENTION
    lines = read_training_lines(training_files[1])
    # The judge is the best of the steps that were read, which need not be the last.
    in_training = log_softmax(trainer.evaluations[kept_step(trainer)].predictions, axis=1)
    read = [log_softmax(score_logits(judge.model, judge.tokenizer, lines, 2048), axis=1)]
    card.model_copy(update={"quantization": None}).write(folder)
    assert folder_identity(folder, read_card(folder)) != folder_identity(folder, card)
    other = load_judge(folder, "tiny", CPU)
    read.append(log_softmax(score_logits(other.model, other.tokenizer, lines, 2048), axis=1))
    assert read[0] == pytest.approx(in_training, abs=0.05)
    assert np.abs(read[1] - in_training).max() > 0.05

    # A judge that continues from it has the same base, whatever the config says.
    card.write(folder)
    start = ModelConfig()
    starting_card(folder, "generative", start)
    assert quantization_of(start) == card.quantization


def test_a_quantised_judge_is_refused_without_bitsandbytes(tiny_lm, tmp_path, monkeypatch) -> None:
    folder = build_generative_judge(tmp_path / "judge", tiny_lm, quantization={"bits": 4, "type": "nf4"})
    monkeypatch.setattr("medjudge.models.quantization.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"its base model is quantised \(NF4\), which needs bitsandbytes; pip install"):
        load_judge(folder, "tiny", CPU)
