"""Trains an `ordinal` judge: LoRA on the body, a cumulative-link head on top."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import get_peft_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from transformers import EvalPrediction, PreTrainedTokenizerBase
from trl import ModelConfig

from medjudge.judge.adapter import damage_explained, load_adapter
from medjudge.judge.ordinal import VERDICTS, OrdinalModel
from medjudge.judge.ordinal_input import ANSWER, TEXTS, Batch, Passes, collate
from medjudge.judge.similarity import fit_cut_points
from medjudge.models.hardware import fast_autocast
from medjudge.models.loading import load_encoder
from medjudge.train.adapters import lora_config, lora_refusal
from medjudge.train.arguments import TrainingConfig
from medjudge.train.features import TrainingData, TrainingRows, encoded_row, ordinal_dataset
from medjudge.train.judge_trainer import JudgeTrainer, cumulative_loss, verdict_loss
from medjudge.train.temperature import agreement_measures, ordinal_levels

_ON_CPU, _ON_GPU = Passes(2048, 128), Passes(65_536, 8192)
"""On a CPU many passes within a step, so that short texts are not padded to the length of long ones; on a GPU few."""
_START_ANSWERS = 256
_WIDEST_LEVEL = 10.0
"""Logits between two cut points at the start; a level as wide takes all but 1 in 75 of what is at its middle."""


def _new_model(options: ModelConfig, start_from: Path | None, upper: int | None) -> OrdinalModel:
    """A body and a head, ready to train: fresh ones, or those of the ordinal judge `start_from`."""
    assert options.model_name_or_path
    # On a CPU the backward pass of torch 2.13's fused attention is slower than the plain one on texts this short.
    attention = options.attn_implementation or (None if torch.cuda.is_available() else "eager")
    body = load_encoder(options.model_name_or_path, options.model_revision, attn_implementation=attention)
    without_dropout(body)
    width = body.config.get_text_config().hidden_size
    if start_from is None:
        try:
            adapted: Any = get_peft_model(body, lora_config(body, options, upper, "FEATURE_EXTRACTION"))
        except ValueError as error:
            raise lora_refusal(error) from None
        model = OrdinalModel(adapted, width)
    else:
        with damage_explained(f"start_from {start_from}"):
            model = OrdinalModel(load_adapter(body, start_from, trainable=True), width)
            model.load_head(start_from)
    for module in model.body.modules():
        # Autocast alone chooses the adapter's dtype. peft would turn each of its inputs to float32 before autocast
        # turns it back: the same numbers, an eighth of the time of a training step on a CPU.
        if isinstance(module, LoraLayer):
            module.cast_input_dtype_enabled = False
    return model


def without_dropout(body: nn.Module) -> None:
    """Turns dropout off: on a CPU it costs more than the matrix products, and LoRA regularises by its rank."""
    for module in body.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(getattr(module, "dropout_prob", None), float):
            module.dropout_prob = 0.0  # type: ignore[assignment]


def start_from_similarity(model: OrdinalModel, dataset: Any, pad_id: int, seed: int, device: torch.device) -> None:
    """Fits slopes and cut points on the untrained embeddings of up to 256 answers, so that training starts there."""
    drawn = np.random.default_rng(seed).permutation(len(dataset))[:_START_ANSWERS]
    rows = [dataset[int(index)] for index in drawn]
    batch = collate([encoded_row(row) for row in rows], [len(row["verdicts"]) for row in rows], pad_id, _ON_CPU)
    buckets = [{name: value.to(device) for name, value in each.items()} for each in batch.buckets]
    model.to(device)
    with torch.inference_mode(), fast_autocast(device):
        sums = model.sums(buckets, len(rows), len(batch.row))
    vectors = functional.normalize(sums.texts.cpu(), dim=1).view(len(rows), TEXTS, -1)
    cosines = (vectors[:, :ANSWER] * vectors[:, ANSWER : ANSWER + 1]).sum(dim=-1) * batch.present
    levels = np.array([row["level"] for row in rows])
    baseline = fit_cut_points((cosines.sum(dim=1) / batch.present.sum(dim=1)).numpy(), levels)
    # Around a level that no answer has, cut points drift away without end: exp(steps) would overflow.
    steps = np.minimum(np.diff(baseline.cuts), _WIDEST_LEVEL)
    cuts = (baseline.cuts[0], *(baseline.cuts[0] + np.cumsum(steps)).tolist())
    model.start_from(baseline._replace(cuts=cuts), batch.present.mean(dim=0))


class OrdinalTrainer(JudgeTrainer):
    """The Trainer with an ordinal loss, and checkpoints that hold only what is trained."""

    points_weight = 1.0
    levels_at = staticmethod(ordinal_levels)

    def save_judge(self, folder: Path) -> None:
        """Writes the head and the adapter; the judge reads with the base model's tokenizer."""
        if self.accelerator.is_main_process:
            model = self.accelerator.unwrap_model(self.model)
            folder.mkdir(parents=True, exist_ok=True)
            model.body.save_pretrained(folder)
            (folder / "README.md").unlink(missing_ok=True)  # peft's template; the judge card takes its place
            model.save_head(folder)

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        cumulative, verdicts = model(**{name: inputs[name] for name in Batch._fields})
        loss = cumulative_loss(cumulative, inputs["labels"], inputs["weight"])
        loss = loss + self.points_weight * verdict_loss(verdicts, inputs["verdicts"], inputs["row"], inputs["weight"])
        loss = self.of_step(loss, inputs["weight"], num_items_in_batch)
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


def ordinal_rows(config: TrainingConfig, tokenizer: PreTrainedTokenizerBase, data: TrainingData) -> TrainingRows:
    """Encodes all lines, cut to what the judge's windows hold."""
    length, windows = config.training.max_length, config.judge.windows
    assert length
    train, validation = [ordinal_dataset(lines, tokenizer, length, windows) for lines in (data.train, data.validation)]
    return TrainingRows(train, validation, data)


def ordinal_trainer(config: TrainingConfig, tokenizer: PreTrainedTokenizerBase, rows: TrainingRows) -> OrdinalTrainer:
    """A trainer of a base model with a fresh adapter and head, or with those of the judge `start_from`.

    A fresh head starts as the similarity baseline.

    Raises:
        InputError: The base model cannot be loaded, or has no layer that `lora_target_modules` names; or the files of
            `start_from` are corrupt or do not fit.
    """
    judge, model, training = config
    start_from = judge.start_folder
    body_and_head = _new_model(model, start_from, judge.upper_layers)
    # The columns are ours, not arguments of the model's forward.
    training.remove_unused_columns = False
    training.label_names = ["labels", "level"]
    # The Trainer would multiply gradients to account for token counts; this loss is a mean over answers.
    training.average_tokens_across_devices = False
    if training.gradient_checkpointing:
        # The body has it; the Trainer would look for it on the head around it.
        body_and_head.body.gradient_checkpointing_enable(training.gradient_checkpointing_kwargs)  # type: ignore[operator]
        training.gradient_checkpointing = training.activation_checkpointing = False
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    if start_from is None:
        start_from_similarity(body_and_head, rows.train, pad_id, training.seed, training.device)

    passes = _ON_CPU if training.device.type == "cpu" else _ON_GPU

    def batch(lines: list[dict[str, Any]]) -> dict[str, Any]:
        points = [len(line["verdicts"]) for line in lines]
        texts = collate([encoded_row(line) for line in lines], points, pad_id, passes)
        # labels first: the Trainer takes the size of a batch from the first tensor that it meets.
        return {
            "labels": torch.tensor([line["labels"] for line in lines], dtype=torch.float32),
            "level": torch.tensor([line["level"] for line in lines]),
            "weight": torch.tensor([line["weight"] for line in lines], dtype=torch.float32),
            "verdicts": torch.tensor([each for line in lines for each in line["verdicts"]]).view(-1, len(VERDICTS)),
            **texts._asdict(),
        }

    trainer = OrdinalTrainer(
        model=body_and_head,
        args=training,
        data_collator=batch,
        train_dataset=rows.train,
        eval_dataset=rows.validation,
        compute_metrics=validation_metrics,
    )
    trainer.model_accepts_loss_kwargs = False
    trainer.points_weight = judge.points_weight
    return trainer


def validation_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """`agreement_measures` of predictions whose labels are soft labels and levels."""
    _, level = prediction.label_ids
    return agreement_measures(ordinal_levels(np.asarray(prediction.predictions), 1.0), level)
