"""Judge folders of tiny models, built without training."""

from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model

from medjudge.judge.folder import JudgeCard
from medjudge.judge.ordinal import OrdinalModel
from medjudge.judge.similarity import CutPoints
from medjudge.models.loading import load_encoder


def build_ordinal_judge(folder: Path, base: Path) -> Path:
    """An ordinal judge with a LoRA adapter that changes nothing; its scores come from cosines."""
    body = load_encoder(str(base))
    config = LoraConfig(task_type="FEATURE_EXTRACTION", r=2, target_modules=["query", "value"])
    model = OrdinalModel(get_peft_model(body, config), body.config.hidden_size)
    model.start_from(CutPoints(4.0, (-6.0, -5.0, -4.0, -3.0)), torch.tensor([1.0, 1.0, 0.0]))
    model.body.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    model.save_head(folder)
    JudgeCard(kind="ordinal", base_model=str(base), max_length=128).write(folder)
    return folder
