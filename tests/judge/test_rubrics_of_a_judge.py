"""A generative judge is bound to the rubrics that it was trained with, and to no others."""

from pathlib import Path

import pytest
import torch
from tiny_models import build_generative_judge

from medjudge.errors import InputError
from medjudge.judge.folder import load_judge
from medjudge.rubrics.render import prompt_hashes
from medjudge.scheme import LLMEVAL_MED, Category, open_scheme


@pytest.fixture
def folder(tiny_lm: Path, tmp_path: Path) -> Path:
    """A judge trained on one category."""
    hashes = {name: digest for name, digest in prompt_hashes("score-first").items() if name.startswith("MK.")}
    return build_generative_judge(tmp_path / "j", tiny_lm, prompt_hashes=hashes)


def test_another_rubric_of_a_trained_category_is_refused(folder: Path) -> None:
    changed = LLMEVAL_MED.model_copy(update={"rubrics": LLMEVAL_MED.rubrics | {"MK.zh": "知识\n\n- 5分：对"}})
    with pytest.raises(InputError, match=r"trained with another rubric MK\.zh than scheme llmeval-med has"):
        load_judge(folder, "j", torch.device("cpu"), scheme=changed)


def test_rubrics_that_it_never_saw_are_not_compared(folder: Path) -> None:
    other = LLMEVAL_MED.model_copy(update={"rubrics": LLMEVAL_MED.rubrics | {"MTG.en": "Letters\n\n- 5: good"}})
    sixth = Category(id="NUT", title={"en": "Nutrition", "zh": "营养"})
    rubrics = {**LLMEVAL_MED.rubrics, "NUT.en": "N\n\n- 5: a", "NUT.zh": "N\n\n- 5分：a"}
    more = LLMEVAL_MED.model_copy(update={"categories": (*LLMEVAL_MED.categories, sixth), "rubrics": rubrics})
    for scheme in (LLMEVAL_MED, other, more, open_scheme("consumer-health")):
        assert load_judge(folder, "j", torch.device("cpu"), scheme=scheme).name == "j"
