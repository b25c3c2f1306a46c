"""One training run from its arguments to the judge folder: read top to bottom."""

import os
import shutil
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
import transformers
from transformers import PreTrainedTokenizerBase, set_seed
from transformers.integrations import TensorBoardCallback
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.trainer_utils import IntervalStrategy, PredictionOutput, SaveStrategy
from trl import ModelConfig, SFTConfig, TrlParser
from yaml import YAMLError

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.judge.decision import write_decision_files
from medjudge.judge.folder import CARD_FILE, JudgeCard, TrainedOn
from medjudge.judge.generative import require_chat_template
from medjudge.models.hardware import cpu_has_bf16
from medjudge.models.loading import load_tokenizer, window
from medjudge.records import TrainingLine
from medjudge.rubrics.render import STYLES, Style, prompt_hashes
from medjudge.train.card import write_readme
from medjudge.train.checks import StopWhereNotFinite, batch_size, memory_explained, require_stage, require_teachable
from medjudge.train.curves import CURVES_FILE, write_curves
from medjudge.train.features import ordinal_dataset, question_ids, read_training_lines, require_apart
from medjudge.train.generative import LossWeights, generative_trainer, save_generative
from medjudge.train.lora import write_base_name
from medjudge.train.ordinal import new_ordinal_model, ordinal_trainer, save_ordinal, without_dropout
from medjudge.train.preference import preference_trainer
from medjudge.train.staging import CHECKPOINTS, TENSORBOARD, last_checkpoint, move_into_place, staging, whole_or_nothing
from medjudge.train.start import base_name, seen_before, starting_card
from medjudge.train.temperature import (
    AtTemperature,
    Calibration,
    agreement_measures,
    as_card,
    calibrated,
    generative_levels,
    ordinal_levels,
)


@dataclass
class JudgeArguments:
    """What a judge is trained from; model and trainer options are TRL's ModelConfig and SFTConfig."""

    kind: Literal["ordinal", "generative"] = field(
        metadata={"help": "cumulative-link head, or score token of a causal LM"}
    )
    train_file: str = field(metadata={"help": "train.jsonl of medjudge distill"})
    validation_file: str = field(metadata={"help": "validation.jsonl of medjudge distill"})
    resume: bool = field(default=False, metadata={"help": "go on from the last checkpoint"})
    stage: Literal["judge", "intermediate", "preference"] = field(
        default="judge", metadata={"help": "intermediate: matches of question and answer, before the scored answers"}
    )
    start_from: str | None = field(default=None, metadata={"help": "judge folder that training goes on from"})
    loss: Literal["ordinal", "mse"] = field(
        default="ordinal", metadata={"help": "of an ordinal judge: cumulative cross-entropy, or squared error"}
    )
    windows: int = field(
        default=4, metadata={"help": "of an ordinal judge: most windows of max_length tokens that it reads of a text"}
    )
    full_fine_tuning: bool = field(
        default=False, metadata={"help": "of an ordinal judge: train the whole body, no adapter"}
    )
    style: Style = field(default="score-first", metadata={"help": "of a generative judge: score or rationale first"})
    score_loss_weight: float = field(
        default=1.0, metadata={"help": "of a generative judge: cross-entropy of the five levels, beside the words'"}
    )
    regression_weight: float = field(
        default=1.0, metadata={"help": "of a generative judge: squared error of the expected level, beside the words'"}
    )


def main(arguments: list[str] | None = None) -> None:
    """The command line of the recipe: exits with 2 and one line where the input is wrong."""
    try:
        train_judge(*parse_arguments(arguments))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def parse_arguments(arguments: list[str] | None = None) -> tuple[JudgeArguments, ModelConfig, SFTConfig]:
    """Reads the YAML named by --config, then the command line over it.

    Raises:
        InputError: The file is missing, is no YAML mapping, or names an option that does not exist.
    """
    parser = TrlParser([JudgeArguments, ModelConfig, SFTConfig])
    parser.error = _refuse  # argparse would print 140 lines of usage
    if (
        os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
        and not torch.cuda.is_available()
        and not _deepspeed_on_cpu()
    ):
        _refuse(
            "DeepSpeed is asked for and torch sees no GPU here; set DS_ACCELERATOR=cpu, or launch with two-cpu.yaml"
        )
    # What fits this machine and this task, unless the config says otherwise.
    has_gpu = torch.cuda.is_available()
    parser.set_defaults(
        use_cpu=not has_gpu and not _deepspeed_on_cpu(),
        ddp_backend="gloo" if _deepspeed_on_cpu() else None,
        bf16=torch.cuda.is_bf16_supported() if has_gpu else cpu_has_bf16() and not _deepspeed_on_cpu(),
        gradient_checkpointing=False,
        eval_strategy="epoch",
        save_strategy="best",
        save_total_limit=1,
        load_best_model_at_end=None,  # see _completed
        metric_for_best_model="quadratic_kappa",
    )
    try:
        return parser.parse_args_and_config(arguments)
    except (OSError, ValueError, YAMLError) as error:
        _refuse(str(error))


def _refuse(message: str) -> NoReturn:
    raise InputError(f"config: {' '.join(message.split())[:300]}")


def _deepspeed_on_cpu() -> bool:
    """Whether `accelerate launch` started DeepSpeed and the user chose its CPU accelerator."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and os.environ.get("DS_ACCELERATOR") == "cpu"


def train_judge(judge: JudgeArguments, model: ModelConfig, trainer_options: SFTConfig) -> Path:
    """Trains one judge.

    Returns:
        The judge folder, `output_dir`. It becomes a judge with the last file written, `judge.json`; where training
        fails or is stopped, nothing of it is left but what `--resume` goes on from.

    Raises:
        InputError: Whatever is wrong with files, options or models; training needs more memory than there is, or its
            loss is no longer a number.
    """
    # ---- Check what can be checked before anything is loaded
    folder = Path(trainer_options.output_dir or "")
    start_from = None if judge.start_from is None else Path(judge.start_from)
    before = None if start_from is None else starting_card(start_from, judge.kind, model)
    _require_possible(folder, judge, model, trainer_options, before)
    train, validation = _read_lines(judge, trainer_options)
    options = _completed(trainer_options, folder)
    last = _resumed_checkpoint(folder, judge.resume)
    set_seed(options.seed)

    with whole_or_nothing(folder, writes=options.process_index == 0), memory_explained(options):
        # ---- Model and data
        assert model.model_name_or_path
        tokenizer = load_tokenizer(model.model_name_or_path, model.model_revision)
        options.max_length = min(options.max_length or 1024, window(model.model_name_or_path, model.model_revision))
        trainer = _trainer(judge, model, tokenizer, options, train, validation, start_from)
        trainer.add_callback(StopWhereNotFinite())
        if options.use_cpu:
            without_dropout(trainer.model)
        if trainer.accelerator.is_main_process:
            _report_to_tensorboard(trainer, folder, judge.resume)

        # ---- Train; then fit the temperature on the answers that chose the checkpoint
        trainer.train(resume_from_checkpoint=last)
        history = list(trainer.state.log_history)
        found = trainer.predict(trainer.eval_dataset, metric_key_prefix="eval")
        target, level = found.label_ids
        calibration = calibrated(found.predictions, target, level, _levels_of_kind(judge.kind))

        # ---- Save
        card = _card(judge, model, options, train, validation, found, history, calibration)
        if start_from is not None and before is not None:
            card.trained_on = seen_before(start_from, card.trained_on, before.trained_on)
        _write_judge(trainer, tokenizer, card, folder, history)
    return folder


def _write_judge(
    trainer: Any, tokenizer: PreTrainedTokenizerBase, card: JudgeCard, folder: Path, history: list[dict[str, Any]]
) -> None:
    """Writes all files beside their place first, then moves them there; the card comes last and makes it a judge."""
    if card.kind == "generative":
        save_generative(trainer, tokenizer, staging(folder))  # on every process: under ZeRO-3 each holds a part
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        trained = trainer.accelerator.unwrap_model(trainer.model)
        if card.kind == "ordinal":
            save_ordinal(trained, tokenizer, staging(folder))
        elif card.style == "score-first":
            write_decision_files(tokenizer, card.temperature, staging(folder))
        write_base_name(staging(folder), card.base_model)
        if card.base_revision is None:
            body = trained.body if card.kind == "ordinal" else trained
            card.base_revision = getattr(body.config, "_commit_hash", None)  # None for a folder
        _write_curves(trainer, folder, history)
        move_into_place(folder)
        write_readme(folder, card)
        card.write(folder)
        print(f"judge written to {folder}", file=sys.stderr)
    trainer.accelerator.wait_for_everyone()


def _require_possible(
    folder: Path, judge: JudgeArguments, model: ModelConfig, options: SFTConfig, before: JudgeCard | None
) -> None:
    """Raises InputError where options contradict each other, the machine, or what is there already."""
    if (folder / CARD_FILE).exists():
        raise InputError(f"{folder}: holds a judge already; remove it, or choose another --output_dir")
    if judge.kind not in ("ordinal", "generative"):
        raise InputError(f"config: kind is '{judge.kind}'; take ordinal or generative")
    if judge.stage not in ("judge", "intermediate", "preference"):
        raise InputError(f"config: stage is '{judge.stage}'; take judge, intermediate or preference")
    if judge.style not in STYLES:
        raise InputError(f"config: style is '{judge.style}'; take {' or '.join(STYLES)}")
    if before is not None and before.style != judge.style:
        raise InputError(f"start_from {judge.start_from}: trained in style {before.style}; set style {before.style}")
    if judge.stage == "preference" and judge.kind != "generative":
        raise InputError(f"config: stage preference is for generative judges, and kind is {judge.kind}; change one")
    if not model.model_name_or_path:
        raise InputError("config: model_name_or_path is missing; name the base model")
    if judge.windows < 1:
        raise InputError(f"config: windows is {judge.windows}; take 1 or more")
    if model.lora_r < 1:
        raise InputError(f"config: lora_r is {model.lora_r}; take 1 or more")
    if not options.use_cpu and not torch.cuda.is_available() and not _deepspeed_on_cpu():
        raise InputError("config: use_cpu is false and torch sees no GPU here; train with --use_cpu true, or on a GPU")
    if judge.kind == "ordinal" and is_deepspeed_zero3_enabled():
        raise InputError("config: ordinal judges are too small to be worth ZeRO-3; launch with zero2.yaml or without")


def _read_lines(judge: JudgeArguments, options: SFTConfig) -> tuple[list[TrainingLine], list[TrainingLine]]:
    train = read_training_lines(Path(judge.train_file))
    validation = read_training_lines(Path(judge.validation_file))
    require_apart(train, validation)
    require_stage(judge.train_file, train, judge.stage)
    require_teachable(judge.train_file, train, options)
    return train, validation


def _completed(options: SFTConfig, folder: Path) -> SFTConfig:
    """Checkpoints go beside nothing a judge is loaded from, the best of them is kept, and no service is told."""
    options.output_dir = str(folder / CHECKPOINTS)
    options.report_to = []
    options.logging_nan_inf_filter = False  # it would hide a loss that is no number
    if options.load_best_model_at_end is None:
        # Wherever every checkpoint is measured; a config with steps of its own may say otherwise.
        together = options.save_strategy == options.eval_strategy and (
            options.save_strategy != SaveStrategy.STEPS or options.save_steps % options.eval_steps == 0
        )
        measured = options.eval_strategy != IntervalStrategy.NO
        options.load_best_model_at_end = measured and (together or options.save_strategy == SaveStrategy.BEST)
    return options


def _resumed_checkpoint(folder: Path, resume: bool) -> str | None:
    last = last_checkpoint(folder)
    if resume and last is None:
        raise InputError(f"--resume: no checkpoint in {folder / CHECKPOINTS}; start without it")
    if last is not None and not resume:
        raise InputError(
            f"{folder / CHECKPOINTS}: holds checkpoints of an earlier run; add --resume, or remove the folder"
        )
    return last


def _trainer(
    judge: JudgeArguments,
    model: ModelConfig,
    tokenizer: PreTrainedTokenizerBase,
    options: SFTConfig,
    train: list[TrainingLine],
    validation: list[TrainingLine],
    start_from: Path | None,
) -> Any:
    """Model and data of one kind of judge, in the trainer that knows its loss."""
    length = options.max_length
    assert length
    if judge.kind == "ordinal":
        return ordinal_trainer(
            new_ordinal_model(model, start_from, judge.full_fine_tuning),
            tokenizer,
            options,
            ordinal_dataset(train, tokenizer, length, judge.windows),
            ordinal_dataset(validation, tokenizer, length, judge.windows),
            judge.loss,
            fresh=start_from is None,
        )
    require_chat_template(tokenizer)
    if judge.stage == "preference":
        return preference_trainer(model, tokenizer, options, train, validation, judge.style, start_from)
    weights = LossWeights(judge.score_loss_weight, judge.regression_weight)
    return generative_trainer(model, tokenizer, options, train, validation, judge.style, weights, start_from)


def _levels_of_kind(kind: str) -> AtTemperature:
    return ordinal_levels if kind == "ordinal" else generative_levels


def _report_to_tensorboard(trainer: Any, folder: Path, resumed: bool) -> None:
    if find_spec("tensorboard") is None:
        print("no curves for TensorBoard: it is not installed (pip install tensorboard)", file=sys.stderr)
        return
    if not resumed:
        shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)  # of a run that was killed before its first checkpoint
    callback = TensorBoardCallback()
    callback.logging_dir = str(folder / TENSORBOARD)
    trainer.add_callback(callback)


def _write_curves(trainer: Any, folder: Path, history: list[dict[str, Any]]) -> None:
    kept = trainer.state.best_global_step if trainer.args.load_best_model_at_end else None
    if find_spec("matplotlib") is None:
        print(f"no {CURVES_FILE}: matplotlib is not installed (pip install 'medjudge[report]')", file=sys.stderr)
    else:
        write_curves(folder / CURVES_FILE, history, kept)


def _card(
    judge: JudgeArguments,
    model: ModelConfig,
    options: SFTConfig,
    train: list[TrainingLine],
    validation: list[TrainingLine],
    found: PredictionOutput,
    history: list[dict[str, Any]],
    calibration: Calibration,
) -> JudgeCard:
    assert model.model_name_or_path
    assert options.max_length
    files = (Path(judge.train_file), Path(judge.validation_file))
    rows = _levels_of_kind(judge.kind)(found.predictions, calibration.temperature)
    _, level = found.label_ids
    measures = {"eval_loss": found.metrics["eval_loss"]}
    measures |= {f"eval_{name}": value for name, value in agreement_measures(rows, level).items()}
    return JudgeCard(
        kind=judge.kind,
        base_model=base_name(model.model_name_or_path),
        base_revision=None if model.model_revision == "main" else model.model_revision,
        style=judge.style,
        prompt_hashes=prompt_hashes(judge.style) if judge.kind == "generative" else {},
        max_length=options.max_length,
        windows=judge.windows if judge.kind == "ordinal" else 1,
        temperature=calibration.temperature,
        trained_on=TrainedOn(
            files={file.name: file_sha256(file) for file in files},
            question_ids=sorted(question_ids(train)),
            tuned_question_ids=sorted(question_ids(validation)),
        ),
        training={
            "stage": judge.stage,
            "started_from": judge.start_from,
            "objective": judge.loss if judge.kind == "ordinal" else _loss_weights(judge),
            "full_fine_tuning": judge.full_fine_tuning,
            "answers": len(train),
            "questions": len({line.question.id for line in train}),
            "languages": sorted({line.question.language for line in train}),
            "categories": sorted({line.question.category for line in train}),
            "sources": sorted({line.source for line in train}),
            "epochs": options.num_train_epochs,
            "learning_rate": options.learning_rate,
            "batch": batch_size(options),
            "processes": options.world_size,
            "zero_stage": None if options.deepspeed_plugin is None else options.deepspeed_plugin.zero_stage,
            "lora_r": model.lora_r,
            "lora_alpha": model.lora_alpha,
            "seed": options.seed,
            "bf16": options.bf16,
            "calibration": as_card(calibration),
            "validation": {name: round(value, 6) for name, value in measures.items()},
            "loss": [[entry["step"], round(entry["loss"], 6)] for entry in history if "loss" in entry],
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        },
    )


def _loss_weights(judge: JudgeArguments) -> dict[str, float] | str:
    if judge.stage == "preference":
        return "preference"
    return {"score_loss_weight": judge.score_loss_weight, "regression_weight": judge.regression_weight}


if __name__ == "__main__":
    main()
