"""Models that think: a template written as Qwen3's, special and plain marks, servers that send the thought apart."""

import json
from pathlib import Path

import pytest
from calls import refused_with, worked
from chat_server import Act, completion
from tiny_models import build_tiny_lm

from medjudge.answer.conversation import Reply
from medjudge.answer.thinking import NO_ANSWER, ChatTemplate, ThinkingOptions, split_thought
from medjudge.answer.transformers_engine import TransformersEngine
from medjudge.errors import InputError
from medjudge.models.loading import load_tokenizer
from medjudge.store import Run

QWEN = (
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\\n\\n</think>\\n\\n' }}{%- endif %}"
    "{%- endif %}"
)
ALWAYS = QWEN.partition("{%- if enable")[0] + "{{- '<think>\\n' }}{%- endif %}"
USER = [{"role": "user", "content": "How much?"}]


@pytest.fixture(scope="module")
def thinker(tmp_path_factory) -> Path:
    folder = build_tiny_lm(tmp_path_factory.mktemp("models") / "thinker")
    tokenizer = load_tokenizer(str(folder))
    tokenizer.chat_template = QWEN
    tokenizer.save_pretrained(folder)
    return folder


def replies(template: ChatTemplate, text: str, ended: bool = True) -> Reply:
    tokens = template.tokenizer(text, add_special_tokens=False)["input_ids"]
    return template.reply(template.prompt(USER), tokens, ended)


def test_the_switch_goes_to_the_template_and_only_what_follows_the_thought_is_the_answer(thinker) -> None:
    tokenizer = load_tokenizer(str(thinker))
    ends = {}
    for mode in ("on", "off", "default"):
        template = ChatTemplate(tokenizer, 10, ThinkingOptions(mode, 100))
        ends[mode] = tokenizer.decode(template.prompt(USER).ids).partition("assistant\n")[2], template.most_tokens
    assert ends == {"on": ("", 110), "off": ("<think>\n\n</think>\n\n", 10), "default": ("", 110)}
    template = ChatTemplate(load_tokenizer(str(thinker)), 8, ThinkingOptions("on", 100))
    reply = replies(template, "<think>\nFour, or less?\n</think>\n\nAt most 4 g.")
    assert (reply.text, reply.thinking, reply.finish_reason) == ("At most 4 g.", "Four, or less?", "stop")
    endless = replies(template, "<think>\nFour, or less? Or", ended=False)
    assert (endless.text, endless.thinking, endless.finish_reason) == ("", "Four, or less? Or", NO_ANSWER)
    long = replies(template, "<think>So</think>" + "one two three four " * 20)
    assert long.finish_reason == "length"
    assert len(template.tokenizer(long.text)["input_ids"]) <= 8
    plain = replies(template, "At most 4 g.", ended=False)
    assert (plain.text, plain.thinking, plain.finish_reason) == ("At most 4 g.", None, "length")


def test_a_prompt_that_begins_the_thought_and_marks_that_are_special(thinker) -> None:
    tokenizer = load_tokenizer(str(thinker))
    tokenizer.chat_template = ALWAYS
    tokenizer.add_special_tokens({"additional_special_tokens": ["<think>", "</think>"]})
    template = ChatTemplate(tokenizer, 50)
    assert template.prompt(USER).within_thought
    assert replies(template, "Hm.</think>Four.<|im_end|>")[:2] == ("Four.", "stop")
    assert replies(template, "Hm.</think>Four.").thinking == "Hm."
    assert replies(template, "Hm. Four").finish_reason == NO_ANSWER


def test_a_template_without_a_switch_is_refused(tiny_lm) -> None:
    with pytest.raises(InputError, match=r"--thinking off: the chat template of .* has no switch"):
        TransformersEngine(str(tiny_lm), device="cpu", thinking=ThinkingOptions("off"))
    assert ChatTemplate(load_tokenizer(str(tiny_lm)), 7).most_tokens == 7


@pytest.mark.parametrize(
    ("text", "within", "parts"),
    [
        ("<think>a</think>b", False, ("a", "b")),
        ("<think></think>b", False, ("", "b")),
        ("a</think>b", True, ("a", "b")),
        ("a</think>b", False, (None, "a</think>b")),
        ("a", True, ("a", "")),
        ("b: write <think> in HTML", False, (None, "b: write <think> in HTML")),
        ("[THINK]a[/THINK]b", False, ("a", "b")),
    ],
)
def test_thought_and_answer_are_parted(text, within, parts) -> None:
    assert split_thought(text, within) == parts


def test_a_server_that_sends_the_thought_apart(medjudge, chat_server, jsonl, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")
    fields = {
        "q0": {"content": "Four.", "reasoning_content": "Hm."},
        "q1": {"content": None, "reasoning": "Hm, hm"},
        "q2": {"content": "<think>\nSo.\n</think>\nFive.", "reasoning": [{"type": "summary"}]},
    }

    def act(body: dict) -> Act:
        reply = json.loads(completion("", "length").data)
        reply["choices"][0]["message"] |= fields[body["messages"][-1]["content"]]
        return Act(json.dumps(reply).encode())

    server = chat_server(act)
    base = {"category": "MK", "language": "en"}
    file = jsonl("questions.jsonl", *[{**base, "id": name, "group": name, "prompt": name} for name in fields])
    words = ["--model", "openai:m", "--benchmark", file, "--run", "run", "--samples", 1, "--base-url", server.url]
    words += ["--max-new-tokens", 10, "--thinking-tokens", 90]
    worked(medjudge("answer", *words, "--thinking", "on", "--system", "Be brief."))
    answers = {answer.question_id: answer for answer in Run(tmp_path / "run").answers()}
    assert (answers["q0"].text, answers["q0"].thinking) == ("Four.", "Hm.")
    assert (answers["q1"].text, answers["q1"].thinking, answers["q1"].finish_reason) == ("", "Hm, hm", NO_ANSWER)
    assert (answers["q2"].text, answers["q2"].thinking) == ("Five.", "So.")
    assert {body["max_tokens"] for body in server.asked} == {100}
    assert server.asked[0]["chat_template_kwargs"] == {"enable_thinking": True}
    assert server.asked[0]["messages"][0] == {"role": "system", "content": "Be brief."}
    refused_with(medjudge("answer", *words, "--thinking", "off"), "with thinking on, and now it is off")
    assert medjudge("answer", *words, "--thinking", "maybe").returncode == 2
