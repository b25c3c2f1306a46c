"""The memory that training takes on this machine's CPU, found out by two steps of the largest batch."""

from copy import copy
from tempfile import TemporaryDirectory

from transformers import PreTrainedTokenizerBase, PrinterCallback
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from medjudge.models.hardware import peak_of_process
from medjudge.train.command_line import TrainingConfig
from medjudge.train.features import TrainingData
from medjudge.train.kinds import KINDS


def measured_memory(config: TrainingConfig, tokenizer: PreTrainedTokenizerBase, data: TrainingData) -> int:
    """The peak memory of this process after two steps, the second of which has the optimiser's moments; in bytes.

    Args:
        data: The lines with room in the window.
    """
    judge, model, training = config.judge, config.model, copy(config.training)
    training.max_steps, training.gradient_accumulation_steps = 2, 1
    training.eval_strategy, training.save_strategy = IntervalStrategy.NO, SaveStrategy.NO
    training.logging_strategy, training.report_to = IntervalStrategy.NO, []
    training.load_best_model_at_end, training.disable_tqdm = False, True
    with TemporaryDirectory() as folder:
        training.output_dir = folder
        trainer = KINDS[judge.kind].trainer(judge, model, training, tokenizer, data)
        trainer.remove_callback(PrinterCallback)  # of losses, on stdout
        rows = list(trainer.train_dataset)
        tokens = [next(iter(trainer.data_collator([row]).values())).numel() for row in rows]
        largest = sorted(range(len(rows)), key=lambda index: -tokens[index])[: training.per_device_train_batch_size]
        trainer.train_dataset = trainer.train_dataset.select(largest)
        trainer.train()
    return peak_of_process()
