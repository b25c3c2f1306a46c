"""Judges of pairs: the prompt, what is read from a reply, a server on loopback, a tiny language model."""

import json

import pytest
import torch
from chat_server import completion

from medjudge.chat_api.client import Server
from medjudge.judge.api_pairs import ApiPairJudge
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.generative_pairs import LABELS, GenerativePairJudge, pair_prompts
from medjudge.judge.pairs import PairAssignment
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.pair_records import PairJudgment
from medjudge.records import ErrorKind
from medjudge.rubrics.pair_prompt import read_pair_reply, render_pair


@pytest.fixture
def pair(question, answer):
    """Builds a pair of the models a and b from two texts, with any field of the question."""

    def build(first: str = "At most 4 g.", second: str = "At most 40 g.", **fields: object) -> PairAssignment:
        asked = question(**fields)
        answers = [
            answer(question_id=asked.id, model=model, text=text, finish_reason=None if text.strip() else "stop")
            for model, text in (("a", first), ("b", second))
        ]
        return PairAssignment(asked, (), *answers)

    return build


def test_both_languages_ask_for_the_letters_and_fence_both_answers(pair) -> None:
    for language, verdict in (("en", "Verdict: X"), ("zh", "结论：X")):
        item = pair("FIRST {{ 7 * 7 }}", "SECOND <|im_end|>", language=language)
        prompt = render_pair(item.question, (), item.first.text, item.second.text, "reason-first")
        assert verdict in prompt.system
        assert prompt.user.index("FIRST {{ 7 * 7 }}") < prompt.user.index("SECOND")
        assert "<|im_end|>" not in prompt.user
        assert prompt.user.count("<<<ANSWER A ") == prompt.user.count("<<<END B ") == 1
        assert "model" not in prompt.user  # names are not shown


@pytest.mark.parametrize(
    ("reply", "preferred"),
    [
        ("A names the dose.\nVerdict: A", "first"),
        ("Both miss it.\n**Verdict: tie**", "tie"),
        ("理由。\n结论：B。", "second"),
        ("结论：平局", "tie"),
        ("Verdict: [[C]]", "tie"),
        ('{"rationale": "r", "verdict": "B"}', "second"),
        ('```json\n{"rationale": "r", "verdict": "B"}\n```', "second"),
        ('{"verdict": "b"}', "second"),
        ('{"reason": "line 1\nline 2", "verdict": "B",}', "second"),
        ('{"verdict": "A", "verdict": "B"}', None),
        ("<think>Verdict: A</think>\nVerdict: B", "second"),
        ("Verdict: A\nVerdict: B", None),
        ("Answer A is better.", None),
        ("Verdict: A or B", None),
        ('{"rationale": "r", "verdict": "neither"}', None),
        ("<think>Verdict: A", None),
    ],
)
def test_the_verdict_is_read_from_a_line_of_its_own(reply: str, preferred: str | None) -> None:
    verdict = read_pair_reply(reply)
    assert verdict.preferred == preferred
    assert (verdict.problem is None) == (preferred is not None)


def test_a_server_compares_both_orders_and_gets_one_reminder(pair, chat_server, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")

    def act(body: dict):
        if len(body["messages"]) > 2:
            return completion("In short.\nVerdict: tie")
        user = body["messages"][1]["content"]
        if "UNCLEAR" in user:
            return completion("Hard to say.")
        better = "A" if user.index("4 g.") < user.index("40 g.") else "B"
        return completion(json.dumps({"rationale": "The dose.", "verdict": better}))

    server = chat_server(act)
    work = [pair(id="q1"), pair(id="q1").swapped(), pair("UNCLEAR", "UNCLEAR", id="q2"), pair(" ", id="q3")]
    judge = ApiPairJudge("gpt", Server(server.url))
    of = {(judgment.question_id, judgment.first): judgment for judgment in judge.judge_pairs(work)}
    assert of["q1", "a"].preferred == "first"
    assert of["q1", "b"].preferred == "second"
    assert of["q1", "a"].rationale == "The dose."
    assert of["q2", "a"].preferred == "tie"
    assert "[asked again]" in of["q2", "a"].raw
    assert of["q3", "a"].error_kind is ErrorKind.EMPTY_ANSWER
    assert "the answer of a is empty" in of["q3", "a"].error
    assert len(server.asked) == 4
    schema = server.asked[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["verdict"]["enum"] == ["A", "B", "tie"]


def test_a_reply_that_stays_unreadable_has_its_reason(pair, chat_server, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")
    server = chat_server(lambda body: completion("I cannot decide."))
    (judgment,) = ApiPairJudge("gpt", Server(server.url)).judge_pairs([pair()])
    assert (judgment.preferred, judgment.error_kind) == (None, ErrorKind.UNREADABLE_REPLY)
    assert judgment.error.endswith("after a reminder")
    assert not judgment.retryable


@pytest.fixture
def tiny_judge(tiny_lm) -> GenerativeJudge:
    model = load_causal_lm(str(tiny_lm)).eval()
    return GenerativeJudge("tiny", model, load_tokenizer(str(tiny_lm)), GenerativeSettings(4096, batch_tokens=6000))


def test_batched_letters_equal_a_plain_pass(tiny_judge, pair) -> None:
    work = [pair(id="q1"), pair(id="q1").swapped(), pair("四克。", "No more than four grams. " * 30, id="q2")]
    of = {(item.question_id, item.first): item for item in GenerativePairJudge(tiny_judge).judge_pairs(work)}
    for item in work:
        prompt = render_pair(item.question, (), item.first.text, item.second.text, "score-first")
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        text = tiny_judge.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        ids = tiny_judge.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            logits = tiny_judge.model(ids).logits[0, -1]
        letters = [tiny_judge.tokenizer.convert_tokens_to_ids(label) for label in LABELS]
        expected = logits[letters].softmax(-1).tolist()
        assert of[item.question.id, item.first.model].probabilities == pytest.approx(expected, abs=1e-4)


def test_answers_that_do_not_fit_lose_their_middle_and_the_longer_one_first(tiny_judge, pair) -> None:
    item = pair("SHORT answer.", "BEGIN " + "paracetamol " * 3000 + " END", reference="REFERENCE " * 30)
    (prompt,) = pair_prompts(tiny_judge.tokenizer, [item], 3000)
    assert 2900 < len(prompt.input_ids) <= 3000
    text = tiny_judge.tokenizer.decode(prompt.input_ids)
    for whole in (
        "SHORT answer.",
        "BEGIN",
        "END",
        "REFERENCE " * 29,
        f"[... {prompt.answer_tokens_cut} tokens left out",
    ):
        assert whole in text
    (both,) = pair_prompts(tiny_judge.tokenizer, [pair("one " * 4000, "two " * 4000)], 3000)
    text = tiny_judge.tokenizer.decode(both.input_ids)
    assert abs(text.count("one ") - text.count("two ")) < 60
    tiny_judge.settings = tiny_judge.settings._replace(max_length=300)
    (judgment,) = GenerativePairJudge(tiny_judge).judge_pairs([item])
    assert judgment.error_kind is ErrorKind.WINDOW


def test_a_pair_of_one_model_or_without_a_reason_is_refused() -> None:
    fields = {"question_id": "q", "first": "a", "second": "b", "judge": "j"}
    with pytest.raises(ValueError, match="both a"):
        PairJudgment.model_validate({**fields, "second": "a", "preferred": "tie"})
    with pytest.raises(ValueError, match="preferred or an error"):
        PairJudgment.model_validate({**fields, "preferred": None})
    with pytest.raises(ValueError, match="add up"):
        PairJudgment.model_validate({**fields, "preferred": "tie", "probabilities": [0.5, 0.1, 0.1]})
