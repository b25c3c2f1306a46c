"""Trains a local judge and writes its folder.

    accelerate launch recipes/train_judge.py
    accelerate launch recipes/train_judge.py --config configs/judges/minilm-ordinal.yaml

Without `--config`, it trains a LoRA adapter on Gemma 3 270M, which comes as a package, or on the largest base model
that the GPU takes and that is on this machine: on `data/train.jsonl` or, where that is missing, on the bundled sample.

On two CPU processes, several GPUs or with DeepSpeed: `accelerate launch --config_file configs/accelerate/two-cpu.yaml`
(`multi-gpu.yaml`, `zero2.yaml`, `zero3.yaml`), with the rest as above. On one process, `medjudge train --config
minilm-ordinal` runs this same file.

The command line overrides every value of the config (`--num_train_epochs 5`). `--resume` continues from the last
checkpoint. The training files come from `medjudge distill`.
"""

import sys
import warnings
from pathlib import Path
from shutil import rmtree

import medjudge  # noqa: F401  (sets variables of torch, so it comes before torch)

# isort: split
from transformers import set_seed
from trl import ModelConfig, SFTConfig

from medjudge.errors import InputError, notify
from medjudge.judge.card import tuning_gain, write_readme
from medjudge.models.loading import load_tokenizer, window
from medjudge.screen import say
from medjudge.train.adapters import starting_card, write_base_name
from medjudge.train.arguments import CHECKPOINTS, JudgeArguments, TrainingConfig, parse_arguments, set_defaults
from medjudge.train.checkpoints import (
    STAGING,
    TimedCheckpoints,
    checkpoint_to_resume,
    move_into_place,
    whole_or_nothing,
)
from medjudge.train.checks import Watch, memory_explained, require_possible, require_teachable
from medjudge.train.features import read_training_data, require_disjoint
from medjudge.train.kinds import KINDS
from medjudge.train.ordinal import without_dropout
from medjudge.train.progress import log_to_tensorboard, show_live_line
from medjudge.train.trained_card import trained_card
from medjudge.workflows.train import with_defaults_named


def main(judge: JudgeArguments, model: ModelConfig, training: SFTConfig) -> Path:
    """Trains one judge.

    Returns:
        The judge folder, `output_dir`. It becomes a judge with the last file written, `judge.json`; where training
        fails or is stopped, nothing of it is left but what `--resume` continues from.

    Raises:
        InputError: Whatever is wrong with files, options or models; training needs more memory than there is, or its
            loss is no longer a number.
    """
    ###########################################################################
    # Set-up: refuse what cannot work, before anything is loaded
    ###########################################################################
    warnings.filterwarnings("ignore", category=FutureWarning)  # transformers and TRL warn each other of their options
    folder = Path(training.output_dir or "")
    start = None if judge.start_folder is None else starting_card(judge.start_folder, judge.kind, model)
    require_possible(judge, model, training, folder, start)
    set_defaults(training, folder)
    config, kind = TrainingConfig(judge, model, training), KINDS[judge.kind]

    ###########################################################################
    # Data
    ###########################################################################
    data = read_training_data(judge)
    require_disjoint(data)
    require_teachable(judge.train_file, data.train, training)
    checkpoint = checkpoint_to_resume(folder, judge.resume)
    if training.eval_on_start is None:
        training.eval_on_start = judge.kind == "generative"
    training.eval_on_start &= checkpoint is None  # the log of a checkpoint has these measures

    with whole_or_nothing(folder, writes=training.process_index == 0), memory_explained(training):
        #######################################################################
        # Model and trainer
        #######################################################################
        assert model.model_name_or_path
        set_seed(training.seed)
        tokenizer = load_tokenizer(model.model_name_or_path, model.model_revision)
        longest = window(model.model_name_or_path, model.model_revision)
        training.max_length = min(training.max_length or 1024, longest)
        rows = kind.rows(config, tokenizer, data)
        require_teachable(judge.train_file, rows.lines.train, training)
        trainer = kind.trainer(config, tokenizer, rows)
        show_live_line(trainer)
        trainer.add_callback(TimedCheckpoints(judge.save_minutes))
        trainer.add_callback(Watch())
        if training.use_cpu:
            without_dropout(trainer.model)
        is_main = trainer.accelerator.is_main_process
        if is_main:
            log_to_tensorboard(trainer, folder, judge.resume)

        #######################################################################
        # Train; then fit the temperature
        #######################################################################
        trainer.train(resume_from_checkpoint=checkpoint)
        card = trained_card(trainer, config, rows.lines, start)

        #######################################################################
        # Save in a staging folder, move it into place, and write the card last
        #######################################################################
        trainer.save_judge(folder / STAGING)
        trainer.accelerator.wait_for_everyone()
        if is_main:
            write_base_name(folder / STAGING, card.base_model)
            move_into_place(folder)
            write_readme(folder, card)
            card.write(folder)
            rmtree(folder / CHECKPOINTS, ignore_errors=True)  # not earlier: a killed run needs them
            if gain := tuning_gain(card.training):
                say(f"validation: {gain}")
            say(f"judge written to {folder}")
        trainer.accelerator.wait_for_everyone()
    return folder


if __name__ == "__main__":
    try:
        main(*parse_arguments(with_defaults_named(sys.argv[1:])))
    except InputError as error:
        notify(f"error: {error}")
        sys.exit(2)
