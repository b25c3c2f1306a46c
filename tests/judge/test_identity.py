"""A judge's identity covers every file that changes a score, and a judge folder that lacks one is refused."""

import json
import os
import shutil
from pathlib import Path

import pytest
from calls import change_json
from safetensors.torch import load_file, save_file
from tiny_judges import build_ordinal_judge

from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.judge.folder import folder_identity, read_card
from medjudge.models import hashes


@pytest.fixture
def base(tiny_encoder: Path, tmp_path: Path) -> Path:
    shutil.copytree(tiny_encoder, tmp_path / "base")
    return tmp_path / "base"


@pytest.fixture
def judge(base: Path, tmp_path: Path) -> Path:
    return build_ordinal_judge(tmp_path / "judge", base)


def identity(folder: Path) -> str:
    return folder_identity(folder, read_card(folder))


def change_weights(path: Path) -> None:
    save_file({name: value + 0.01 for name, value in load_file(path).items()}, path)


CHANGES = {
    "adapter": lambda judge, base: change_weights(judge / "adapter_model.safetensors"),
    "head": lambda judge, base: change_weights(judge / "head.safetensors"),
    "adapter_config": lambda judge, base: change_json(judge / "adapter_config.json", lora_alpha=64),
    "tokenizer": lambda judge, base: change_json(base / "tokenizer.json", normalizer=None),
    "tokenizer_config": lambda judge, base: change_json(base / "tokenizer_config.json", do_lower_case=False),
    "vocabulary": lambda judge, base: (judge / "added_tokens.json").write_text("{}"),
    "chat template": lambda judge, base: (judge / "chat_template.jinja").write_text("x"),
    "card": lambda judge, base: change_json(judge / "judge.json", temperature=2.0),
    "base weights": lambda judge, base: change_weights(base / "model.safetensors"),
    "base config": lambda judge, base: change_json(base / "config.json", layer_norm_eps=0.1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_whatever_changes_a_score_changes_the_identity(judge, base, name: str) -> None:
    before = identity(judge)
    assert identity(judge) == before
    CHANGES[name](judge, base)
    assert identity(judge) != before


def test_validations_and_the_readme_are_no_part_of_it(judge) -> None:
    before = identity(judge)
    (judge / "README.md").write_text("changed")
    (judge / "training").mkdir()
    (judge / "training" / "curves.svg").touch()
    read_card(judge).write(judge)
    assert identity(judge) == before


@pytest.mark.parametrize("name", ["adapter_model.safetensors", "adapter_config.json", "head.safetensors"])
def test_a_file_that_is_missing_is_named(judge, medjudge, tmp_path, name: str) -> None:
    (judge / name).unlink()
    done = medjudge("eval", "--judge", judge, "--limit", 1, "--run", tmp_path / "run")
    assert done.returncode == 2
    assert done.stderr == f"error: judge {judge}: {name} is missing; restore it or train the judge again\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("field", ["temperature", "slope", "training", "of_tomorrow"])
def test_numbers_in_judge_json_are_finite(judge, field: str, number: str) -> None:
    text = json.dumps(json.loads((judge / "judge.json").read_text()) | {field: "NUMBER"})
    value = f'{{"x": [{number}]}}' if field == "training" else number
    (judge / "judge.json").write_text(text.replace('"NUMBER"', value))
    with pytest.raises(InputError, match=rf"judge\.json: not valid JSON \({number} is (not a JSON value|too large)"):
        read_card(judge)


def test_a_base_model_that_cannot_be_had_is_named() -> None:
    with pytest.raises(InputError, match="nobody/nothing: cannot be had"):
        hashes.base_hashes("nobody/nothing", "0" * 40, tokenizer=False)


def test_a_judge_that_carries_its_base_model_stays_the_same(judge, base) -> None:
    before = identity(judge)
    shutil.copytree(base, judge / "base")
    shutil.rmtree(base)
    assert identity(judge) == before
    change_weights(judge / "base" / "model.safetensors")
    assert identity(judge) != before


def test_a_large_file_is_hashed_once_and_never_stale(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hashes, "_SETTLED", -1.0)
    reads: list[Path] = []

    def counting(path: Path) -> str:
        reads.append(path)
        return file_sha256(path)

    monkeypatch.setattr(hashes, "file_sha256", counting)
    large = tmp_path / "large"
    large.write_bytes(b"a" * (1 << 20))
    first = hashes.cached_sha256(large)
    assert (hashes.cached_sha256(large), len(reads)) == (first, 1)
    # The same size, and the time set back: the inode's own time tells.
    status = large.stat()
    with large.open("r+b") as file:
        file.write(b"b")
    os.utime(large, ns=(status.st_atime_ns, status.st_mtime_ns))
    second = hashes.cached_sha256(large)
    assert second == file_sha256(large) != first
    for entry in (tmp_path / "cache" / "medjudge" / "sha256").iterdir():
        entry.write_text("half of a ha")
    assert hashes.cached_sha256(large) == second
    shutil.rmtree(tmp_path / "cache")
    # A file that was just written, or is of the future as the clock was set back, is not remembered.
    monkeypatch.setattr(hashes, "_SETTLED", 2.0)
    assert hashes.cached_sha256(large) == second
    os.utime(large, (2**32, 2**32))
    assert hashes.cached_sha256(large) == second
    assert not (tmp_path / "cache").exists()
    (tmp_path / "cache").write_text("no folder")
    assert hashes.cached_sha256(large) == second


def test_a_reader_of_an_earlier_release_is_refused_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "judge.json").write_text(json.dumps({"kind": "reader", "base_model": "intfloat/multilingual-e5-small"}))
    with pytest.raises(InputError, match=r"found \"reader\".*earlier release made it, name another judge, such as"):
        read_card(tmp_path)
