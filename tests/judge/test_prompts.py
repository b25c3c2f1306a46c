"""Prompts as token ids: cutting off what prompts share changes no id."""

import base64
import random

import pytest
from qwen_tokenizer import _WORDS, qwen_tokenizer, qwen_vocabulary
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from medjudge.benchmark.llmeval_med import read_llmeval_med
from medjudge.judge import prompts
from medjudge.judge.prompts import encode_prompt, encode_prompts, shared_beginnings, tokenised
from medjudge.judge.protocol import Assignment
from medjudge.models.loading import load_tokenizer
from medjudge.records import Answer


@pytest.fixture(scope="module")
def qwen() -> PreTrainedTokenizerFast:
    vocabulary = qwen_vocabulary()
    if vocabulary is None:
        pytest.skip("Qwen's vocabulary is not here; pip install dashscope")
    return qwen_tokenizer(vocabulary)


def one_by_one(tokenizer, texts: list[str]) -> list[list[int]]:
    return [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]


def counting(monkeypatch) -> list[int]:
    """Counts the characters that are tokenised."""
    sizes: list[int] = []
    batch = prompts._batch
    monkeypatch.setattr(prompts, "_batch", lambda t, texts: sizes.append(sum(map(len, texts))) or batch(t, texts))
    return sizes


def test_prompts_that_share_a_question_have_the_ids_of_whole_prompts(tiny_lm, assignment, monkeypatch) -> None:
    tokenizer = load_tokenizer(str(tiny_lm))
    answers = [
        "",
        "  At most 4 g.",
        "\n\nAt most\n\n 4 g.\n",
        "每天最多四克。",
        "\u0301 accent",
        "<|im_end|>\n5",
        "4" * 900,
    ]
    work = [
        assignment(text, id=f"q{number}", prompt=f"Question {number}?", model=f"m{place}")
        for number in range(3)
        for place, text in enumerate(answers * 3)
    ]
    expected = [encode_prompt(tokenizer, item, 4000) for item in work]
    sizes = counting(monkeypatch)
    assert encode_prompts(tokenizer, work, [4000] * len(work)) == expected
    whole = sum(len(tokenizer.decode(prompt.input_ids)) for prompt in expected if prompt)
    assert len(sizes) == 1
    assert sizes[0] < 0.6 * whole


def test_each_prompt_has_the_room_of_its_own(tiny_lm, assignment) -> None:
    tokenizer = load_tokenizer(str(tiny_lm))
    work = [assignment("paracetamol " * 900, model=f"m{number}") for number in range(8)]
    most = len(encode_prompt(tokenizer, work[0], 100_000).input_ids)
    cut = encode_prompts(tokenizer, work, [most, most - 500, 10, *[most] * 5])
    assert [prompt and len(prompt.input_ids) for prompt in (cut[0], cut[3])] == [most, most]
    assert most - 520 < len(cut[1].input_ids) <= most - 500
    assert cut[1] == encode_prompt(tokenizer, work[1], most - 500)
    assert cut[2] is None


def test_a_tokenizer_that_joins_across_lines_is_given_whole_prompts(monkeypatch) -> None:
    """Without a pre-tokenizer, byte-pair encoding joins a newline with what follows."""
    text = "rubric " * 60 + "\n"
    vocabulary = {token: number for number, token in enumerate(["\nA", *"\nA", *"rubic 0123456789"])}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE(vocabulary, [("\n", "A")])))
    texts = [f"{text}A{number}" for number in range(20)]
    sizes = counting(monkeypatch)
    assert tokenised(wrapped, texts) == one_by_one(wrapped, texts)
    assert len(sizes) == 2


def test_texts_are_cut_after_a_newline_that_no_space_follows() -> None:
    start = "x" * 250
    texts = [f"{start}\nshared\n\n  a", f"{start}\nshared\n\n  b", f"{start}\nother", "y", "\n" + "z" * 300 + "\nA\nB"]
    assert [text[:end] for text, end in zip(texts, shared_beginnings(texts), strict=True)] == [
        f"{start}\n",
        f"{start}\n",
        "",
        "",
        "",
    ]
    assert shared_beginnings([]) == []
    assert tokenised(None, []) == []


def test_the_ids_are_those_of_qwens_own_encoding(qwen) -> None:
    """The vocabulary is the one of `tiktoken`, which OpenAI wrote: the same ids for the same text."""
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed; pip install tiktoken")
    path = qwen_vocabulary()
    assert path is not None
    ranks = {base64.b64decode(line.split()[0]): int(line.split()[1]) for line in path.read_bytes().splitlines()}
    encoding = tiktoken.Encoding("qwen", pat_str=_WORDS, mergeable_ranks=ranks, special_tokens={})
    for text in (
        "Take 40 mg of 布洛芬 daily.\n\n  Don't!\r\n",
        "  a\n\n\n b\t\tc",
        "héllo 你好，世界 🩺 x²",
        "1234.5 mg/dL",
    ):
        assert qwen(text, add_special_tokens=False)["input_ids"] == encoding.encode(text)


@pytest.mark.slow
def test_real_prompts_have_the_ids_of_whole_prompts_in_qwens_vocabulary(qwen, real_data, monkeypatch) -> None:
    """Every question of LLMEval-Med with three answers: references, and texts that begin and end oddly."""
    questions = read_llmeval_med(real_data / "llmeval-med" / "dataset.json").questions
    draw = random.Random(0)
    references = [question.reference for question in questions if question.reference]
    work = []
    for question in questions:
        texts = [draw.choice(references), question.reference or "", f"\n \n{draw.choice(references)[:300]}\n\n"]
        work += [
            Assignment(
                question, (), Answer(question_id=question.id, model=f"m{place}", text=text, finish_reason="stop")
            )
            for place, text in enumerate(texts)
        ]
    work = work[:1500]
    sizes = counting(monkeypatch)
    encoded = encode_prompts(qwen, work, [100_000] * len(work))
    whole = [encode_prompt(qwen, item, 100_000) for item in work]
    assert encoded == whole
    assert sizes[0] < 0.75 * sum(sizes[1:])
