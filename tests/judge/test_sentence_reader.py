"""Sentences read one by one: dangers and asides, and what a judge that hears them says of an answer."""

from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from test_reader_judge import question

from medjudge.errors import InputError
from medjudge.judge.adapter import ADAPTER_FILE
from medjudge.judge.folder import load_judge
from medjudge.judge.protocol import Assignment
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.judge.sentence_reader import MOST_TOKENS, SENTENCES_FILE, SentenceReader, token_rows
from medjudge.judge.states import FrozenEncoder
from medjudge.models.loading import load_encoder
from medjudge.models.padding import pad_right
from medjudge.records import Answer, Judgment

DANGER, SAFE, ASIDE = "Double the dose every hour.", "Take the drug with water.", "Thank you so much for writing."


@pytest.fixture
def listening(reader_folder: Path, reader_encoder: FrozenEncoder, reader_base: Path) -> Path:
    """A judge reader_folder with an adapter, and a head that tells one sentence from another."""
    torch.manual_seed(1)
    config = LoraConfig(
        r=2, lora_alpha=4, target_modules=["query", "value"], init_lora_weights=False, task_type="FEATURE_EXTRACTION"
    )
    body = get_peft_model(load_encoder(str(reader_base)), config)
    body.save_pretrained(str(reader_folder))
    reader = SentenceReader(body, reader_encoder.width).eval()
    states = reader.means(*_tokens(reader_encoder, [DANGER, SAFE, ASIDE])).detach()
    with torch.no_grad():
        weight, bias = _telling_apart(states, [10.0, -10.0, -10.0])
        reader.danger.weight.copy_(weight[None])
        reader.danger.bias.fill_(bias)
        weight, bias = _telling_apart(states[:, : -reader.width], [-10.0, -10.0, 10.0])
        first, _, last = reader.aside
        first.weight[:2].copy_(torch.stack([weight, -weight]))
        first.bias[:2].copy_(torch.tensor([bias, -bias]))
        last.weight[0, :2].copy_(torch.tensor([1.0, -1.0]))
        last.bias.zero_()
    reader.save_heads(reader_folder)
    return reader_folder


def _tokens(encoder: FrozenEncoder, texts: list[str]) -> tuple[torch.Tensor, torch.Tensor]:
    return pad_right(token_rows(encoder.tokenizer, texts), encoder.tokenizer.pad_token_id)


def _telling_apart(vectors: torch.Tensor, logits: list[float]) -> tuple[torch.Tensor, float]:
    """The weight and bias that give vectors these logits."""
    centre = vectors.mean(dim=0)
    weight = torch.linalg.lstsq(vectors - centre, torch.tensor(logits) - sum(logits) / len(logits)).solution
    return weight, sum(logits) / len(logits) - float(centre @ weight)


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
    reader = judge.sentences
    assert reader is not None
    longer = f"{SAFE} {DANGER} " * 4
    alone = [reader.read(reader_encoder.tokenizer, [text])[text] for text in (DANGER, SAFE, longer)]
    together = reader.read(reader_encoder.tokenizer, [longer, DANGER, SAFE, DANGER])
    assert list(together) == [longer, DANGER, SAFE]
    for text, logits in zip((DANGER, SAFE, longer), alone, strict=True):
        assert together[text] == pytest.approx(logits, abs=0.3)
    assert alone[0].danger > alone[1].danger + 10


def test_an_aside_changes_nothing_and_what_is_beside_it_is_read_anew(listening: Path) -> None:
    reference = "Take it with water."
    plain = judged(listening, f"{SAFE} Rest for a day.", reference=reference)
    assert plain.points
    polite = judged(listening, f"{ASIDE} {SAFE} Rest for a day.", reference=reference)
    assert polite.probabilities == pytest.approx(plain.probabilities, abs=5e-3)
    assert [point.met for point in polite.points or []] == pytest.approx([plain.points[0].met], abs=1e-3)


def test_a_danger_that_the_encoder_does_not_reach_is_heard(listening: Path) -> None:
    judgment = judged(listening, f"{'Rest and wait and drink. Then rest more. ' * 200}{DANGER}")
    assert judgment.score == 1
    assert DANGER in (judgment.rationale or "")


def test_a_sentence_that_is_read_in_part_is_no_aside(listening: Path, reader_encoder: FrozenEncoder) -> None:
    judge = load_judge(listening, "reader", torch.device("cpu"))
    assert isinstance(judge, ReaderJudge)
    assert judge.sentences is not None
    with torch.no_grad():
        judge.sentences.aside[-1].weight.zero_()
        judge.sentences.aside[-1].bias.fill_(5.0)
    long = "thank you " * MOST_TOKENS
    found = judge.sentences.read(reader_encoder.tokenizer, [ASIDE, long])
    assert found[ASIDE].aside > 0 > found[long].aside


def test_the_encoder_of_the_states_keeps_its_weights(listening: Path, reader_base: Path) -> None:
    judge = load_judge(listening, "reader", torch.device("cpu"))
    assert isinstance(judge, ReaderJudge)
    published = load_encoder(str(reader_base)).state_dict()
    assert all(value.equal(published[name]) for name, value in judge.encoder.model.state_dict().items())
    assert judge.sentences is not None
    own = judge.sentences.body.get_input_embeddings().weight
    assert own.data_ptr() == judge.encoder.words.data_ptr()


def test_heads_that_do_not_fit_are_refused(listening: Path) -> None:
    heads = load_file(listening / SENTENCES_FILE)
    word = {"body.embeddings.word_embeddings.weight": torch.zeros(3)}
    missing = {name: value for name, value in heads.items() if name != "aside.0.bias"}
    for wrong in (heads | word, missing, heads | {"danger.bias": torch.tensor([float("nan")])}):
        save_file(wrong, listening / SENTENCES_FILE)
        with pytest.raises(InputError, match=SENTENCES_FILE):
            load_judge(listening, "reader", torch.device("cpu"))


@pytest.mark.parametrize("name", [SENTENCES_FILE, ADAPTER_FILE])
def test_a_missing_file_is_named(listening: Path, name: str) -> None:
    (listening / name).unlink()
    with pytest.raises(InputError, match=name):
        load_judge(listening, "reader", torch.device("cpu"))
