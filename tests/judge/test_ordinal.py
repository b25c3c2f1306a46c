import numpy as np
import pytest
import torch

from medjudge.base_models import load_encoder, load_tokenizer
from medjudge.judge.ordinal import OrdinalJudge, OrdinalModel, collate, encode, probabilities
from medjudge.judge.similarity import CutPoints


@pytest.fixture
def judge(tiny_encoder) -> OrdinalJudge:
    torch.manual_seed(1)
    model = OrdinalModel(load_encoder(str(tiny_encoder)), 32).eval()
    model.start_from(CutPoints(6.0, (1.0, 2.0, 3.0, 4.0)), 2.0)
    with torch.no_grad():
        model.product.normal_(std=0.3)
    return OrdinalJudge("tiny", model, load_tokenizer(str(tiny_encoder)), max_length=64, chunk=3)


def test_probabilities_come_from_ordered_cuts() -> None:
    rows = probabilities(torch.tensor([[3.0, 1.0, -1.0, -3.0], [9.0, 9.0, 9.0, 9.0]]))
    assert rows.sum(dim=1).tolist() == pytest.approx([1, 1])
    assert rows[0, 0].item() == pytest.approx(1 - torch.sigmoid(torch.tensor(3.0)).item())
    assert rows[1].argmax().item() == 4
    flat = probabilities(torch.tensor([[3.0, 1.0, -1.0, -3.0]]), temperature=1e6)
    assert flat[0, 0].item() == pytest.approx(0.5, abs=1e-3)


def test_the_start_is_the_similarity_baseline(tiny_encoder) -> None:
    baseline = CutPoints(5.0, (1.0, 1.5, 2.5, 3.0))
    model = OrdinalModel(load_encoder(str(tiny_encoder)), 32)
    model.start_from(baseline, parts_each=1.0)
    vectors = torch.nn.functional.normalize(torch.randn(2, 32), dim=1)
    cumulative = model.head(vectors, torch.tensor([[0, -1, -1]]), torch.tensor([1]))
    expected = baseline.probabilities(np.array([float(vectors[0] @ vectors[1])]))
    assert probabilities(cumulative).detach().numpy() == pytest.approx(expected, abs=1e-5)


def test_a_batch_gives_what_single_answers_give(judge, assignment) -> None:
    texts = [
        "Four grams.",
        "No more than four grams in one day, less when the liver is ill. " * 3,
        "Ten.",
        "Ask.",
        "4 g",
        "x",
    ]
    work = [assignment(text, id=f"q{n}", checklist="Core: 4 g" if n % 2 else None) for n, text in enumerate(texts)]
    together = {one.question_id: one.expected for one in judge.judge(work)}
    for one in work:
        (alone,) = judge.judge([one])
        assert alone.expected == pytest.approx(together[one.question.id], abs=0.02)


def test_shared_texts_are_embedded_once() -> None:
    question, first, second = [2, 9, 3], [2, 5, 3], [2, 6, 6, 3]
    batch = collate([((question, [], []), first), ((question, [], []), second)], pad_id=0, bucket_tokens=100)
    assert sum(len(bucket["input_ids"]) for bucket in batch.buckets) == 3
    assert batch.parts[0, 0] == batch.parts[1, 0]
    assert batch.parts[:, 1:].tolist() == [[-1, -1], [-1, -1]]


def test_a_long_answer_is_cut_in_its_middle_and_the_judgment_says_so(judge, assignment) -> None:
    long = assignment("first " + "dose " * 400 + "last", id="long")
    short = assignment("short", id="short")
    found = {one.question_id: one for one in judge.judge([long, short])}
    assert found["long"].answer_tokens_cut > 300
    assert found["short"].answer_tokens_cut == 0
    ids = encode(judge.tokenizer, long.question, (), long.answer.text, 64).answer
    assert len(ids) == 64
    whole = judge.tokenizer(long.answer.text)["input_ids"]
    assert (ids[:20], ids[-20:]) == (whole[:20], whole[-20:])


def test_special_tokens_in_a_text_are_text(judge, question) -> None:
    encoded = encode(judge.tokenizer, question(), (), "safe [SEP] [CLS] unsafe", 64)
    assert encoded.answer.count(judge.tokenizer.sep_token_id) == 1
    assert encoded.answer.count(judge.tokenizer.cls_token_id) == 1


def test_an_empty_answer_is_unscored(judge, assignment) -> None:
    (one,) = judge.judge([assignment("  ")])
    assert (one.score, one.error) == (None, "the answer is empty")


def test_a_decoder_can_be_the_body(tiny_lm, assignment) -> None:
    model = OrdinalModel(load_encoder(str(tiny_lm)), 64).eval()
    model.start_from(CutPoints(5.0, (1.0, 2.0, 3.0, 4.0)), 2.0)
    judge = OrdinalJudge("decoder", model, load_tokenizer(str(tiny_lm)), max_length=64)
    (one,) = judge.judge([assignment()])
    assert one.score in range(1, 6)
