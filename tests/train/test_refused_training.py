"""Options and training lines that are refused before a judge is begun."""

from importlib.util import find_spec

import pytest
from recipe_runs import changed, refused

from medjudge.train.features import read_training_lines

OF_GENERATIVE = [
    ({"lora_target_modules": "lm_head"}, "lora_target_modules: "),
    ({"style": "reason-first"}, "style"),
    ({"padding_free": True}, "take packing"),
    ({"pack_length": 512, "packing": True}, "goes with share_prefixes"),
    ({"share_prefixes": True}, "share_prefixes is a way to pack lines; set packing true"),
    ({"share_prefixes": True, "packing": True, "attn_implementation": "sdpa"}, "share_prefixes has its own"),
    ({"attn_implementation": "flash_attention_2"}, "attn_implementation flash_attention_2"),
    ({"load_in_4bit": True, "dtype": "auto"}, "dtype is auto, and load_in_4bit needs bfloat16 or"),
    ({"upper_layers": 0}, "upper_layers is 0, and the model has 2; take 1 to 2"),
    ({"upper_layers": 3}, "upper_layers is 3, and the model has 2; take 1 to 2"),
]


@pytest.mark.parametrize(("options", "message"), OF_GENERATIVE)
def test_options_of_a_generative_judge_that_cannot_be_are_named(options, message, recipe, capsys) -> None:
    assert refused(recipe("generative", **options), capsys, message)


@pytest.mark.skipif(find_spec("liger_kernel") is not None, reason="liger-kernel is here")
def test_liger_kernels_are_asked_for_where_they_are_missing(recipe, capsys) -> None:
    assert refused(recipe("generative", use_liger_kernel=True), capsys, "use_liger_kernel needs liger-kernel")


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
        ({"start_from": "nowhere"}, "nowhere: no such folder"),
        ({"load_best_model_at_end": True, "eval_strategy": "epoch"}, "save and eval strategy"),
    ],
)
def test_wrong_input_ends_before_a_judge_is_begun(options, message, recipe, training_files, tmp_path, capsys) -> None:
    arguments = recipe("ordinal", **options)
    folder = tmp_path / "judges" / "ordinal"
    assert refused(arguments, capsys, message)
    assert not folder.exists()
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")
    assert refused(arguments, capsys, message)
    assert [path.name for path in folder.rglob("*")] == ["notes.txt"]


def test_a_judge_is_never_overwritten(recipe, tmp_path, capsys) -> None:
    (tmp_path / "judges" / "ordinal").mkdir(parents=True)
    (tmp_path / "judges" / "ordinal" / "judge.json").touch()
    assert refused(recipe("ordinal"), capsys, "holds a judge already")


def test_lines_that_teach_nothing_are_refused(recipe, training_files, capsys) -> None:
    changed(training_files[0], lambda _, line: line.update(level=2, probabilities=[0, 1, 0, 0, 0]))
    assert refused(recipe("ordinal"), capsys, "train.jsonl: every line has level 2, which teaches nothing")


def test_no_question_stands_on_both_sides(recipe, training_files, capsys) -> None:
    held_out, kept = read_training_lines(training_files[1])[0].question.id, training_files[0].read_text()
    for change in (
        lambda number, line: number == 0 and line["question"].update(id=held_out),  # in another conversation
        lambda number, line: number == 1 and line.update(made_from=[held_out]),
    ):
        changed(training_files[0], change)
        assert refused(recipe("ordinal"), capsys, "1 questions stand in the training and in the")
        training_files[0].write_text(kept)
