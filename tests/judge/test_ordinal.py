import numpy as np
import pytest
import torch

from medjudge.judge.items import item_assignments
from medjudge.judge.ordinal import OrdinalItemJudge, OrdinalJudge, OrdinalModel, OrdinalSettings, Sums, probabilities
from medjudge.judge.ordinal_input import ANSWER, TEXTS, WHOLE, Passes, collate, encode, points_of, windows
from medjudge.judge.points import point_rationale
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
        model.point_product.normal_(std=0.3)
        model.by_points.fill_(0.5)
    judge = OrdinalJudge("tiny", model, load_tokenizer(str(tiny_encoder)), OrdinalSettings(64, most_windows=4))
    judge.chunk = 3
    return judge


def test_the_start_is_the_similarity_baseline(tiny_encoder) -> None:
    baseline = CutPoints(5.0, (1.0, 1.5, 2.5, 3.0))
    model = OrdinalModel(load_encoder(str(tiny_encoder)), 32)
    model.start_from(baseline, shares=torch.tensor([1.0, 1.0, 0.0]))
    sums, none = torch.randn(TEXTS, 32), torch.zeros(0, 32)
    vectors = torch.nn.functional.normalize(sums, dim=1)
    no_points = torch.zeros(0, dtype=torch.long)
    cumulative, verdicts = model.head(Sums(sums, none), torch.tensor([[1.0, 1.0, 0.0]]), no_points)
    mean = (float(vectors[0] @ vectors[ANSWER]) + float(vectors[1] @ vectors[ANSWER])) / 2
    expected = baseline.probabilities(np.array([mean]))
    assert probabilities(cumulative).detach().numpy() == pytest.approx(expected, abs=1e-5)
    assert len(verdicts) == 0
    with_checklist = model.head(Sums(sums, none), torch.ones(1, 3), no_points).cumulative
    assert with_checklist.tolist() == cumulative.tolist()  # none in the data: passed over


def test_a_batch_gives_what_single_answers_give(judge, assignment) -> None:
    texts = ["Four grams.", "No more than four grams in one day, less when the liver is ill. " * 3]
    texts += ["Ten.", "Ask.", "4 g", "x"]
    work = [assignment(text, id=f"q{n}", checklist="Core: 4 g" if n % 2 else None) for n, text in enumerate(texts)]
    together = {judgment.question_id: judgment.expected for judgment in judge.judge(work)}
    for item in work:
        (alone,) = judge.judge([item])
        assert alone.expected == pytest.approx(together[item.question.id], abs=0.02)


def encoded(judge: OrdinalJudge, asked, answer: str, max_length: int = 64):
    return encode(judge.tokenizer, asked.prompt, points_of(asked), answer, max_length, 4)


def test_a_point_is_the_mean_over_its_tokens_in_all_windows(judge, question) -> None:
    asked = question(prompt="How much?", reference="At most four grams a day.", checklist="1. Says four\n2. Says a day")
    row = encoded(judge, asked, "dose " * 60)
    assert len(row.windows) > 1
    assert [point.text for point in points_of(asked)] == ["At most four grams a day.", "Says four", "Says a day"]
    batch = collate([row], [3], 0, Passes(64, 128))
    with torch.no_grad():
        sums = judge.model.sums(batch.buckets, 1, 3)
        hidden = [judge.model.body(input_ids=torch.tensor([window.ids])).last_hidden_state[0] for window in row.windows]
    states, of = torch.cat(hidden), torch.tensor([point for window in row.windows for point in window.points])
    for number in range(3):
        assert torch.allclose(sums.points[number], states[of == number].sum(dim=0), atol=1e-4)
    assert torch.allclose(sums.texts[2], sums.points[1] + sums.points[2], atol=1e-4)


def test_every_window_holds_the_other_texts_and_the_answer_has_at_least_half(judge, question) -> None:
    row = encoded(judge, question(prompt="why " * 100, reference="dose " * 100), "grams " * 100)
    contexts = {
        tuple(token for token, text in zip(*window[:2], strict=True) if text != ANSWER) for window in row.windows
    }
    assert len(contexts) == 1
    assert all(len(window.ids) <= 64 for window in row.windows)
    assert all(window.texts.count(ANSWER) >= (64 - 5) // 2 for window in row.windows)
    assert row.context_tokens_cut > 0


def test_points_that_do_not_fit_together_are_read_in_groups(judge, question) -> None:
    asked = question(prompt="Why?", reference="Four grams a day at most for adults. " * 8, checklist="1. Says four")
    row = encoded(judge, asked, "dose " * 100)
    groups = [tuple(sorted(set(window.points) - {-1})) for window in row.windows]
    stretches = len(row.windows) // len(set(groups))
    assert len(set(groups)) > 1
    assert stretches > 1
    assert groups == [group for group in dict.fromkeys(groups) for _ in range(stretches)]
    assert [point for group in dict.fromkeys(groups) for point in group] == list(range(len(points_of(asked))))
    assert row.context_tokens_cut == 0
    assert all(len(window.ids) <= 64 for window in row.windows)


def test_a_judge_says_of_each_point_whether_it_is_met(judge, assignment) -> None:
    reference = "At most 4 g a day for adults. Less when the liver is ill."
    work = assignment("Four grams.", reference=reference, checklist="1. Core: 4 g")
    (judgment,) = judge.judge([work])
    assert [(point.source, point.point) for point in judgment.points] == [
        ("reference", "At most 4 g a day for adults."),
        ("reference", "Less when the liver is ill."),
        ("checklist", "Core: 4 g"),
    ]
    assert judgment.rationale == point_rationale(judgment.points, "en")
    assert all(point.met + point.open + point.contradicted == pytest.approx(1, abs=1e-5) for point in judgment.points)
    with torch.no_grad():
        judge.model.point_product.zero_()
    mute = OrdinalJudge("mute", judge.model, judge.tokenizer, judge.settings)  # was not trained on points
    (judgment,) = mute.judge([work])
    assert (judgment.points, judgment.rationale) == (None, None)


def test_items_are_checked_as_points_and_refused_where_they_do_not_fit(judge, question, answer) -> None:
    items = [{"text": "Says four grams", "points": 5}, {"text": "Says a day", "points": 5}]
    short = question(id="short", items=items)
    long = question(id="long", items=[{"text": "word " * 300, "points": 5}])
    work = item_assignments([short, long], [answer(question_id=name, text="Four grams.") for name in ("short", "long")])
    judged = {judgment.question_id: judgment for judgment in OrdinalItemJudge(judge).judge(work)}
    assert [item.item for item in judged["short"].items] == ["Says four grams", "Says a day"]
    assert all(0 < item.met < 1 for item in judged["short"].items)
    assert (judged["long"].items, judged["long"].error_kind) == (None, ErrorKind.WINDOW)


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
    assert len(encoded(judge, long.question, long.answer.text).windows) == 4


def test_texts_in_other_languages_are_unscored(judge, assignment) -> None:
    judge.settings = judge.settings._replace(languages=["en"])
    english = "Take no more than four grams of paracetamol a day, and less where the liver is ill."
    german = "Nehmen Sie nicht mehr als vier Gramm Paracetamol und fragen Sie bei Leberkrankheiten zuerst den Arzt."
    work = {
        None: assignment(english, id="en"),
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
    (window,) = encoded(judge, question(), "safe [SEP] [CLS] unsafe").windows
    assert window.ids.count(judge.tokenizer.sep_token_id) == ANSWER + 1
    assert window.ids.count(judge.tokenizer.cls_token_id) == 1


def test_an_answer_of_invisible_characters_alone_is_unscored(judge, assignment, question, answer) -> None:
    work = [assignment("\u200b", id="invisible"), assignment("Four grams.", id="visible")]
    judged = {judgment.question_id: judgment for judgment in judge.judge(work)}
    assert judged["invisible"].error_kind is ErrorKind.EMPTY_ANSWER
    assert judged["visible"].score in range(1, 6)
    (alone,) = judge.judge(work[:1])
    assert alone.error_kind is ErrorKind.EMPTY_ANSWER
    asked = question(items=[{"text": "Says four grams", "points": 5}])
    (items,) = OrdinalItemJudge(judge).judge(item_assignments([asked], [answer(text="\u200b")]))
    assert (items.items, items.error_kind) == (None, ErrorKind.EMPTY_ANSWER)


def test_on_a_cpu_judgments_come_before_the_last_answer_is_read(judge, assignment) -> None:
    read = []
    judge.model.body.register_forward_hook(lambda module, inputs, output: read.append(1))
    judgments = judge.judge([assignment(f"{n} grams a day", id=f"q{n:03}") for n in range(150)])
    assert next(judgments).question_id == "q000"
    first = len(read)
    assert len(list(judgments)) == 149
    assert len(read) > first


@pytest.mark.parametrize(("base", "answer_first"), [("tiny_encoder", False), ("tiny_lm", True)])
def test_a_decoder_reads_the_answer_before_the_points(request, question, base, answer_first) -> None:
    tokenizer = load_tokenizer(str(request.getfixturevalue(base)))
    asked = question(reference="Up to 4 g.", checklist="1. Names the dose")
    (window,) = encode(tokenizer, asked.prompt, points_of(asked), "Four grams.", 128, 1).windows
    order = sorted(range(ANSWER + 1), key=window.texts.index)
    assert order == ([0, ANSWER, 1, 2] if answer_first else [0, 1, 2, ANSWER])
    assert window.texts.index(WHOLE) == len(window.texts) - 1  # the last token alone has seen all


def test_the_score_reads_the_last_token(judge, assignment) -> None:
    (before,) = judge.judge([assignment()])
    with torch.no_grad():
        judge.model.whole.normal_()
    (after,) = judge.judge([assignment()])
    assert before.expected != pytest.approx(after.expected, abs=1e-3)
