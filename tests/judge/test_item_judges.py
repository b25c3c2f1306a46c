"""Judges of items: the prompt, what is read from a reply, a server on loopback, a tiny language model."""

import json
import re

import numpy as np
import pytest
import torch
from chat_server import completion

from medjudge.chat_api.client import Server
from medjudge.item_records import ItemJudgment
from medjudge.judge.api_items import ApiItemJudge, item_order
from medjudge.judge.generative import GenerativeJudge, GenerativeSettings
from medjudge.judge.generative_items import LABELS, GenerativeItemJudge, item_prompts
from medjudge.judge.items import ItemAssignment, item_assignments
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.records import ErrorKind
from medjudge.rubrics.item_prompt import read_item_reply, render_items

TEXTS = ("Names 4 g a day", "Mentions alcohol", "Recommends more than 4 g", "Asks for the weight")


@pytest.fixture
def to_check(question, answer):
    """Builds an answer to check against four items, with any field of the question."""

    def build(text: str = "At most 4 g.", model: str = "m", **fields: object) -> ItemAssignment:
        items = [{"text": item, "points": -5 if "more" in item else 5} for item in TEXTS]
        asked = question(**{"items": items, **fields})
        given = answer(question_id=asked.id, model=model, text=text, finish_reason=None if text.strip() else "stop")
        (one,) = item_assignments([asked], [given])
        return one

    return build


def test_only_answers_to_questions_with_items_are_checked(question, answer) -> None:
    questions = [
        question(id="a", checklist="1. One\n2. Two"),
        question(id="b"),
        question(id="c", checklist="Be right."),
    ]
    work = item_assignments(questions, [answer(question_id=name) for name in "abc"])
    assert [(one.question.id, [item.text for item in one.items]) for one in work] == [("a", ["One", "Two"])]


def test_both_languages_fence_the_answer_and_list_the_items_on_lines_of_their_own(to_check) -> None:
    for language, letter in (("en", "Y if"), ("zh", "则写Y")):
        one = to_check("ANSWER {{ 7 * 7 }} <|im_end|>", language=language)
        prompt = render_items(one.question, (), one.answer.text, ["First\n<|im_end|>", "Second"])
        assert '"certainty": 90' in prompt.system
        assert "1. First < |im_end|>\n2. Second\n" in prompt.user
        assert "ANSWER {{ 7 * 7 }}" in prompt.user
        assert "<|im_end|>" not in prompt.user
        single = render_items(one.question, (), one.answer.text)
        assert letter in single.system
        assert not re.search("# Criteria|# 标准", single.user)


def reply(*verdicts: tuple[int, bool, float]) -> str:
    return json.dumps(
        {"verdicts": [{"number": n, "reason": "r", "met": met, "certainty": sure} for n, met, sure in verdicts]}
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Both are met.", "no JSON object"),
        ("[]", "no JSON object"),
        ('{"verdicts": 1}', "no list of verdicts"),
        ('{"verdicts": [], "verdicts": []}', "names a field twice"),
        (reply((1, True, 90)), "no verdict on criterion 2"),
        (reply((1, True, 90), (1, True, 90), (2, True, 90)), "criterion 1 has two verdicts"),
        (reply((1, True, 90), (3, True, 90)), "verdict 2 has no number from 1 to 2"),
        (reply((1, True, 90), (2, True, 40)), "criterion 2: certainty is not from 50 to 100"),
        ('{"verdicts": [{"number": 1, "met": "yes", "certainty": 90}]}', "criterion 1: met is neither"),
        ("<think>" + reply((1, True, 90), (2, True, 90)), "never ends"),
    ],
)
def test_a_reply_that_lacks_a_verdict_is_not_read_in_part(text: str, problem: str) -> None:
    read = read_item_reply(text, 2)
    assert read.met is None
    assert problem in str(read.problem)


def test_certainty_becomes_the_probability_that_an_item_is_met() -> None:
    whole = reply((2, False, 80), (1, True, 90))
    loose = whole.replace("}]", "},]").replace('"r"', '"line 1\nline 2"').replace(": 80", ': "80"')
    for text in (whole, f"```json\n{whole}\n```", f"<think>{reply((1, False, 99))}</think>\n{whole}", loose):
        assert read_item_reply(text, 2).met == pytest.approx([0.9, 0.2])


def test_a_server_checks_all_items_in_one_request_in_a_seeded_order(to_check, chat_server, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")

    def act(body: dict):
        if len(body["messages"]) > 2:
            return completion(reply(*((number, False, 50) for number in range(1, 5))))
        user = body["messages"][1]["content"]
        if "UNCLEAR" in user:
            return completion(reply((1, True, 90)))
        shown = re.findall(r"^(\d)\. (.*)$", user, re.MULTILINE)
        return completion(reply(*((int(number), text == TEXTS[0], 90) for number, text in shown)))

    server = chat_server(act)
    work = [to_check(id=f"q{number}") for number in range(6)]
    work += [to_check("UNCLEAR", id="unclear"), to_check(" ", id="empty")]
    of = {one.question_id: one for one in ApiItemJudge("gpt", Server(server.url)).judge_items(work)}
    for number in range(6):
        assert [verdict.item for verdict in of[f"q{number}"].items] == list(TEXTS)
        assert [verdict.met for verdict in of[f"q{number}"].items] == pytest.approx([0.9, 0.1, 0.1, 0.1])
        assert [verdict.is_met for verdict in of[f"q{number}"].items] == [True, False, False, False]
    assert [verdict.met for verdict in of["unclear"].items] == [0.5] * 4
    assert "[asked again]" in of["unclear"].raw
    assert of["empty"].error_kind is ErrorKind.EMPTY_ANSWER
    assert len(server.asked) == 8
    (again,) = [body for body in server.asked if len(body["messages"]) > 2]
    assert "no verdict on criterion 2, 3, 4" in again["messages"][3]["content"]
    assert "verdicts" in server.asked[0]["response_format"]["json_schema"]["schema"]["properties"]
    orders = {tuple(item_order(one, 0)) for one in work}
    assert len(orders) > 2
    assert [item_order(one, 0) for one in work] == [item_order(one, 0) for one in work]
    assert [item_order(one, 0) for one in work] != [item_order(one, 1) for one in work]


def test_a_reply_that_stays_unreadable_has_its_reason_and_a_failed_request_is_sent_again(
    to_check, chat_server, monkeypatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")
    server = chat_server(lambda body: completion("All of them."))
    (one,) = ApiItemJudge("gpt", Server(server.url)).judge_items([to_check()])
    assert (one.items, one.error_kind, one.retryable) == (None, ErrorKind.UNREADABLE_REPLY, False)
    assert one.error == "unreadable reply: the reply is no JSON object, after a reminder"


@pytest.fixture
def tiny_judge(tiny_lm) -> GenerativeJudge:
    model = load_causal_lm(str(tiny_lm)).eval()
    return GenerativeJudge("tiny", model, load_tokenizer(str(tiny_lm)), GenerativeSettings(4096, batch_tokens=6000))


def test_items_side_by_side_equal_a_plain_pass_for_each(tiny_judge, to_check) -> None:
    work = [
        to_check(id="q1"),
        to_check("No more than four grams. " * 20, "n", id="q1"),
        to_check(
            "四克。", id="q2", items=[{"text": "提到四克", "points": 1}, {"text": "A\nlong item " * 9, "points": 1}]
        ),
    ]
    of = {(one.question_id, one.model): one for one in GenerativeItemJudge(tiny_judge).judge_items(work)}
    letters = [tiny_judge.tokenizer.convert_tokens_to_ids(label) for label in LABELS]
    for one in work:
        prompt = render_items(one.question, (), one.answer.text)
        messages = [{"role": "system", "content": prompt.system}, {"role": "user", "content": prompt.user}]
        text = tiny_judge.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        for item, verdict in zip(one.items, of[one.question.id, one.answer.model].items, strict=True):
            whole = f"{text}{' '.join(item.text.split())}\n"
            ids = tiny_judge.tokenizer(whole, add_special_tokens=False, return_tensors="pt")["input_ids"]
            with torch.no_grad():
                logits = tiny_judge.model(ids).logits[0, -1]
            assert verdict.item == item.text
            assert verdict.met == pytest.approx(logits[letters].softmax(-1)[1].item(), abs=1e-4)


def test_without_masked_attention_items_are_read_apart_with_the_same_result(tiny_judge, to_check) -> None:
    work = [to_check(id="q1"), to_check("Forty.", id="q2"), to_check(id="q3", items=[{"text": "One", "points": 1}])]
    judge = GenerativeItemJudge(tiny_judge)
    prompts = item_prompts(tiny_judge.tokenizer, work, 4000)
    shared = dict(judge.read(prompts))
    tiny_judge.shares = False
    apart = dict(judge.read(prompts))
    assert shared.keys() == apart.keys() == {0, 1, 2}
    for index in shared:
        assert np.allclose(shared[index], apart[index], atol=1e-4)


def test_an_answer_that_does_not_fit_loses_its_middle(tiny_judge, to_check) -> None:
    one = to_check("BEGIN " + "paracetamol " * 3000 + " END")
    (prompt,) = item_prompts(tiny_judge.tokenizer, [one], 2000)
    assert 1900 < len(prompt.input_ids) + max(map(len, prompt.items)) <= 2000
    assert f"[... {prompt.answer_tokens_cut} tokens left out" in tiny_judge.tokenizer.decode(prompt.input_ids)
    tiny_judge.settings = tiny_judge.settings._replace(max_length=300)
    (judgment,) = GenerativeItemJudge(tiny_judge).judge_items([one])
    assert judgment.error_kind is ErrorKind.WINDOW


def test_verdicts_need_items_or_a_reason() -> None:
    with pytest.raises(ValueError, match="items, or an error"):
        ItemJudgment.model_validate({"question_id": "q", "model": "m", "judge": "j", "items": None})
