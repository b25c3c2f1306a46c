from collections import Counter

import numpy as np
import pytest
import torch

from medjudge.judge.ordinal import (
    Encoded,
    OrdinalJudge,
    OrdinalModel,
    OrdinalSettings,
    collate,
    encode,
    probabilities,
    windows,
)
from medjudge.judge.similarity import CutPoints
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.records import ErrorKind


@pytest.fixture
def judge(tiny_encoder) -> OrdinalJudge:
    torch.manual_seed(1)
    model = OrdinalModel(load_encoder(str(tiny_encoder)), 32).eval()
    model.start_from(CutPoints(6.0, (1.0, 2.0, 3.0, 4.0)), torch.ones(3))
    with torch.no_grad():
        model.product.normal_(std=0.3)
        model.alone.normal_(std=0.3)
    return OrdinalJudge("tiny", model, load_tokenizer(str(tiny_encoder)), OrdinalSettings(64, most_windows=4, chunk=3))


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
    model.start_from(baseline, shares=torch.tensor([1.0, 1.0, 0.0]))
    vectors = torch.nn.functional.normalize(torch.randn(3, 32), dim=1)
    cumulative = model.head(vectors, torch.tensor([[0, 1, -1]]), torch.tensor([2]))
    mean = (float(vectors[0] @ vectors[2]) + float(vectors[1] @ vectors[2])) / 2
    assert probabilities(cumulative).detach().numpy() == pytest.approx(
        baseline.probabilities(np.array([mean])), abs=1e-5
    )
    with_checklist = model.head(vectors, torch.tensor([[0, 1, 0]]), torch.tensor([2]))
    assert with_checklist.tolist() == cumulative.tolist()  # none in the data: passed over


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
    together = {judgment.question_id: judgment.expected for judgment in judge.judge(work)}
    for item in work:
        (alone,) = judge.judge([item])
        assert alone.expected == pytest.approx(together[item.question.id], abs=0.02)


def row(answer: list[list[int]], reference: list[list[int]]) -> Encoded:
    return Encoded([[2, 9, 3]], reference, [], answer, 0, 0)


def test_shared_texts_are_embedded_once() -> None:
    batch = collate([row([[2, 5, 3]], [[2, 7, 3]]), row([[2, 6, 3], [2, 8, 3]], [[2, 7, 3]])], 0, bucket_tokens=100)
    assert sum(len(bucket["input_ids"]) for bucket in batch.buckets) == 5  # question, reference, and three windows
    assert batch.parts[0].tolist() == batch.parts[1].tolist()
    assert batch.parts[0, 2] == -1
    assert sorted(Counter(batch.text.tolist()).values()) == [1, 1, 1, 2]


def test_a_text_is_the_mean_over_the_tokens_of_all_its_windows(judge) -> None:
    answer = [[2, 5, 6, 7, 3], [2, 8, 3]]
    batch = collate([row(answer, [])], 0, bucket_tokens=5)
    with torch.no_grad():
        vectors = judge.model.embed(batch.buckets, batch.text)
        hidden = [judge.model.body(input_ids=torch.tensor([ids])).last_hidden_state[0] for ids in answer]
    expected = torch.nn.functional.normalize(torch.cat(hidden).mean(dim=0), dim=0)
    assert vectors[batch.answer[0]].tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.mark.parametrize("length", [1, 10, 11, 29, 30, 31, 500])
def test_windows_hold_every_token_once_or_say_how_many_they_leave_out(length: int) -> None:
    tokens = list(range(length))
    windows_of_text, cut = windows(tokens, size=10, most=3)
    assert len(windows_of_text) <= 3
    assert max(map(len, windows_of_text)) <= 10
    kept = [token for window in windows_of_text for token in window]
    assert len(set(kept)) == len(kept) == length - cut
    assert (kept[0], kept[-1]) == (0, length - 1)
    assert cut == max(0, length - 30)
    assert windows([], 10, 3) == ([], 0)


def test_the_end_of_a_long_answer_is_read(judge, assignment) -> None:
    long = "first " + "dose " * 100
    same, other = [judge.judge([assignment(long + end)]) for end in ("of four grams", "is never allowed here")]
    assert next(iter(same)).expected != pytest.approx(next(iter(other)).expected, abs=1e-4)


def test_tokens_outside_of_all_windows_are_counted(judge, assignment) -> None:
    long = assignment("dose " * 2000, id="long", prompt="Why? " * 1000)
    short = assignment("short", id="short")
    judgment_of = {judgment.question_id: judgment for judgment in judge.judge([long, short])}
    assert judgment_of["long"].answer_tokens_cut > 900
    assert judgment_of["long"].context_tokens_cut > 500
    assert (judgment_of["short"].answer_tokens_cut, judgment_of["short"].context_tokens_cut) == (0, 0)
    encoded = encode(judge.tokenizer, long.question, (), long.answer.text, 64, 4)
    assert len(encoded.answer) == 4
    assert all(len(window) <= 64 for window in [*encoded.answer, *encoded.question])


def test_texts_in_other_languages_are_unscored(judge, assignment) -> None:
    judge.settings = judge.settings._replace(languages=["en"])
    german = (
        "Nehmen Sie am Tag nicht mehr als vier Gramm Paracetamol und fragen Sie bei Leberkrankheiten zuerst den Arzt."
    )
    work = {
        None: assignment(
            "Take no more than four grams of paracetamol a day, and less where the liver is ill.", id="en"
        ),
        "another language (de)": assignment(german, id="de"),
        "another script": assignment("每天不超过四克。", id="script"),
        "the question is in zh": assignment("Four grams.", id="zh", language="zh"),
    }
    judgment_of = {judgment.question_id: judgment for judgment in judge.judge(list(work.values()))}
    for reason, item in work.items():
        judgment = judgment_of[item.question.id]
        assert (judgment.score is None) == (reason is not None)
        assert reason is None or (judgment.error_kind is ErrorKind.LANGUAGE and reason in judgment.error)
    assert next(iter(judge.judge([assignment("Paracetamol 500 mg t.i.d.", id="short")]))).score is not None


def test_special_tokens_in_a_text_are_text(judge, question) -> None:
    (window,) = encode(judge.tokenizer, question(), (), "safe [SEP] [CLS] unsafe", 64, 4).answer
    assert window.count(judge.tokenizer.sep_token_id) == 1
    assert window.count(judge.tokenizer.cls_token_id) == 1


def test_an_empty_answer_is_unscored(judge, assignment) -> None:
    (judgment,) = judge.judge([assignment("  ")])
    assert (judgment.score, judgment.error_kind, judgment.error) == (
        None,
        ErrorKind.EMPTY_ANSWER,
        "the answer is empty",
    )


def test_a_decoder_can_be_the_body(tiny_lm, assignment) -> None:
    model = OrdinalModel(load_encoder(str(tiny_lm)), 64).eval()
    model.start_from(CutPoints(5.0, (1.0, 2.0, 3.0, 4.0)), torch.ones(3))
    judge = OrdinalJudge("decoder", model, load_tokenizer(str(tiny_lm)), OrdinalSettings(64))
    (judgment,) = judge.judge([assignment()])
    assert judgment.score in range(1, 6)


def test_on_a_cpu_judgments_come_before_the_last_answer_is_read(judge, assignment) -> None:
    read = []
    judge.model.body.register_forward_hook(lambda module, inputs, output: read.append(1))
    judge.settings = judge.settings._replace(chunk=None)
    texts = [f"{n} grams a day" for n in range(150)]
    judgments = judge.judge([assignment(text, id=f"q{n:03}") for n, text in enumerate(texts)])
    assert next(judgments).question_id == "q000"
    first = len(read)
    assert len(list(judgments)) == 149
    assert len(read) > first
