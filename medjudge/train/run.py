"""One training run from its arguments to the judge folder: read top to bottom."""

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
import transformers
from transformers import set_seed
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from transformers.trainer_utils import get_last_checkpoint
from trl import ModelConfig, SFTConfig, TrlParser
from yaml import YAMLError

from medjudge.base_models import load_tokenizer, window
from medjudge.distill.training_set import TrainingLine
from medjudge.errors import InputError
from medjudge.hardware import cpu_has_bf16
from medjudge.judge.folder import CARD_FILE, JudgeCard, TrainedOn
from medjudge.judge.generative import require_chat_template
from medjudge.rubrics.render import prompt_hashes
from medjudge.store import file_sha256
from medjudge.train.card import write_readme
from medjudge.train.features import generative_dataset, ordinal_dataset, read_training_lines, require_apart
from medjudge.train.generative import generative_trainer, save_generative
from medjudge.train.ordinal import new_ordinal_model, ordinal_trainer, save_ordinal


@dataclass
class JudgeArguments:
    """What a judge is trained from; model and trainer options are TRL's ModelConfig and SFTConfig."""

    kind: Literal["ordinal", "generative"] = field(
        metadata={"help": "cumulative-link head, or score token of a causal LM"}
    )
    train_file: str = field(metadata={"help": "train.jsonl of medjudge distill"})
    validation_file: str = field(metadata={"help": "validation.jsonl of medjudge distill"})
    resume: bool = field(default=False, metadata={"help": "go on from the last checkpoint"})


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
    # What fits this machine, unless the config says otherwise.
    has_gpu = torch.cuda.is_available()
    parser.set_defaults(use_cpu=not has_gpu, bf16=torch.cuda.is_bf16_supported() if has_gpu else cpu_has_bf16())
    try:
        return parser.parse_args_and_config(arguments)
    except (OSError, ValueError, YAMLError) as error:
        _refuse(str(error))


def _refuse(message: str) -> NoReturn:
    raise InputError(f"config: {' '.join(message.split())[:300]}")


def train_judge(judge: JudgeArguments, model: ModelConfig, trainer_options: SFTConfig) -> Path:
    """Trains one judge.

    Returns:
        The judge folder, `output_dir`. It becomes a judge with the last file written, `judge.json`.

    Raises:
        InputError: Whatever is wrong with files, options or models, before training starts.
    """
    # ---- Check what can be checked before anything is loaded
    folder = Path(trainer_options.output_dir or "")
    if (folder / CARD_FILE).exists():
        raise InputError(f"{folder}: holds a judge already; remove it, or choose another --output_dir")
    if judge.kind not in ("ordinal", "generative"):
        raise InputError(f"config: kind is '{judge.kind}'; take ordinal or generative")
    if model.lora_r < 1:
        raise InputError(f"config: lora_r is {model.lora_r}; take 1 or more")
    if not trainer_options.use_cpu and not torch.cuda.is_available():
        raise InputError("config: use_cpu is false and torch sees no GPU here; train with --use_cpu true, or on a GPU")
    if judge.kind == "ordinal" and is_deepspeed_zero3_enabled():
        raise InputError("config: ordinal judges are too small to be worth ZeRO-3; launch with zero2.yaml or without")
    if not model.model_name_or_path:
        raise InputError("config: model_name_or_path is missing; name the base model")
    train = read_training_lines(Path(judge.train_file))
    validation = read_training_lines(Path(judge.validation_file))
    require_apart(train, validation)
    options = _completed(trainer_options, folder)
    last = _last_checkpoint(folder, judge.resume)
    set_seed(options.seed)

    # ---- Model and data
    tokenizer = load_tokenizer(model.model_name_or_path, model.model_revision)
    length = min(options.max_length or 1024, window(model.model_name_or_path, model.model_revision))
    options.max_length = length
    if judge.kind == "ordinal":
        trainer: Any = ordinal_trainer(
            new_ordinal_model(model),
            tokenizer,
            options,
            ordinal_dataset(train, tokenizer, length),
            ordinal_dataset(validation, tokenizer, length),
        )
    else:
        require_chat_template(tokenizer)
        trainer = generative_trainer(
            model,
            tokenizer,
            options,
            generative_dataset(train, tokenizer, length),
            generative_dataset(validation, tokenizer, length),
        )

    # ---- Train
    trainer.train(resume_from_checkpoint=last)
    metrics = trainer.evaluate()

    # ---- Save: weights first, the card last
    if judge.kind == "generative":
        save_generative(trainer, tokenizer, folder)  # on every process: under ZeRO-3 each holds a part
    trainer.accelerator.wait_for_everyone()
    if trainer.accelerator.is_main_process:
        trained = trainer.accelerator.unwrap_model(trainer.model)
        if judge.kind == "ordinal":
            save_ordinal(trained, tokenizer, folder)
        card = _card(judge, model, options, train, validation, metrics, trainer.state.log_history)
        if card.base_revision is None:
            body = trained.body if judge.kind == "ordinal" else trained
            card.base_revision = getattr(body.config, "_commit_hash", None)  # None for a folder
        write_readme(folder, card)
        card.write(folder)
        print(f"judge written to {folder}", file=sys.stderr)
    trainer.accelerator.wait_for_everyone()
    return folder


def _completed(options: SFTConfig, folder: Path) -> SFTConfig:
    """Checkpoints go beside nothing a judge is loaded from, and nothing is reported to services."""
    options.output_dir = str(folder / "checkpoints")
    options.report_to = []
    return options


def _last_checkpoint(folder: Path, resume: bool) -> str | None:
    checkpoints = folder / "checkpoints"
    last: str | None = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None
    if resume and last is None:
        raise InputError(f"--resume: no checkpoint in {checkpoints}; start without it")
    if last is not None and not resume:
        raise InputError(f"{checkpoints}: holds checkpoints of an earlier run; add --resume, or remove the folder")
    return last


def _card(
    judge: JudgeArguments,
    model: ModelConfig,
    options: SFTConfig,
    train: list[TrainingLine],
    validation: list[TrainingLine],
    metrics: dict[str, float],
    history: list[dict[str, Any]],
) -> JudgeCard:
    assert model.model_name_or_path
    assert options.max_length
    files = (Path(judge.train_file), Path(judge.validation_file))
    generative = judge.kind == "generative"
    base = Path(model.model_name_or_path)
    return JudgeCard(
        kind=judge.kind,
        # A folder by its full path, so that the judge can be used from anywhere on this machine.
        base_model=str(base.resolve())
        if (base := Path(model.model_name_or_path)).is_dir()
        else model.model_name_or_path,
        base_revision=None if model.model_revision == "main" else model.model_revision,
        prompt_hashes=prompt_hashes("score-first") if generative else {},
        max_length=options.max_length,
        trained_on=TrainedOn(
            files={file.name: file_sha256(file) for file in files},
            question_ids=sorted({line.question.id for line in train}),
            tuned_question_ids=sorted({line.question.id for line in validation}),
        ),
        training={
            "answers": len(train),
            "languages": sorted({line.question.language for line in train}),
            "categories": sorted({line.question.category for line in train}),
            "sources": sorted({line.source for line in train}),
            "epochs": options.num_train_epochs,
            "learning_rate": options.learning_rate,
            "batch": options.per_device_train_batch_size * options.gradient_accumulation_steps * options.world_size,
            "lora_r": model.lora_r,
            "lora_alpha": model.lora_alpha,
            "seed": options.seed,
            "bf16": options.bf16,
            "validation": {
                name: round(value, 6)
                for name, value in metrics.items()
                if name in ("eval_loss", "eval_quadratic_kappa", "eval_usable_agreement")
            },
            "loss": [[entry["step"], round(entry["loss"], 6)] for entry in history if "loss" in entry],
            "versions": {"torch": torch.__version__, "transformers": transformers.__version__},
        },
    )


if __name__ == "__main__":
    main()
