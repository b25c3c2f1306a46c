"""Trains an `ordinal` judge: LoRA on the body, a cumulative-link head on top."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from sklearn.metrics import cohen_kappa_score
from torch import nn
from transformers import EvalPrediction, PreTrainedTokenizerBase, Trainer, TrainingArguments
from trl import ModelConfig

from medjudge.base_models import load_encoder
from medjudge.judge.batching import padded
from medjudge.judge.ordinal import OrdinalModel, probabilities
from medjudge.judge.protocol import median_level
from medjudge.records import USABLE_FROM
from medjudge.train.lora import add_lora
from medjudge.train.losses import cumulative_loss


def new_ordinal_model(options: ModelConfig) -> OrdinalModel:
    """A body with a fresh LoRA adapter and a fresh head.

    Raises:
        InputError: The base model cannot be had, or has no layer that `lora_target_modules` names.
    """
    assert options.model_name_or_path
    body = load_encoder(options.model_name_or_path, options.model_revision)
    without_dropout(body)
    return OrdinalModel(add_lora(body, options), body.config.get_text_config().hidden_size)


def without_dropout(body: nn.Module) -> None:
    """Turns dropout off: on a CPU it costs more than the matrix products, and LoRA regularises by its rank."""
    for module in body.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout_prob", None), float):
            module.dropout_prob = 0.0  # type: ignore[assignment]


class OrdinalTrainer(Trainer):
    """The Trainer with the ordinal loss, and checkpoints that hold only what is trained."""

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, torch.Tensor], return_outputs: bool = False, **_: Any
    ) -> Any:
        labels, weight = inputs["labels"], inputs["weight"]
        cumulative = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        loss = cumulative_loss(cumulative, labels, weight)
        return (loss, {"logits": cumulative}) if return_outputs else loss

    def _save(self, output_dir: str | None = None, state_dict: dict[str, Any] | None = None) -> None:
        folder = Path(output_dir or self.args.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        model = self.accelerator.unwrap_model(self.model)
        trained = {name: value.detach().contiguous() for name, value in model.named_parameters() if value.requires_grad}
        save_file(trained, folder / "model.safetensors")

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        trained = {name for name, value in self.model.named_parameters() if value.requires_grad}
        if load_result.unexpected_keys or trained & set(load_result.missing_keys):
            raise ValueError("the checkpoint belongs to a judge of another shape; start without --resume")


def ordinal_trainer(
    model: OrdinalModel, tokenizer: PreTrainedTokenizerBase, arguments: TrainingArguments, train: Any, validation: Any
) -> OrdinalTrainer:
    """A trainer over datasets from `ordinal_dataset`."""
    # The columns are ours, not arguments of the model's forward.
    arguments.remove_unused_columns = False
    arguments.label_names = ["labels"]
    # The Trainer would multiply gradients to account for token counts; this loss is a mean over answers.
    arguments.average_tokens_across_devices = False
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0

    def collate(rows: list[dict[str, Any]]) -> dict[str, torch.Tensor]:
        ids, mask = padded([row["input_ids"] for row in rows], pad_id)
        labels = torch.tensor([row["labels"] for row in rows], dtype=torch.float32)
        weight = torch.tensor([row["weight"] for row in rows], dtype=torch.float32)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels, "weight": weight}

    trainer = OrdinalTrainer(
        model=model,
        args=arguments,
        data_collator=collate,
        train_dataset=train,
        eval_dataset=validation,
        compute_metrics=validation_metrics,
    )
    trainer.model_accepts_loss_kwargs = False
    return trainer


def validation_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """Quadratic kappa and agreement at usable of the median level with the hardest label."""
    rows = probabilities(torch.tensor(prediction.predictions)).numpy()
    judge = np.array([median_level(row) for row in rows])
    expert = np.array([median_level(row) for row in np.asarray(prediction.label_ids)])
    kappa = cohen_kappa_score(judge, expert, weights="quadratic", labels=[1, 2, 3, 4, 5])
    usable = float(np.mean((judge >= USABLE_FROM) == (expert >= USABLE_FROM)))
    # One level throughout has no kappa; 0, as by chance, keeps such a checkpoint from winning.
    return {"quadratic_kappa": 0.0 if np.isnan(kappa) else float(kappa), "usable_agreement": usable}


def save_ordinal(model: OrdinalModel, tokenizer: PreTrainedTokenizerBase, folder: Path) -> None:
    """Writes adapter, head and tokenizer; the card comes last, by the recipe."""
    folder.mkdir(parents=True, exist_ok=True)
    model.body.save_pretrained(folder)  # type: ignore[operator]
    (folder / "README.md").unlink(missing_ok=True)  # peft's template; the judge card takes its place
    model.save_head(folder)
    tokenizer.save_pretrained(folder)
    assert os.path.isfile(folder / "adapter_model.safetensors")
