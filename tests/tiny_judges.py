"""Judge folders of tiny models, built without training."""

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

from medjudge.judge.folder import JudgeCard
from medjudge.judge.ordinal import OrdinalModel
from medjudge.judge.similarity import CutPoints
from medjudge.models.loading import load_causal_lm, load_encoder, load_tokenizer
from medjudge.rubrics.render import prompt_hashes


def build_ordinal_judge(folder: Path, base: Path) -> Path:
    """An ordinal judge with a LoRA adapter that changes nothing; its scores come from cosines."""
    body = load_encoder(str(base))
    config = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["query", "value"])
    model = OrdinalModel(get_peft_model(body, config), body.config.hidden_size)
    model.start_from(CutPoints(4.0, (-6.0, -5.0, -4.0, -3.0)), torch.tensor([1.0, 1.0, 0.0]))
    model.body.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    load_tokenizer(str(base)).save_pretrained(folder)
    model.save_head(folder)
    JudgeCard(kind="ordinal", base_model=str(base), max_length=128).write(folder)
    return folder


def build_generative_judge(folder: Path, base: Path, spread: float = 0.05, **fields: object) -> Path:
    """A generative judge with a LoRA adapter that changes what the base says, by random numbers.

    Args:
        spread: The standard deviation of these numbers.
        fields: Fields of its card, and `use_dora` of its adapter.
    """
    torch.manual_seed(0)
    config = LoraConfig(
        task_type="CAUSAL_LM", r=4, target_modules="all-linear", use_dora=bool(fields.pop("use_dora", False))
    )
    model = get_peft_model(load_causal_lm(str(base)), config)
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=spread)
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    load_tokenizer(str(base)).save_pretrained(folder)
    values = {"max_length": 4096, "prompt_hashes": prompt_hashes("score-first"), **fields}
    JudgeCard.model_validate({"kind": "generative", "base_model": str(base), **values}).write(folder)
    return folder
