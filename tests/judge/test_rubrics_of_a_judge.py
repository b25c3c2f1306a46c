"""A generative judge is bound to the rubrics that it was trained with, and to no others."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from medjudge.errors import InputError
from medjudge.judge.folder import JudgeCard, load_judge
from medjudge.rubrics.render import prompt_hashes
from medjudge.scheme import LLMEVAL_MED, Category, Scheme, open_scheme


def judge_folder(folder: Path, categories: tuple[str, ...]) -> Path:
    """A judge trained on some categories, whose base model is missing: it can be refused, but never be loaded."""
    folder.mkdir()
    hashes = {name: hash_ for name, hash_ in prompt_hashes("score-first").items() if name.split(".")[0] in categories}
    for name in ("tokenizer_config.json", "tokenizer.json"):
        (folder / name).write_text("{}")
    save_file({"q_proj.lora_A.weight": torch.zeros(2, 4)}, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(config))
    card = JudgeCard(kind="generative", base_model=str(folder / "none"), max_length=64, prompt_hashes=hashes)
    card.write(folder)
    return folder


def refusal(folder: Path, scheme: Scheme) -> str:
    with pytest.raises(InputError) as error:
        load_judge(folder, "j", torch.device("cpu"), scheme=scheme)
    return str(error.value)


def test_another_rubric_of_a_trained_category_is_refused(tmp_path: Path) -> None:
    folder = judge_folder(tmp_path / "j", ("MK",))
    changed = LLMEVAL_MED.model_copy(update={"rubrics": LLMEVAL_MED.rubrics | {"MK.zh": "知识\n\n- 5分：对"}})
    assert "trained with another rubric MK.zh than scheme llmeval-med has" in refusal(folder, changed)


def test_rubrics_that_it_never_saw_are_not_compared(tmp_path: Path) -> None:
    folder = judge_folder(tmp_path / "j", ("MK",))
    other = LLMEVAL_MED.model_copy(update={"rubrics": LLMEVAL_MED.rubrics | {"MTG.en": "Letters\n\n- 5: good"}})
    sixth = Category(id="NUT", title={"en": "Nutrition", "zh": "营养"})
    rubrics = {**LLMEVAL_MED.rubrics, "NUT.en": "N\n\n- 5: a", "NUT.zh": "N\n\n- 5分：a"}
    more = LLMEVAL_MED.model_copy(update={"categories": (*LLMEVAL_MED.categories, sixth), "rubrics": rubrics})
    for scheme in (LLMEVAL_MED, other, more, open_scheme("consumer-health")):
        assert refusal(folder, scheme).endswith("none: no such folder")  # past the rubrics, at the base model
