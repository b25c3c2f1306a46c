"""`medjudge judge sign` and `verify`: a signature binds a judge's validations to its files."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import refused_with as refused
from minisign import KeyPair
from tiny_judges import build_ordinal_judge

from medjudge.judge.folder import read_card
from medjudge.judge.identity import LIST_FILE, SIGNATURE_FILE, signed_files
from medjudge.judge.open import JudgeOptions, resolve_judge
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run
from medjudge.validation.validations import signature_in
from medjudge.workflows.judge import introduction, record_judge


@pytest.fixture
def judge(tiny_encoder: Path, tmp_path: Path) -> Path:
    return build_ordinal_judge(tmp_path / "judge", tiny_encoder)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """A secret key; its public key lies beside it with the ending .pub."""
    pair = KeyPair.generate()
    (tmp_path / "mine.key").write_bytes(bytes(pair.secret_key))
    (tmp_path / "mine.pub").write_bytes(bytes(pair.public_key))
    return tmp_path / "mine.key"


def test_a_signature_holds_until_a_file_or_a_claim_changes(
    judge: Path, key: Path, tmp_path: Path, medjudge: Callable
) -> None:
    public = key.with_suffix(".pub")
    unsigned = medjudge("judge", "verify", judge)
    assert (unsigned.returncode, unsigned.stdout) == (1, f"{judge}: unsigned\n")
    before = resolve_judge(str(judge)).identity(JudgeOptions(), LLMEVAL_MED)
    signed = medjudge("judge", "sign", judge, "--key", key)
    assert signed.returncode == 0, signed.stderr
    assert resolve_judge(str(judge)).identity(JudgeOptions(), LLMEVAL_MED) == before
    assert medjudge("judge", "verify", judge).stdout == f"{judge}: signed, key not checked\n"
    verified = medjudge("judge", "verify", judge, "--key", public)
    assert verified.returncode == 0, verified.stderr
    assert f"signed by {public}" in verified.stdout
    listed = (judge / LIST_FILE).read_text()
    for name in (
        "judge.json",
        "adapter_model.safetensors",
        "head.safetensors",
        "base/tokenizer.json",
        "base/model.safetensors",
    ):
        assert f"  {name}\n" in listed

    for name, changed in (
        ("judge.json", lambda text: text.replace('"temperature": 1.0', '"temperature": 1.5')),
        ("adapter_config.json", lambda text: text.replace('"lora_alpha": 8', '"lora_alpha": 9')),
    ):
        text = (judge / name).read_text()
        assert changed(text) != text
        (judge / name).write_text(changed(text))
        broken = medjudge("judge", "verify", judge, "--key", public, "--json")
        assert broken.returncode == 1
        assert json.loads(broken.stdout)["changed"] == [name]
        (judge / name).write_text(text)
    (judge / "added_tokens.json").write_text("{}")
    assert signed_files(judge, read_card(judge)).changed == ("added_tokens.json",)


def test_another_key_and_a_rewritten_list_are_refused(
    judge: Path, key: Path, tmp_path: Path, medjudge: Callable
) -> None:
    medjudge("judge", "sign", judge, "--key", key)
    other = tmp_path / "other.pub"
    other.write_bytes(bytes(KeyPair.generate().public_key))
    refused(medjudge("judge", "verify", judge, "--key", other), f"--key {other}: ", "do not trust this judge")
    # Whoever changes a file and the list beside it cannot sign the list.
    (judge / LIST_FILE).write_bytes((judge / LIST_FILE).read_bytes() + b"\n")
    assert medjudge("judge", "verify", judge, "--key", key.with_suffix(".pub")).returncode == 2
    (judge / SIGNATURE_FILE).unlink()
    refused(medjudge("judge", "verify", judge, "--key", key.with_suffix(".pub")), "not signed, and --key")


def test_the_first_line_of_a_run_says_whether_the_judge_is_signed(
    judge: Path, key: Path, tmp_path: Path, medjudge: Callable
) -> None:
    def first_line() -> str:
        return introduction(resolve_judge(str(judge)), JudgeOptions(), LLMEVAL_MED, Run(tmp_path / "run"), {"m"})

    assert first_line().endswith("; unsigned")
    medjudge("judge", "sign", judge, "--key", key)
    assert first_line().endswith("; signed, key not checked")
    card = read_card(judge)
    card.model_copy(update={"note": "validated by nobody"}).write(judge)
    assert first_line().endswith("; changed since it was signed (judge.json)")


def test_a_run_records_whether_the_judge_was_signed_when_it_judged(
    judge: Path, key: Path, sample_run: Path, medjudge: Callable
) -> None:
    run = Run(sample_run)
    ref = resolve_judge(str(judge))
    shown = []
    for _ in range(2):
        with run.lock():
            record_judge(run, ref, JudgeOptions(), ref.identity(JudgeOptions(), LLMEVAL_MED))
        shown.append(signature_in(run, ref.name))
        medjudge("judge", "sign", judge, "--key", key)
    assert shown == ["unsigned", "signed, key not checked"]
    assert signature_in(run, "another") is None
