"""The recipe, run for real on tiny models."""

import json
import runpy
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from train_judge import main as train_judge
from transformers import Trainer

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard, load_judge, read_card
from medjudge.judge.ordinal import OrdinalJudge, OrdinalModel, OrdinalSettings
from medjudge.judge.protocol import Assignment, assignments
from medjudge.models.hardware import cpu_has_bf16
from medjudge.models.loading import load_encoder
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run
from medjudge.train import curves as curves_module
from medjudge.train import ordinal as ordinal_module
from medjudge.train.command_line import parse_arguments
from medjudge.train.features import read_training_lines
from medjudge.train.kinds import KINDS
from medjudge.train.ordinal import save_ordinal, without_dropout

REPOSITORY = Path(__file__).parent.parent.parent
CPU = torch.device("cpu")


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AbstractContextManager[None]]:
    """Has a training step raise what stops a run: Ctrl-C, or any other error."""

    @contextmanager
    def at(step: int, error: type[BaseException] = KeyboardInterrupt, message: str = "") -> Iterator[None]:
        train_step = Trainer.training_step

        def interrupted_step(self: Trainer, *arguments: object, **options: object) -> torch.Tensor:
            if self.state.global_step == step - 1:
                raise error(message)
            return train_step(self, *arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "training_step", interrupted_step)
            yield

    return at


def changed(path: Path, change: Callable[[int, dict], None]) -> None:
    """Rewrites a training file line by line; `change` gets the number of a line, from 0, and its fields."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for number, line in enumerate(lines):
        change(number, line)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_trained_judge_is_a_folder_that_judges(
    kind, recipe, tiny_lm, tiny_encoder, sample_run, tmp_path, monkeypatch
) -> None:
    base = tiny_encoder if kind == "ordinal" else tiny_lm
    monkeypatch.chdir(base.parent)
    folder = train_judge(*parse_arguments(recipe(kind, Path(f"./{base.name}"))))
    adapter = json.loads((folder / "adapter_config.json").read_text())
    assert adapter["base_model_name_or_path"] == read_card(folder).base_model == str(base)
    card = read_card(folder)
    train = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert card.trained_on.question_ids == sorted({line["question"]["id"] for line in train})
    assert set(card.trained_on.files) == {"train.jsonl", "validation.jsonl"}
    assert (card.kind, card.training["seed"], card.training["answers"]) == (kind, 42, len(train))
    # A judge depends on the rubrics of its categories only, and an ordinal one on none.
    categories = set(card.training["categories"]) if kind == "generative" else set()
    assert {name.split(".")[0] for name in card.prompt_hashes} == categories
    assert card.scheme == LLMEVAL_MED.ref
    assert "Never validated" in (folder / "README.md").read_text()
    run = Run(sample_run)
    judge = load_judge(folder, "tiny", CPU)
    judgments = list(judge.judge(assignments(run.questions(), run.answers())[:10]))
    assert len(judgments) == 10
    assert all(judgment.score in range(1, 6) and judgment.probabilities for judgment in judgments)


def test_the_saved_judge_scores_as_the_trained_model(recipe, tiny_encoder, training_files, monkeypatch) -> None:
    """Adapter and head on disk carry what was trained: the loaded judge gives the trained model's probabilities."""
    kept = []

    def save(trainer: Trainer, *others: object) -> None:
        kept.append(trainer.model)
        save_ordinal(trainer, *others)

    monkeypatch.setitem(KINDS, "ordinal", KINDS["ordinal"]._replace(save=save))
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, max_steps=10)))
    lines = read_training_lines(training_files[1])
    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in lines]
    loaded = load_judge(folder, "tiny", CPU)
    trained = OrdinalJudge("tiny", kept[0].eval(), loaded.tokenizer, loaded.settings)
    body = load_encoder(str(tiny_encoder))
    fresh = OrdinalJudge("tiny", OrdinalModel(body, 32).eval(), loaded.tokenizer, OrdinalSettings(64))
    resumed, other, untrained = [
        np.array([judgment.probabilities for judgment in judge.judge(work)]) for judge in (loaded, trained, fresh)
    ]
    assert resumed == pytest.approx(
        other, abs=0.02
    )  # bfloat16: the adapter is merged in one and beside the body in the other
    assert np.abs(resumed - untrained).max() > 0.05


def good_or_bad(number: int, line: dict) -> None:
    good = number % 2 == 0
    line["answer"]["text"] = ("complete correct safe " if good else "wrong dangerous careless ") * 5
    line["probabilities"] = [0, 0, 0, 0, 1] if good else [1, 0, 0, 0, 0]
    line["level"] = 5 if good else 1


def test_training_learns_what_the_labels_say(recipe, tiny_encoder, training_files, tmp_path) -> None:
    for path in training_files:
        changed(path, good_or_bad)
    steps = {"max_steps": 60, "eval_steps": 60, "save_steps": 60}
    # The tiny tokenizer is never quite the same, and with a rate of 0.01 one training in dozens leaps away.
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, **steps, learning_rate=3e-3)))
    training = read_card(folder).training
    losses = [loss for _, loss in training["loss"]]
    assert sum(losses[-10:]) < 0.2 * sum(losses[:10])
    assert training["validation"]["eval_usable_agreement"] == 1.0


def test_resume_goes_on_from_the_checkpoint_and_ends_where_one_run_ends(
    recipe, tiny_encoder, tmp_path, stopped
) -> None:
    def halves(shift: float) -> Path:
        """Trains, is stopped after the first checkpoint, as by Ctrl-C, and resumes from that one."""
        folder = tmp_path / f"halves{shift}"
        arguments = recipe("ordinal", tiny_encoder, output_dir=folder, load_best_model_at_end=False)
        with stopped(step=3), pytest.raises(KeyboardInterrupt):
            train_judge(*parse_arguments(arguments))
        assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "training"]
        with pytest.raises(InputError, match="add --resume"):
            train_judge(*parse_arguments(arguments))
        first = folder / "checkpoints" / "checkpoint-2" / "model.safetensors"
        tensors = load_file(first)
        save_file({**tensors, "first_cut": tensors["first_cut"] + shift}, first)
        return train_judge(*parse_arguments([*arguments, "--resume"]))

    arguments = recipe("ordinal", tiny_encoder, output_dir=tmp_path / "whole", load_best_model_at_end=False)
    whole = train_judge(*parse_arguments(arguments))
    resumed, shifted = halves(0.0), halves(3.0)
    for name in ("adapter_model.safetensors", "head.safetensors"):
        uninterrupted, other = load_file(whole / name), load_file(resumed / name)
        assert all(torch.allclose(uninterrupted[key], other[key], atol=1e-6) for key in uninterrupted)
    # And the checkpoint is what it went on from: a change in it is still there at the end.
    cut = [float(load_file(folder / "head.safetensors")["first_cut"]) for folder in (whole, shifted)]
    assert cut[1] - cut[0] == pytest.approx(3.0, abs=0.2)
    assert not (resumed / "checkpoints").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"train_file": "none.jsonl"}, "none.jsonl: no such file"),
        ({"model_name_or_path": "nobody/nothing"}, "nobody/nothing: cannot be loaded"),
        ({"lora_target_modules": "no_such_layer"}, "lora_target_modules"),
        ({"resume": True}, "--resume: no checkpoint"),
        ({"lora_r": 0}, "lora_r is 0"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"per_device_train_batch_size": 64}, "train.jsonl: 45 lines are fewer than a batch of 64"),
        ({"gradient_accumulation_steps": 16}, "fewer than a batch of 64"),
        ({"stage": "intermediate"}, "45 lines are not of source 'matching'"),
        ({"start_from": "nowhere"}, "nowhere: no such folder"),
        (
            {"save_strategy": "steps", "load_best_model_at_end": True, "eval_strategy": "epoch"},
            "save and eval strategy",
        ),
    ],
)
def test_wrong_input_ends_before_a_judge_is_begun(
    options, message, recipe, tiny_encoder, training_files, tmp_path, capsys
) -> None:
    arguments = recipe("ordinal", tiny_encoder, **options)
    folder = tmp_path / "judges" / "ordinal"
    assert refused(arguments, capsys, message)
    assert not folder.exists()
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    assert refused(arguments, capsys, message)
    assert [path.name for path in folder.rglob("*")] == ["notes.txt"]


def run_recipe(arguments: list[str]) -> None:
    """The recipe as a script."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["train_judge.py", *arguments])
        runpy.run_path(str(REPOSITORY / "recipes" / "train_judge.py"), run_name="__main__")


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str], message: str) -> bool:
    """Whether the recipe ended with 2, and the last thing that it said is one line with the message."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        run_recipe(arguments)
    printed = capsys.readouterr().err.strip().splitlines()
    assert printed[-1].startswith("error: ")
    assert message in printed[-1]
    return caught.value.code == 2


def one_level(_: int, line: dict) -> None:
    line.update(level=2, probabilities=[0, 1, 0, 0, 0])


def a_level_of_seven(number: int, line: dict) -> None:
    line["level"] = 7 if number == 3 else line["level"]


def shares_above_one(number: int, line: dict) -> None:
    line["probabilities"] = [0, 0, 0, 0.9, 0.9] if number == 3 else line["probabilities"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (one_level, "train.jsonl: every line has level 2, which teaches nothing"),
        (a_level_of_seven, "train.jsonl, line 4: level: Input should be less than or equal to 5 (found 7)"),
        (shares_above_one, "train.jsonl, line 4: probabilities: [0.0, 0.0, 0.0, 0.9, 0.9] are not shares"),
    ],
)
def test_lines_that_teach_nothing_are_refused(change, message, recipe, tiny_encoder, training_files, capsys) -> None:
    changed(training_files[0], change)
    assert refused(recipe("ordinal", tiny_encoder), capsys, message)


def test_no_question_stands_on_both_sides(recipe, tiny_encoder, training_files, capsys) -> None:
    held_out = read_training_lines(training_files[1])[0].question

    def another_conversation(number: int, line: dict) -> None:
        line["question"]["id"] = held_out.id if number == 0 else line["question"]["id"]

    def made_from_it(number: int, line: dict) -> None:
        line["made_from"] = [held_out.id] if number == 1 else []

    kept = training_files[0].read_text()
    for change in (another_conversation, made_from_it):
        changed(training_files[0], change)
        assert refused(recipe("ordinal", tiny_encoder), capsys, "1 questions stand in the training and in the")
        training_files[0].write_text(kept)


@pytest.mark.parametrize("logged", ["steps", "no"])
def test_a_loss_that_is_no_number_ends_training(logged, recipe, tiny_encoder, tmp_path, capsys) -> None:
    arguments = recipe("ordinal", tiny_encoder, learning_rate=1e38, logging_strategy=logged, eval_strategy="no")
    assert refused(arguments, capsys, "lower learning_rate (now 1e+38)")
    assert not (tmp_path / "judges" / "ordinal").exists()


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_out_of_memory_says_what_to_make_smaller(kind, recipe, tiny_encoder, tiny_lm, tmp_path, monkeypatch, capsys):
    def too_much(*_: object, **__: object) -> torch.Tensor:
        return torch.empty(2**50)  # the CPU's own allocator refuses

    monkeypatch.setattr(Trainer, "training_step", too_much)
    arguments = recipe(kind, tiny_encoder if kind == "ordinal" else tiny_lm)
    assert refused(
        arguments, capsys, "out of memory: training does not fit the CPU's memory; lower per_device_train_bat"
    )
    assert not (tmp_path / "judges" / kind).exists()


def test_out_of_memory_after_a_checkpoint_leaves_it_for_resume(recipe, tiny_encoder, stopped, tmp_path, capsys) -> None:
    arguments = recipe("ordinal", tiny_encoder)
    folder = tmp_path / "judges" / "ordinal"
    with stopped(step=3, error=torch.OutOfMemoryError, message="CUDA out of memory."):
        assert refused(arguments, capsys, "out of memory")
    assert not (folder / "adapter_model.safetensors").exists()
    card = read_card(train_judge(*parse_arguments([*arguments, "--resume"])))
    assert [step for step, _ in card.training["loss"]] == [1, 2, 3, 4]


def test_other_errors_are_not_taken_for_want_of_memory(recipe, tiny_encoder, stopped, tmp_path) -> None:
    with stopped(step=1, error=RuntimeError, message="shape mismatch"), pytest.raises(RuntimeError, match="shape"):
        train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    assert not (tmp_path / "judges" / "ordinal").exists()


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_judge_goes_on_from_another_one(kind, recipe, tiny_lm, tiny_encoder, training_files, tmp_path) -> None:
    """Trained no further (learning rate 0), it has the other's adapter and head, whatever LoRA shape is asked for."""
    base = tiny_encoder if kind == "ordinal" else tiny_lm
    first = train_judge(*parse_arguments(recipe(kind, base)))
    other = tmp_path / "other.jsonl"
    other.write_text(training_files[0].read_text())
    changed(other, lambda _, line: line["question"].update(id=f"other-{line['question']['id']}"))
    options = {"start_from": first, "learning_rate": 0.0, "lora_r": 7, "output_dir": tmp_path / "second"}
    arguments = recipe(kind, base, **options, train_file=other)
    place = arguments.index("--model_name_or_path")
    second = train_judge(*parse_arguments([*arguments[:place], *arguments[place + 2 :]]))
    for path in first.glob("*.safetensors"):
        tensors, two = load_file(path), load_file(second / path.name)
        assert tensors.keys() == two.keys()
        assert all(torch.equal(tensors[name], two[name]) for name in tensors)
    before, after = read_card(first), read_card(second)
    ids = before.trained_on.question_ids
    assert after.trained_on.question_ids == sorted([*ids, *(f"other-{name}" for name in ids)])
    assert after.trained_on.files == {**before.trained_on.files, "other.jsonl": file_sha256(other)}
    assert (after.base_model, after.training["lora_r"]) == (str(base), 4)
    assert f"started from `{first}`" in (second / "README.md").read_text()


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _without_rank(path: Path) -> None:
    path.write_text(json.dumps({name: value for name, value in json.loads(path.read_text()).items() if name != "r"}))


def _few_tensors(path: Path) -> None:
    save_file(dict(list(load_file(path).items())[:1]), path)


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_damaged_judge_is_no_start(kind, recipe, tiny_encoder, tiny_lm, tmp_path, capsys) -> None:
    base = tiny_encoder if kind == "ordinal" else tiny_lm
    first = train_judge(*parse_arguments(recipe(kind, base, max_steps=1, eval_strategy="no", save_strategy="no")))
    options = {"start_from": first, "output_dir": tmp_path / "second"}
    damages: list[tuple[str, Callable[[Path], None], str]] = [
        ("adapter_config.json", _cut, "adapter_config.json: Invalid JSON"),
        ("adapter_config.json", lambda path: path.write_text("[]"), "adapter_config.json: Input should be an object"),
        ("adapter_config.json", _without_rank, "adapter_config.json: r: Field required"),
        ("adapter_model.safetensors", _cut, "are corrupt"),
        ("adapter_model.safetensors", _few_tensors, "does not hold the tensors"),
    ]
    if kind == "ordinal":
        damages += [("head.safetensors", _cut, "are corrupt"), ("head.safetensors", _few_tensors, "are corrupt")]
        damages += [("head.safetensors", Path.unlink, "head.safetensors is missing")]
    for name, damage, message in damages:
        whole = (first / name).read_bytes()
        damage(first / name)
        assert refused(recipe(kind, base, **options), capsys, message)
        (first / name).write_bytes(whole)
    assert not (tmp_path / "second").exists()


def test_files_of_one_name_are_both_recorded(recipe, tiny_encoder, training_files, tmp_path) -> None:
    first = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    hashes = [file_sha256(path) for path in training_files]
    changed(training_files[0], lambda _, line: line.update(weight=0.5))
    arguments = recipe("ordinal", tiny_encoder, start_from=first, output_dir=tmp_path / "second")
    assert read_card(train_judge(*parse_arguments(arguments))).trained_on.files == {
        "ordinal/train.jsonl": hashes[0],
        "train.jsonl": file_sha256(training_files[0]),
        "validation.jsonl": hashes[1],
    }


def test_a_judge_of_another_kind_or_base_is_no_start(recipe, tiny_encoder, tiny_lm, tmp_path, capsys) -> None:
    first = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    options = {"start_from": first, "output_dir": tmp_path / "second"}
    assert refused(recipe("generative", tiny_lm, **options), capsys, "a judge of kind ordinal, and kind is generative")
    assert refused(recipe("ordinal", tiny_lm, **options), capsys, f"its base model is {tiny_encoder}, and")
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (first / name).unlink()
    shutil.copy(tiny_encoder / "config.json", first)  # as where the whole body was trained
    assert refused(
        recipe("ordinal", tiny_encoder, **options),
        capsys,
        "was trained in full, and only an adapter can be trained further",
    )
    assert not (tmp_path / "second").exists()


def a_match(side: str, number: int, line: dict) -> None:
    line.update(source="matching", made_from=[f"{side}-{number}"])


def test_intermediate_training_learns_matches_and_says_so(recipe, tiny_encoder, training_files) -> None:
    for side, path in zip(("train", "validation"), training_files, strict=True):
        changed(path, partial(a_match, side))
    card = read_card(train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, stage="intermediate"))))
    assert (card.training["stage"], card.training["sources"]) == ("intermediate", ["matching"])
    assert "train-0" in card.trained_on.question_ids  # its text was in an answer
    assert "validation-0" in card.trained_on.tuned_question_ids


def test_gradient_checkpointing_changes_the_memory_of_an_ordinal_judge_only(recipe, tiny_encoder, tmp_path) -> None:
    losses = []
    for on in (False, True):
        options = {"gradient_checkpointing": on, "output_dir": tmp_path / str(on)}
        losses.append(
            read_card(train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, **options)))).training["loss"]
        )
    assert np.array(losses[0]) == pytest.approx(np.array(losses[1]), abs=1e-5)


@pytest.mark.skipif(not cpu_has_bf16(), reason="this CPU has no bf16")
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_bf16_is_the_default_where_the_cpu_has_it(kind, recipe, tiny_lm, tiny_encoder, tmp_path) -> None:
    losses = []
    for bf16 in ([], ["--bf16", "False"]):
        arguments = recipe(kind, tiny_encoder if kind == "ordinal" else tiny_lm, output_dir=tmp_path / str(len(bf16)))
        place = arguments.index("--bf16")
        card = read_card(train_judge(*parse_arguments([*arguments[:place], *arguments[place + 2 :], *bf16])))
        losses.append([loss for _, loss in card.training["loss"]])
        assert card.training["bf16"] is not bf16
    assert losses[0][0] == pytest.approx(losses[1][0], rel=0.02)
    assert losses[0] != losses[1]


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_nothing_is_dropped_on_a_cpu(kind, recipe, tiny_lm, tiny_encoder, monkeypatch) -> None:
    kept = []
    monkeypatch.setattr("train_judge.without_dropout", lambda model: (without_dropout(model), kept.append(model)))
    base = tiny_encoder if kind == "ordinal" else tiny_lm
    train_judge(*parse_arguments(recipe(kind, base, lora_dropout=0.3, max_steps=2)))
    rates = [module.p for module in kept[0].modules() if isinstance(module, torch.nn.Dropout)]
    assert len(rates) > 0
    assert set(rates) == {0.0}


def test_the_judge_is_the_checkpoint_with_the_highest_quadratic_kappa(
    recipe, tiny_encoder, training_files, monkeypatch
) -> None:
    """As the default, with neither metric nor strategy in the config."""
    for path in training_files:
        changed(path, good_or_bad)
    kept = []
    monkeypatch.setattr(curves_module, "write_curves", lambda *arguments: kept.append(arguments))
    # It starts from nothing, and so with a kappa of 0: the first head would be right about these answers at once.
    monkeypatch.setattr(ordinal_module, "start_from_similarity", lambda *arguments: None)
    arguments = recipe("ordinal", tiny_encoder, max_steps=24, eval_steps=1)
    places = [arguments.index("--save_strategy"), arguments.index("--save_steps")]
    arguments = [text for place, text in enumerate(arguments) if place not in {x + y for x in places for y in (0, 1)}]
    card = read_card(train_judge(*parse_arguments(arguments)))
    _, history, step = kept[0]
    kappas = {entry["step"]: entry["eval_quadratic_kappa"] for entry in history if "eval_quadratic_kappa" in entry}
    assert len(set(kappas.values())) > 1
    assert kappas[step] == max(kappas.values())
    assert card.training["validation"]["eval_quadratic_kappa"] == pytest.approx(kappas[step], abs=1e-6)


def test_a_config_without_evaluation_takes_the_last_step(recipe, tiny_encoder, monkeypatch) -> None:
    kept = []
    monkeypatch.setattr(curves_module, "write_curves", lambda *arguments: kept.append(arguments))
    train_judge(*parse_arguments(recipe("ordinal", tiny_encoder, eval_strategy="no", save_strategy="steps")))
    assert kept[0][2] is None


def test_the_curves_go_to_tensorboard_and_a_plot(recipe, tiny_encoder, capsys, monkeypatch) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    (file,) = (folder / "training" / "tensorboard").iterdir()
    recorded = events.EventAccumulator(str(file)).Reload()
    losses = [(point.step, point.value) for point in recorded.Scalars("train/loss")]
    assert np.array(losses) == pytest.approx(np.array(read_card(folder).training["loss"]), abs=1e-5)
    assert [point.step for point in recorded.Scalars("eval/quadratic_kappa")] == [2, 4]
    assert "quadratic kappa" in (folder / "training" / "curves.svg").read_text()
    assert "(training/curves.svg)" in (folder / "README.md").read_text()


def test_curves_that_nothing_can_draw_are_said_to_be_missing(recipe, tiny_encoder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(curves_module, "find_spec", lambda name: None)
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    printed = capsys.readouterr().err
    assert "no curves for TensorBoard: it is not installed (pip install tensorboard)" in printed
    assert "no training/curves.svg: matplotlib is not installed" in printed
    assert not (folder / "training").exists()
    assert "Curves" not in (folder / "README.md").read_text()


def test_cross_validation_is_a_table_of_the_card(tmp_path) -> None:
    rows = [
        {"fold": fold, "seed": seed, "usable_agreement": 0.7 + fold / 10, "spearman": 0.5}
        for fold in (1, 2)
        for seed in (0, 1)
    ]
    card = JudgeCard(kind="ordinal", base_model="m", max_length=64, training={"cross_validation": rows})
    write_readme(tmp_path, card)
    text = (tmp_path / "README.md").read_text()
    assert "| fold | seed | usable agreement | spearman |\n|---|---|---|---|\n| 1 | 0 | 0.800 | 0.500 |" in text
    assert "| mean | | 0.850 | 0.500 |\n| standard deviation | | 0.058 | 0.000 |" in text
    with_interval = {"value": 0.75, "low": 0.7, "high": 0.8}
    card.training["cross_validation"] = [{"fold": fold, "seed": 0, "spearman": with_interval} for fold in (0, 1)]
    write_readme(tmp_path, card)
    text = (tmp_path / "README.md").read_text()
    assert "| 0 | 0 | 0.75 (0.70 to 0.80) |" in text
    assert "| mean | | 0.750 |" in text


def test_corrupt_weights_are_named_when_a_judge_is_loaded(recipe, tiny_encoder) -> None:
    folder = train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    for name in ("head.safetensors", "adapter_model.safetensors"):
        whole = (folder / name).read_bytes()
        (folder / name).write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InputError, match="files are corrupt") as caught:
            load_judge(folder, "tiny", CPU)
        assert str(folder) in str(caught.value)
        (folder / name).write_bytes(whole)
    for broken in ({}, dict(list(load_file(folder / "adapter_model.safetensors").items())[:3])):
        whole = (folder / "adapter_model.safetensors").read_bytes()
        save_file(broken, folder / "adapter_model.safetensors")
        with pytest.raises(InputError, match="does not hold the tensors"):
            load_judge(folder, "tiny", CPU)
        (folder / "adapter_model.safetensors").write_bytes(whole)
    head = load_file(folder / "head.safetensors")
    save_file({**head, "slope": head["slope"] * float("nan")}, folder / "head.safetensors")
    with pytest.raises(InputError, match="not finite"):
        load_judge(folder, "tiny", CPU)
    (folder / "head.safetensors").unlink()
    with pytest.raises(InputError, match=r"head.safetensors is missing"):
        load_judge(folder, "tiny", CPU)


def test_a_judge_is_never_overwritten(recipe, tiny_encoder) -> None:
    arguments = recipe("ordinal", tiny_encoder)
    train_judge(*parse_arguments(arguments))
    with pytest.raises(InputError, match="holds a judge already"):
        train_judge(*parse_arguments(arguments))


def test_a_generative_judge_needs_a_chat_template(recipe, tiny_encoder, tmp_path, capsys) -> None:
    assert refused(recipe("generative", tiny_encoder), capsys, "no chat template")
    assert not (tmp_path / "judges" / "generative").exists()


def test_a_misspelt_option_in_a_config_ends_in_one_line(tmp_path, capsys) -> None:
    config = tmp_path / "bad.yaml"
    config.write_text("kind: ordinal\ntrain_file: a\nvalidation_file: b\noutput_dir: c\nlora_rank: 8\n")
    broken = tmp_path / "broken.yaml"
    broken.write_text("kind: [ordinal\n")
    for arguments, message in (
        (["--config", str(config)], "lora_rank"),
        (["--config", "none.yaml"], "none.yaml"),
        (["--config", str(broken)], "config:"),
        (["--kind", "ordinal"], "required"),
    ):
        with pytest.raises(SystemExit) as caught:
            run_recipe(arguments)
        assert caught.value.code == 2
        printed = capsys.readouterr().err.strip()
        assert message in printed
        assert "\n" not in printed


def test_an_unknown_kind_in_a_config_is_refused(recipe, tiny_encoder, tmp_path) -> None:
    arguments = recipe("ordinal", tiny_encoder)
    (tmp_path / "odd.yaml").write_text("kind: oracle\n")
    with pytest.raises(InputError, match="kind is 'oracle'"):
        train_judge(*parse_arguments(["--config", str(tmp_path / "odd.yaml"), *arguments[2:]]))


def test_a_config_for_a_gpu_is_refused_where_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError, match="use_cpu"):
        train_judge(*parse_arguments(["--config", str(REPOSITORY / "configs" / "judges" / "qwen3-1.7b-lora.yaml")]))


def test_all_shipped_configs_parse() -> None:
    files = sorted((REPOSITORY / "configs" / "judges").glob("*.yaml"))
    assert {file.stem for file in files} >= {"minilm-ordinal", "qwen3-1.7b-lora", "qwen3-8b-qlora"}
    for file in files:
        judge, model, options = parse_arguments(["--config", str(file), "--use_cpu", "true"])
        assert judge.kind in ("ordinal", "generative")
        assert model.lora_r > 0
        assert options.max_length
    qlora = str(REPOSITORY / "configs" / "judges" / "qwen3-8b-qlora.yaml")
    _, quantised, _ = parse_arguments(["--config", qlora, "--use_cpu", "true"])
    assert quantised.load_in_4bit
    assert quantised.bnb_4bit_quant_type == "nf4"


def test_the_accelerate_and_deepspeed_configs_load() -> None:
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.utils import DeepSpeedPlugin

    for file in sorted((REPOSITORY / "configs" / "accelerate").glob("*.yaml")):
        loaded = load_config_from_file(str(file))
        assert loaded.num_processes >= 1
        if loaded.deepspeed_config:
            path = REPOSITORY / loaded.deepspeed_config["deepspeed_config_file"]
            stage = json.loads(path.read_text())["zero_optimization"]["stage"]
            assert str(stage) in file.stem
            try:
                import deepspeed  # noqa: F401
            except ImportError:
                continue
            assert DeepSpeedPlugin(hf_ds_config=str(path)).zero_stage == stage
