"""`base:MODEL`: an untuned model as a judge; and a judge whose base model came from a package or a GGUF file."""

import json
import shutil
from pathlib import Path

import pytest
from tiny_judges import build_tiny_gguf
from tiny_models import build_generative_judge

from medjudge.errors import InputError
from medjudge.judge.folder import UNTUNED, base_of, folder_identity, read_card
from medjudge.judge.open import resolve_judge
from medjudge.models.packaged import source_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_model_is_judged_with_as_it_is(tiny_lm, medjudge, tmp_path) -> None:
    done = medjudge("eval", "--judge", f"base:{tiny_lm}", "--limit", "1", "--run", "run", "--json")
    assert done.returncode == 0, done.stderr
    (file,) = (tmp_path / "run" / "judgments").iterdir()
    judgments = [json.loads(line) for line in file.read_text().splitlines()]
    assert len(judgments) == 5
    assert all(len(judgment["probabilities"]) == 5 for judgment in judgments)
    judge = resolve_judge(f"base:{tiny_lm}")
    assert judge.card.training == {UNTUNED: True}
    assert not (judge.folder / "adapter_config.json").exists()


def test_a_base_model_without_template_judges_through_the_plain_one(medjudge, tmp_path) -> None:
    file = build_tiny_gguf(tmp_path / "tiny.gguf")
    done = medjudge("eval", "--judge", f"base:{file}", "--limit", "1", "--run", "run", "--json")
    assert done.returncode == 0, done.stderr
    judge = resolve_judge(f"base:{file}")
    assert judge.card.base_source.quantization == "ALL_F32"
    assert "### assistant" in (judge.folder / "chat_template.jinja").read_text()
    assert source_of(Path(base_of(judge.card, judge.folder).model_id)) == judge.card.base_source
    # The file is gone and other weights are there: the judge is refused, not run on them.
    shutil.rmtree(tmp_path / "cache" / "medjudge" / f"tiny-{judge.card.base_source.sha256[:12]}")
    file.write_bytes(file.read_bytes().replace(b"general.file_type", b"general.file_typo"))
    with pytest.raises(InputError, match=r"was trained on .*tiny\.gguf as tiny\.gguf \(ALL_F32, .*other weights"):
        base_of(judge.card, judge.folder)


def test_a_judge_from_before_sources_keeps_its_identity_and_needs_its_tokenizer(tiny_lm, tmp_path) -> None:
    folder = build_generative_judge(tmp_path / "judge", tiny_lm)
    card = read_card(folder)
    identity = folder_identity(folder, card)
    assert card.base_source is None
    dumped = json.loads((folder / "judge.json").read_text())
    del dumped["base_source"]
    (folder / "judge.json").write_text(json.dumps(dumped))
    assert folder_identity(folder, read_card(folder)) == identity
    (folder / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer\.json is missing"):
        read_card(folder)
