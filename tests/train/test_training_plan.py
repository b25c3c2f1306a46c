"""`medjudge train --plan`: what training would take, compared with training itself."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from recipe_runs import REPOSITORY, changed, encoded_lines
from torch.profiler import ProfilerActivity, profile
from transformers import Qwen3Config, Qwen3ForCausalLM

from medjudge.models.loading import load_config, load_tokenizer
from medjudge.train.command_line import TrainingConfig, parse_arguments
from medjudge.train.features import TrainingData, data_with_room, read_training_lines
from medjudge.train.generative import GenerativeTrainer, generative_trainer
from medjudge.train.memory import BatchSize, shape_of, step_memory
from medjudge.train.packs import packed_lengths
from medjudge.train.plan import GIB, estimated_memory
from medjudge.train.quantized import quantization_of
from medjudge.workflows.train import plan_training


@pytest.fixture(scope="module")
def wider_lm(tiny_lm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 wide enough that a step's memory is that of its layers."""
    folder = tmp_path_factory.mktemp("models") / "wider"
    tokenizer = load_tokenizer(str(tiny_lm))
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def peak_of(action: Callable[[], object]) -> int:
    """The most bytes that are allocated at once beyond those from before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        action()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


@pytest.mark.parametrize(
    "options",
    [
        {"gradient_checkpointing": True, "packing": True, "per_device_train_batch_size": 1, "bf16": True},
        {"per_device_train_batch_size": 1},
        {"per_device_train_batch_size": 2, "bf16": True, "lora_dropout": 0.05},
        {"per_device_train_batch_size": 4, "gradient_checkpointing": True},
    ],
    ids=["packs, checkpointing, bf16", "one line, fp32", "two lines, bf16, dropout", "four lines, checkpointing, fp32"],
)
def test_the_memory_of_a_step_is_within_a_fifth_of_what_is_measured(options, recipe, wider_lm, training_files) -> None:
    options = {"dtype": "bfloat16" if options.get("bf16") else "float32", "lora_r": 8, "max_length": 3072, **options}
    arguments = [
        *recipe("generative", wider_lm, **options, eval_strategy="no", save_strategy="no"),
        "--use_cpu",
        "true",
    ]
    config = parse_arguments(arguments)
    changed(training_files[0], lambda number, line: line.update(rationale="The dose is right. " * (number % 3)))
    tokenizer = load_tokenizer(str(wider_lm))
    data = TrainingData(*map(read_training_lines, training_files))
    data = data_with_room(config.judge, config.training, tokenizer, data)
    lines = data.encoded[0]
    lengths = [len(line.row["input_ids"]) for line in lines]
    rows = packed_lengths(lengths, 3072) if config.training.packing else lengths
    shape = shape_of(load_config(str(wider_lm)), config.model)
    assert shape is not None
    estimate = estimated_memory(config, lines, rows, shape)

    config.training.packing, packing = bool(config.training.packing), config.training.packing
    trainer: GenerativeTrainer = generative_trainer(config.judge, config.model, config.training, tokenizer, data)
    assert packing == options.get("packing", False)
    keep_largest_batch(trainer)
    measured = held(trainer) + peak_of(trainer.train)  # the second step has Adam's moments
    assert estimate.total == pytest.approx(measured, rel=0.2)


def held(trainer: GenerativeTrainer) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in trainer.model.parameters())


def keep_largest_batch(trainer: GenerativeTrainer) -> None:
    """Leaves the rows that have the most tokens, as many as a batch takes."""
    rows = list(trainer.train_dataset)
    tokens = [sum(len(line["input_ids"]) for line in row.get("lines", [row])) for row in rows]
    largest = sorted(range(len(rows)), key=lambda index: -tokens[index])[: trainer.args.per_device_train_batch_size]
    trainer.train_dataset = trainer.train_dataset.select(largest)


def test_the_plan_has_the_steps_and_tokens_that_training_takes(recipe, tiny_lm, training_files, tmp_path) -> None:
    options = {"max_steps": -1, "num_train_epochs": 2, "gradient_accumulation_steps": 2, "output_dir": tmp_path / "j"}
    options |= {"eval_strategy": "no", "save_strategy": "no", "use_cpu": True}
    arguments = recipe("generative", tiny_lm, **options)
    plan = plan_training(_config(tmp_path, arguments))
    config: TrainingConfig = parse_arguments(arguments)
    tokenizer, data = load_tokenizer(str(tiny_lm)), TrainingData(*map(read_training_lines, training_files))
    data = data_with_room(config.judge, config.training, tokenizer, data)
    trainer = generative_trainer(config.judge, config.model, config.training, tokenizer, data)
    trainer.train()
    assert plan.steps == trainer.state.max_steps
    lengths = [len(line.row["input_ids"]) for line in encoded_lines(data.train, tokenizer, 2048)]
    assert (plan.tokens, plan.longest) == (sum(lengths), max(lengths))
    assert plan.train.lines == len(data.train)


def test_the_plan_loads_no_weights_and_counts_what_is_dropped_and_cut(
    medjudge, recipe, tiny_lm, training_files, tmp_path
) -> None:
    base = tmp_path / "base"
    base.mkdir()
    for file in tiny_lm.iterdir():
        if file.suffix != ".safetensors":
            (base / file.name).write_bytes(file.read_bytes())

    def longer(number: int, line: dict) -> None:
        if number == 0:
            line["question"]["reference"] = "gave 5 mg of it " * 600
        if number == 1:
            line["answer"]["text"] = "It is safe. " * 2000

    lines = read_training_lines(training_files[0])
    changed(training_files[0], longer)
    options = {"gradient_accumulation_steps": 1, "max_steps": -1, "use_cpu": False}
    config = _config(tmp_path, recipe("generative", base, **options))
    done = medjudge("train", "--config", config, "--plan", "--json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["train"] == {"lines": len(lines), "dropped": 1, "cut": 1}
    assert {card["card"] for card in plan["cards"]} >= {"RTX 4060", "H100"}
    assert all(card["fits"] for card in plan["cards"])
    screen = medjudge("train", "--config", config, "--plan").stdout
    assert f"train: {len(lines)} lines, 1 ({1 / len(lines):.1%}) dropped, 1 ({1 / len(lines):.1%}) cut" in screen
    assert "H100, 80 GiB: about" in screen
    assert "below about 100 optimizer steps" in screen
    assert not (tmp_path / "judges").exists()


def test_on_a_cpu_two_steps_of_the_largest_batch_are_measured(
    medjudge, recipe, tiny_lm, training_files, tmp_path, monkeypatch
) -> None:
    changed(training_files[0], lambda number, line: number == 3 and line["answer"].update(text="It is safe. " * 200))
    read = []
    original = GenerativeTrainer.compute_loss

    def compute_loss(self, model, inputs, *arguments, **options):
        read.append(inputs["input_ids"].shape)
        return original(self, model, inputs, *arguments, **options)

    monkeypatch.setattr(GenerativeTrainer, "compute_loss", compute_loss)
    options = {"max_steps": -1, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 2}
    config = _config(tmp_path, recipe("generative", tiny_lm, **options))
    plan = json.loads(medjudge("train", "--config", config, "--plan", "--json").stdout)
    assert read == [(1, plan["longest"])] * 2
    assert 0 < plan["memory"]["measured"] < 64
    assert plan["cards"] == []
    assert "(two steps of the largest batch, on this CPU)" in medjudge("train", "--config", config, "--plan").stdout
    assert not (tmp_path / "judges").exists()


def test_an_ordinal_judge_is_planned_without_memory(recipe, tiny_encoder, tmp_path) -> None:
    plan = plan_training(_config(tmp_path, recipe("ordinal", tiny_encoder, max_steps=-1)))
    assert plan.memory is None
    assert plan.cards == ()
    assert plan.steps > 0


def _config(folder, arguments):
    """The arguments of a recipe as a config file."""
    file = folder / "small.yaml"
    values = dict(zip([name[2:] for name in arguments[::2]], arguments[1::2], strict=True))
    file.write_text(
        "".join(f"{name}: {json.dumps(value) if value == 'no' else value}\n" for name, value in values.items())
    )
    return file


QWEN3 = {
    "Qwen/Qwen3-0.6B": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "heads": 16},
    "Qwen/Qwen3-1.7B": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28, "heads": 16},
    "Qwen/Qwen3-4B": {"hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "heads": 32},
    "Qwen/Qwen3-8B": {"hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36, "heads": 32},
}
"""The shapes in the models' configs."""


CONFIGS = sorted((REPOSITORY / "configs" / "judges").glob("qwen3-*lora*.yaml"))


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_a_config_states_the_memory_that_it_needs(file: Path) -> None:
    _, model, training = parse_arguments(["--config", str(file), "--use_cpu", "true"])
    assert model.model_name_or_path
    sizes = QWEN3[model.model_name_or_path]
    config = Qwen3Config(
        vocab_size=151_936,
        num_key_value_heads=8,
        head_dim=128,
        num_attention_heads=sizes["heads"],
        tie_word_embeddings="8B" not in model.model_name_or_path,
        **{name: value for name, value in sizes.items() if name != "heads"},
    )
    shape = shape_of(config, model)
    assert shape is not None
    lines, packs = (8 if training.packing else 1), bool(training.packing)
    needed = []
    for words in (1, 300):
        batch = BatchSize(1, 10_240, lines, packs, lines * words, lines * words)
        memory = step_memory(shape, batch, model, quantization_of(model), True, training.gradient_checkpointing)
        needed.append(memory.total / GIB)
    head = file.read_text(encoding="utf-8").split("\n")
    stated = re.fullmatch(r"# Memory: ([\d.]+) GiB at 10,240 tokens, ([\d.]+) GiB with rationales of 300 .*", head[1])
    assert stated
    assert [float(value) for value in stated.groups()] == pytest.approx(needed, abs=0.1)
    card = re.search(r"one GPU of (\d+) GiB", head[0])
    assert card
    assert max(needed) + 1 < int(card[1])
