"""Trains a `generative` judge: TRL's SFT trainer with a loss on the words, the five levels and the expected level."""

from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from peft import PeftModel
from peft.helpers import disable_input_dtype_casting
from peft.tuners.lora import LoraLayer
from transformers import EvalPrediction, PreTrainedModel, PreTrainedTokenizerBase
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.trainer_utils import EvalLoopOutput
from trl import ModelConfig, SFTTrainer
from trl.trainer.utils import get_quantization_config

from medjudge.errors import InputError, notify
from medjudge.judge.adapter import damage_explained, load_adapter
from medjudge.judge.generative import LABELS, exact_label_logits
from medjudge.judge.prompts import label_ids
from medjudge.models.chat import with_chat_template
from medjudge.models.loading import load_causal_lm
from medjudge.models.quantization import require_bitsandbytes
from medjudge.models.tree_attention import path_ends, tree_mask
from medjudge.rubrics.render import prompt_hashes
from medjudge.train.adapters import keep_differentiable, lora_config, lora_refusal, quantization_of
from medjudge.train.arguments import TrainingConfig
from medjudge.train.features import TrainingData, TrainingRows, encoded_lines
from medjudge.train.judge_trainer import JudgeTrainer, language_loss, regression_loss, score_loss
from medjudge.train.kept_states import KeptStates, kept_states
from medjudge.train.packs import packed, require_separate_branches, require_separate_lines, tree_packed
from medjudge.train.temperature import agreement_measures, generative_levels


class GenerativeTrainer(JudgeTrainer, SFTTrainer):
    """TRL's SFT trainer over batches of `collate`.

    The loss of a line is its language loss (mean over the words of its reply), plus the weighted losses on its score.
    The loss of a step is the mean over its lines by their weights, whatever the processes and accumulation steps.

    `predict` gives the log probabilities of the five levels, which are logits of them, and as labels both soft labels
    and levels.
    """

    score_weight = regression_weight = 1.0
    """Of the losses on the score, relative to the language loss on the rest of the reply."""
    states: KeptStates | None = None
    levels_at = staticmethod(generative_levels)

    def save_judge(self, folder: Path) -> None:
        """Writes adapter and tokenizer; every process calls it, as under ZeRO-3 each holds a part."""
        self.save_model(str(folder))
        if self.accelerator.is_main_process:
            for name in ("README.md", "training_args.bin"):
                (folder / name).unlink(missing_ok=True)
            self.processing_class.save_pretrained(folder)

    def training_step(self, *arguments: Any, **options: Any) -> torch.Tensor:
        # peft would cast the input of each layer to the adapter's float32, and autocast cast it back: two copies of it
        # for each projection, 300 MB a layer of Qwen3-1.7B at 4,096 tokens. Autocast alone needs one for query, key and
        # value. It holds for the whole step: with gradient checkpointing, the backward pass runs the layers again.
        # DoRA computes norms in the dtype of its input.
        variants = (module.lora_variant for module in self.model.modules() if isinstance(module, LoraLayer))
        with disable_input_dtype_casting(self.model, self.accelerator.native_amp and not any(variants)):
            return super().training_step(*arguments, **options)

    def evaluation_loop(self, *arguments: Any, **options: Any) -> EvalLoopOutput:
        model = readable(self.accelerator.unwrap_model(self.model))
        with exact_label_logits(model, label_ids(self.processing_class, LABELS)):
            return super().evaluation_loop(*arguments, **options)

    def prediction_step(self, model: Any, inputs: dict[str, Any], *_: Any, **__: Any) -> tuple[Any, Any, Any]:
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            loss, levels = self.compute_loss(model, inputs, return_outputs=True)
        return loss, levels, (inputs["probabilities"], inputs["level"])

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        level_ids = torch.tensor(label_ids(self.processing_class, LABELS), device=inputs["labels"].device)
        with nullcontext() if self.states is None else self.states.of(inputs):
            words, at_score = _predictions(model, inputs)
        levels = at_score.float().log_softmax(dim=1)[:, level_ids]
        target, weight = inputs["probabilities"], inputs["weight"]
        each = {
            "language_loss": language_loss(*words, len(target)),
            "score_loss": score_loss(levels, target),
            "regression_loss": regression_loss(levels, target),
        }
        mode = "train" if self.model.training else "eval"
        for name, values in each.items():
            self._metrics[mode][name].append(float((values.detach() * weight).sum() / weight.sum()))
        factors = (1.0, self.score_weight, self.regression_weight)
        total = sum(factor * values for factor, values in zip(factors, each.values(), strict=True))
        loss = self.of_step((total * weight).sum() / weight.sum(), weight, num_items_in_batch)
        return (loss, levels.detach()) if return_outputs else loss


def validation_metrics(prediction: EvalPrediction) -> dict[str, float]:
    """`agreement_measures` of what `GenerativeTrainer` predicts, and the probability mass on the five score tokens."""
    levels = np.asarray(prediction.predictions)
    measures = agreement_measures(generative_levels(levels, 1.0), prediction.label_ids[1])
    return {**measures, "score_mass": float(np.exp(levels).sum(axis=1).mean())}


def _predictions(
    model: Any, inputs: dict[str, Any]
) -> tuple[tuple[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]:
    """Logits where words and scores are predicted, and nowhere else: over the prompt they would fill the memory.

    Returns:
        Logits (tokens, vocabulary), token and line of the words; and logits (lines, vocabulary) at the scores.
    """
    labels, before_score = inputs["labels"], inputs["score_at"] - 1
    spoken = labels[:, 1:] != -100
    needed = spoken.any(dim=0)
    needed[before_score] = True
    positions = needed.nonzero().flatten()
    text = {name: inputs[name] for name in ("input_ids", "attention_mask", "position_ids") if name in inputs}
    if "ends" in inputs:
        config = getattr(model, "module", model).config
        text["attention_mask"] = tree_mask(inputs["ends"], inputs["position_ids"][0], config)
    logits = model(**text, use_cache=False, logits_to_keep=positions).logits
    index = needed.cumsum(dim=0) - 1  # in the logits that were computed
    row, column = spoken.nonzero(as_tuple=True)
    words = (logits[row, index[column]], labels[row, column + 1], inputs["line"][row, column + 1])
    return words, logits[inputs["score_row"], index[before_score]]


def collate(rows: list[dict[str, Any]], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows of `encoded_lines`, or packs of them, as tensors.

    Rows are padded on the left, so that replies end in one column. Packs make one sequence without padding and
    without attention mask: positions that begin again tell the model where a line begins. What a line of `tree_packed`
    shares with the one before it is not repeated.

    Returns:
        `input_ids`, `position_ids`, `labels` and `line` (the line that a token belongs to), each (rows, length);
        `attention_mask` for rows; `ends` from `path_ends` for rows of `tree_packed`; of each line `score_row` and
        `score_at`, `probabilities` (lines, 5), `level` and `weight`.
    """
    lines = [line for row in rows for line in row.get("lines", [row])]
    in_packs, in_trees = "lines" in rows[0], "shared" in lines[0]
    skipped = [line.get("shared", 0) for line in lines]
    lengths = [len(line["input_ids"]) - shared for line, shared in zip(lines, skipped, strict=True)]
    if in_packs:
        shape = (1, sum(lengths))
        places = [(0, sum(lengths[:number])) for number in range(len(lines))]
    else:
        shape = (len(lines), max(lengths))
        places = [(number, shape[1] - length) for number, length in enumerate(lengths)]
    # input_ids first: the Trainer takes the size of a batch from the first tensor that it meets.
    batch = {
        "input_ids": torch.full(shape, pad_id),
        "position_ids": torch.zeros(shape, dtype=torch.long),
        "labels": torch.full(shape, -100),
        "line": torch.full(shape, -1),
    }
    for number, (line, (row, start), first, length) in enumerate(zip(lines, places, skipped, lengths, strict=True)):
        here = slice(start, start + length)
        batch["input_ids"][row, here] = torch.tensor(line["input_ids"][first:])
        batch["position_ids"][row, here] = torch.arange(first, first + length)
        batch["labels"][row, here] = torch.tensor(line["labels"][first:])
        batch["line"][row, here] = number
    if not in_packs:
        batch["attention_mask"] = (batch["line"] >= 0).long()
    if in_trees:
        batch["ends"] = path_ends([len(line["input_ids"]) for line in lines], skipped)
    at = [start - first + line["score_at"] for line, (_, start), first in zip(lines, places, skipped, strict=True)]
    return {
        **batch,
        "score_row": torch.tensor([row for row, _ in places]),
        "score_at": torch.tensor(at),
        "probabilities": torch.tensor([line["probabilities"] for line in lines], dtype=torch.float32),
        "level": torch.tensor([line["level"] for line in lines]),
        "weight": torch.tensor([line["weight"] for line in lines], dtype=torch.float32),
    }


def generative_rows(config: TrainingConfig, tokenizer: PreTrainedTokenizerBase, data: TrainingData) -> TrainingRows:
    """Encodes lines, drops and reports those whose prompt leaves no room for the answer, and packs as the config says.

    Raises:
        InputError: No line of a file has room, the chat template cannot be rendered, or a language of the scheme has no
            prompts in this style.
    """
    judge, _, training = config
    length = training.max_length
    assert length
    prompt_hashes(judge.style, data.scheme)  # the card's, after training: what is missing is said now
    with_chat_template(tokenizer)
    reason = f"rubric, question and reference leave no room for the answer in max_length {length}"
    sides, encoded = [], []
    for file, lines in ((judge.train_file, data.train), (judge.validation_file, data.validation)):
        rows = encoded_lines(lines, tokenizer, length, judge.style, data.scheme)
        sides.append([line for line, row in zip(lines, rows, strict=True) if row is not None])
        encoded.append(Dataset.from_list([row for row in rows if row is not None]))
        if not sides[-1]:
            raise InputError(f"{file}: in all {len(lines)} lines, {reason}; raise max_length in the config")
        if (dropped := rows.count(None)) and training.process_index == 0:
            left_out = sorted({line.question.id for line in lines} - {line.question.id for line in sides[-1]})
            notify(f"{file}: {dropped} of {len(lines)} lines dropped: {reason} ({', '.join(left_out)})")
    train, validation = encoded
    if training.packing and judge.share_prefixes:
        train = tree_packed(train, length, judge.pack_length)
        if training.world_size == 1:  # several processes count what they gather by rows, so that theirs stay one line
            validation = tree_packed(validation, length)
    elif training.packing:
        train = packed(train, length)
    return TrainingRows(train, validation, data._replace(train=sides[0], validation=sides[1]))


def generative_trainer(
    config: TrainingConfig, tokenizer: PreTrainedTokenizerBase, rows: TrainingRows
) -> GenerativeTrainer:
    """A trainer of a base model with a fresh adapter, or with the adapter of the judge `start_from`.

    With `load_in_4bit` the base is quantised (QLoRA), with `packing` several lines fill one sequence, with
    `share_prefixes` as a tree. `rows` are those of `generative_rows`.

    Raises:
        InputError: The base model cannot be loaded or has no layer that `lora_target_modules` names, the adapter is
            corrupt or does not fit, an option needs what is not installed, or packed lines would see each other.
    """
    judge, model, training = config
    if training.use_liger_kernel and find_spec("liger_kernel") is None:
        raise InputError("config: use_liger_kernel needs liger-kernel; pip install 'medjudge[gpu]', or leave it out")
    if training.padding_free:
        raise InputError("config: padding_free is not supported; take packing, which pads nothing either")
    base = _loaded(model, judge.start_folder)
    if training.packing:
        # A quantised model was loaded where it is trained.
        on_device = base if getattr(base, "is_quantized", False) else base.to(training.device)
        (require_separate_branches if judge.share_prefixes else require_separate_lines)(on_device)
    training.packing = False  # TRL's own would drop the targets of the score
    # The columns of the batches are not arguments of the model's forward.
    training.remove_unused_columns, training.label_names = False, ["labels"]
    training.dataset_kwargs = {"skip_prepare_dataset": True}
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    try:
        trainer = GenerativeTrainer(
            model=base,
            args=training,
            data_collator=lambda batch: collate(batch, pad_id),
            train_dataset=rows.train,
            eval_dataset=rows.validation,
            processing_class=tokenizer,
            compute_metrics=validation_metrics,
            peft_config=None if judge.start_from else lora_config(base, model, judge.upper_layers),
        )
    except ValueError as error:
        raise lora_refusal(error) from None
    trainer.states = kept_states(trainer.model.get_base_model(), training)
    trainer.score_weight, trainer.regression_weight = judge.score_loss_weight, judge.regression_weight
    return trainer


def _loaded(options: ModelConfig, start_from: Path | None) -> PreTrainedModel | PeftModel:
    """The base model, quantised where the options say so, with the adapter of a judge where one is given."""
    assert options.model_name_or_path
    if quantization_of(options) is not None:
        require_bitsandbytes("config: load_in_4bit")
    quantization = get_quantization_config(options)
    extra = {} if quantization is None else {"quantization_config": quantization}
    model = load_causal_lm(
        options.model_name_or_path,
        options.model_revision,
        dtype=options.dtype or "auto",
        attn_implementation=options.attn_implementation,
        **extra,
    )
    if options.load_in_4bit:
        keep_differentiable(model)
    if start_from is None:
        return model
    with damage_explained(f"start_from {start_from}"):
        return load_adapter(model, start_from, trainable=True)


def readable(model: Any) -> Any:
    """The model that peft wraps, with its adapter in it, so that the judge can share prefixes.

    Under ZeRO-3 the wrapper stays: DeepSpeed gathers the weights of a pass from there.
    """
    return model.get_base_model() if isinstance(model, PeftModel) and not is_deepspeed_zero3_enabled() else model
