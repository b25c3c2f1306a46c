"""Training that goes on from another judge."""

from pathlib import Path

import pytest
import torch
from recipe_runs import changed, refused
from safetensors.torch import load_file, save_file
from tiny_models import build_generative_judge

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.judge.adapter import check_adapter_config, load_adapter
from medjudge.judge.folder import TrainedOn, load_judge, read_card
from medjudge.models.loading import load_causal_lm
from medjudge.train.adapters import seen_before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_judge_goes_on_from_another_one(kind, trained, training_files, tmp_path) -> None:
    """Trained no further (learning rate 0), it has the other's adapter and head, whatever LoRA shape is asked for."""
    first = trained(kind)
    other = tmp_path / "other.jsonl"
    other.write_text(training_files[0].read_text())
    changed(other, lambda _, line: line["question"].update(id=f"other-{line['question']['id']}"))
    options = {"start_from": first, "learning_rate": 0.0, "lora_r": 7, "upper_layers": 1, "model_name_or_path": None}
    second = trained(kind, **options, output_dir=tmp_path / "second", train_file=other)
    for path in first.glob("*.safetensors"):
        tensors, two = load_file(path), load_file(second / path.name)
        assert tensors.keys() == two.keys()
        assert all(torch.equal(tensors[name], two[name]) for name in tensors)
    before, after = read_card(first), read_card(second)
    ids = before.trained_on.question_ids
    assert after.trained_on.question_ids == sorted([*ids, *(f"other-{name}" for name in ids)])
    assert after.trained_on.files == {**before.trained_on.files, "other.jsonl": file_sha256(other)}
    assert (after.base_model, after.training["lora_r"]) == (before.base_model, 4)
    assert f"continued from `{first}`" in (second / "README.md").read_text()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def few_tensors(path: Path) -> None:
    save_file(dict(list(load_file(path).items())[:1]), path)


ADAPTER, CONFIG, HEAD = "adapter_model.safetensors", "adapter_config.json", "head.safetensors"
DAMAGES = [
    (CONFIG, cut, "adapter_config.json: not valid JSON"),
    (CONFIG, lambda path: path.write_text("[]"), "adapter_config.json: Input should be an object"),
    (CONFIG, lambda path: path.write_text('{"peft_type": "LORA"}'), "adapter_config.json: r: Field required"),
    (ADAPTER, cut, "adapter_model.safetensors: Error while deserializing"),
    (ADAPTER, lambda path: save_file({}, path), "has ranks up to 0"),
    (ADAPTER, few_tensors, "does not hold the tensors"),
    (HEAD, cut, "are corrupt"),
    (HEAD, few_tensors, "are corrupt"),
    (HEAD, lambda path: save_file({name: value / 0 for name, value in load_file(path).items()}, path), "not finite"),
    (HEAD, Path.unlink, "head.safetensors is missing"),
]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_a_damaged_judge_neither_judges_nor_is_a_start(kind, trained, recipe, tmp_path, capsys) -> None:
    first = trained(kind, max_steps=1, eval_strategy="no", save_strategy="no")
    for name, damage, message in DAMAGES:
        if (first / name).exists():
            whole = (first / name).read_bytes()
            damage(first / name)
            assert refused(recipe(kind, start_from=first, output_dir=tmp_path / "second"), capsys, message)
            with pytest.raises(InputError, match=message) as caught:
                load_judge(first, "tiny", torch.device("cpu"))
            assert str(first) in str(caught.value)
            (first / name).write_bytes(whole)
    assert not (tmp_path / "second").exists()


def test_files_of_one_name_are_both_recorded(tmp_path) -> None:
    before = TrainedOn(files={"train.jsonl": "a", "validation.jsonl": "b"}, question_ids=["q1"])
    after = TrainedOn(files={"train.jsonl": "c", "validation.jsonl": "b"}, question_ids=["q2", "q1"])
    assert seen_before(tmp_path / "first", after, before) == TrainedOn(
        files={"first/train.jsonl": "a", "train.jsonl": "c", "validation.jsonl": "b"}, question_ids=["q1", "q2"]
    )


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("ordinal", {}, "a judge of kind generative, and kind is ordinal"),
        ("generative", {"model_name_or_path": "some/model"}, "tiny-lm, and model_name_or_path is some/model"),
        ("generative", {"style": "brief"}, "trained in style score-first; set style score-first"),
    ],
)
def test_a_judge_of_another_kind_or_base_is_no_start(kind, options, message, recipe, tiny_lm, tmp_path, capsys) -> None:
    judge = build_generative_judge(tmp_path / "score-first", tiny_lm)
    arguments = recipe(kind, **{"model_name_or_path": tiny_lm, **options}, start_from=judge)
    assert refused(arguments, capsys, message)
    assert not (tmp_path / "judges").exists()


@pytest.mark.slow
def test_an_adapter_on_upper_layers_is_loaded_merged_and_is_trained_further(trained, tiny_lm, tmp_path) -> None:
    last = {"eval_strategy": "no", "save_strategy": "no"}
    first = trained("generative", upper_layers=1, **last, output_dir=tmp_path / "first")
    second = trained("generative", start_from=first, **last, output_dir=tmp_path / "second")
    check_adapter_config(second)
    names = [load_file(folder / "adapter_model.safetensors").keys() for folder in (first, second)]
    assert names[0] == names[1]
    assert all(".layers.1." in name for name in names[0])
    models = load_adapter(load_causal_lm(str(tiny_lm)), second).merge_and_unload(), load_causal_lm(str(tiny_lm))
    weights = [[layer.self_attn.q_proj.weight for layer in model.model.layers] for model in models]
    assert list(map(torch.equal, *weights)) == [True, False]
