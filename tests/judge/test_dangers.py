"""Dangerous sentences: how they are heard one by one, and what a judge that hears them says of an answer."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from test_reader_judge import question

from medjudge.errors import InputError
from medjudge.judge.adapter import ADAPTER_FILE
from medjudge.judge.dangers import HEAD_FILE, DangerDetector
from medjudge.judge.folder import load_judge
from medjudge.judge.protocol import Assignment
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.judge.states import FrozenEncoder
from medjudge.models.loading import load_encoder
from medjudge.records import Answer, Judgment

DANGER, SAFE = "Double the dose every hour.", "Take the drug with water."


@pytest.fixture
def listening(reader_folder: Path, reader_encoder: FrozenEncoder, reader_base: Path) -> Path:
    """A judge reader_folder with an adapter, and a head that tells one sentence from another."""
    torch.manual_seed(1)
    config = LoraConfig(
        r=2, lora_alpha=4, target_modules=["query", "value"], init_lora_weights=False, task_type="FEATURE_EXTRACTION"
    )
    body = get_peft_model(load_encoder(str(reader_base)), config)
    body.save_pretrained(str(reader_folder))
    detector = DangerDetector(body, reader_encoder.width).eval()
    vectors = torch.eye(reader_encoder.width)
    with torch.no_grad():
        detector.head.bias.zero_()
        sides = []
        for axis in vectors:
            detector.head.weight.copy_(axis[None])
            sides.append(detector.logits(reader_encoder.tokenizer, [DANGER, SAFE]))
        apart = torch.tensor([one - other for one, other in sides])
        detector.head.weight.copy_(apart[None])
        low, high = sorted(detector.logits(reader_encoder.tokenizer, [DANGER, SAFE]))
        detector.head.weight.mul_(20 / (high - low))
        detector.head.bias.fill_(-10 * (high + low) / (high - low))
    detector.save_head(reader_folder)
    return reader_folder


def judged(path: Path, text: str, **fields: str) -> Judgment:
    judge = load_judge(path, "reader", torch.device("cpu"))
    (judgment,) = judge.judge([Assignment(question(**fields), (), Answer(question_id="q", model="m", text=text))])
    return judgment


def test_a_dangerous_sentence_leaves_level_one_and_is_named(listening: Path) -> None:
    safe, dangerous = judged(listening, f"{SAFE} {SAFE}"), judged(listening, f"{SAFE} {DANGER}")
    assert dangerous.score == 1
    assert f"Dangerous: {DANGER}" in (dangerous.rationale or "")
    assert "Dangerous" not in (safe.rationale or "")
    assert (safe.expected or 0) > (dangerous.expected or 0)


def test_what_the_reference_says_is_no_danger(listening: Path) -> None:
    judgment = judged(listening, DANGER, reference=f"{DANGER} Then wait for two hours.")
    assert "Dangerous" not in (judgment.rationale or "")
    assert "Dangerous" in (judged(listening, DANGER, reference="Wait for two hours.").rationale or "")


def test_a_sentence_is_read_the_same_alone_and_among_others(listening: Path, reader_encoder: FrozenEncoder) -> None:
    judge = load_judge(listening, "reader", torch.device("cpu"))
    assert isinstance(judge, ReaderJudge)
    detector = judge.alarms.dangers
    assert detector is not None
    longer = f"{SAFE} {DANGER} " * 4
    alone = [float(detector.logits(reader_encoder.tokenizer, [text])[0]) for text in (DANGER, SAFE, longer)]
    together = detector.logits(reader_encoder.tokenizer, [longer, DANGER, SAFE, DANGER]).tolist()
    assert together == pytest.approx([alone[2], alone[0], alone[1], alone[0]], abs=0.3)
    assert alone[0] > alone[1] + 10


def test_the_encoder_of_the_states_keeps_its_weights(listening: Path, reader_base: Path) -> None:
    judge = load_judge(listening, "reader", torch.device("cpu"))
    assert isinstance(judge, ReaderJudge)
    published = load_encoder(str(reader_base)).state_dict()
    assert all(value.equal(published[name]) for name, value in judge.encoder.model.state_dict().items())
    assert judge.alarms.dangers is not None
    own = judge.alarms.dangers.body.get_input_embeddings().weight
    assert own.data_ptr() == judge.encoder.words.data_ptr()


@pytest.mark.parametrize("name", [HEAD_FILE, ADAPTER_FILE])
def test_a_missing_file_is_named(listening: Path, name: str) -> None:
    (listening / name).unlink()
    with pytest.raises(InputError, match=name):
        load_judge(listening, "reader", torch.device("cpu"))
