"""States below the first trained layer, computed once and kept: the judge is the same, and the layers run once."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import torch
from recipe_runs import changed, generative_trainer_of, gradients_of, moved, score_logits
from transformers import AutoModelForCausalLM, Gemma3TextConfig, Qwen2Config

from medjudge.models.loading import load_tokenizer
from medjudge.train.features import read_training_lines
from medjudge.train.generative import GenerativeTrainer

LAYERS, UPPER = 4, 2
SHAPE = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": LAYERS, "num_attention_heads": 2}
WINDOWS = {"sliding_window": 64, "layer_types": [*["sliding_attention"] * 2, "full_attention", "sliding_attention"]}
CONFIGS = {"qwen2": partial(Qwen2Config, **SHAPE), "gemma3": partial(Gemma3TextConfig, **SHAPE, **WINDOWS, head_dim=16)}


@pytest.fixture(scope="module", params=CONFIGS)
def base(request: pytest.FixtureRequest, tiny_lm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Models of four layers; a Gemma 3 has a window of 64 tokens in each layer but the third, which sees all."""
    folder, tokenizer = tmp_path_factory.mktemp("models") / request.param, load_tokenizer(str(tiny_lm))
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    torch.manual_seed(0)
    config = CONFIGS[request.param](**ends, num_key_value_heads=1, vocab_size=len(tokenizer))
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def trainer(base: Path, training_files: tuple[Path, Path], tmp_path: Path) -> Callable[..., GenerativeTrainer]:
    """A trainer of the upper layers on six lines, with an adapter that changes what the model says."""
    changed(training_files[0], lambda number, line: line.update(rationale="Right. " * (number % 3)))
    lines = read_training_lines(training_files[0])[:6]

    def build(layout: str, checkpointing: bool = False) -> GenerativeTrainer:
        judge = {"upper_layers": UPPER, "share_prefixes": layout == "trees"}
        options = {"max_length": 1500 if layout == "trees" else 3000, "packing": layout != "rows"}
        options["gradient_checkpointing"] = checkpointing
        return moved(generative_trainer_of(base, tmp_path / "trainer", lines, judge, **options))

    return build


@contextmanager
def read_below(trainer: GenerativeTrainer) -> Iterator[list[int]]:
    """The widths of what the attention of the lowest layer reads."""
    widths: list[int] = []
    attention = trainer.model.get_base_model().get_decoder().layers[0].self_attn
    hook = attention.register_forward_pre_hook(
        lambda module, arguments, options: widths.append(options["hidden_states"].shape[1]), with_kwargs=True
    )
    yield widths
    hook.remove()


def gradients(trainer: GenerativeTrainer, rows: list[int]) -> dict[str, torch.Tensor]:
    return gradients_of(trainer, trainer.data_collator([trainer.train_dataset[row] for row in rows]))


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "checkpointing"), [("rows", True), ("packs", False), ("trees", True)])
def test_steps_over_kept_states_are_those_over_computed_ones(layout, checkpointing, trainer) -> None:
    built = trainer(layout, checkpointing)
    for batch in ([0], [1, 2]):
        gradients(built, batch)
    mixed = [2, 0]
    with read_below(built) as widths:
        found = gradients(built, mixed)
    assert widths == []
    assert built.states is not None
    built.states.places.clear()
    with read_below(built) as widths:
        expected = gradients(built, mixed)
    assert len(widths) == 1
    assert {int(name.split(".layers.")[1].split(".")[0]) for name in expected} == set(range(LAYERS - UPPER, LAYERS))
    for name, value in expected.items():
        assert value.norm() > 0
        assert (found[name] - value).norm() < 1e-4 * value.norm(), name


def test_a_judge_reads_through_all_layers_while_states_are_kept(trainer, training_files) -> None:
    built = trainer("rows")
    lines = read_training_lines(training_files[0])[:2]
    read = partial(score_logits, built.model, built.processing_class, lines, 3000)
    before = read()
    gradients(built, [0, 1])
    with read_below(built) as widths:
        assert read() == pytest.approx(before)
    assert len(widths) > 0


def test_states_that_do_not_fit_the_disk_are_computed_each_time(trainer, monkeypatch) -> None:
    monkeypatch.setattr("medjudge.train.kept_states._LEFT_FREE", 2**60)
    built = trainer("rows")
    with read_below(built) as widths:
        assert gradients(built, [0])
        assert gradients(built, [0])
    assert len(widths) == 2


@pytest.mark.slow
def test_three_epochs_compute_the_lower_layers_once(trained, base, monkeypatch, tmp_path) -> None:
    built = []
    original = GenerativeTrainer.train

    def train(self, *arguments, **options):
        with read_below(self) as widths:
            done = original(self, *arguments, **options)
        built.extend([self, len(widths)])
        return done

    monkeypatch.setattr(GenerativeTrainer, "train", train)
    options = {"max_steps": -1, "num_train_epochs": 3, "eval_strategy": "epoch", "save_strategy": "no"}
    options |= {"upper_layers": UPPER, "per_device_train_batch_size": 8}
    trained("generative", base, **options, output_dir=tmp_path / "judge")
    trainer, batches = built
    # Later epochs put other lines together.
    assert batches == len(trainer.get_train_dataloader()) + len(trainer.get_eval_dataloader())
