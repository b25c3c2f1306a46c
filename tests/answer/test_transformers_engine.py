import shutil
import sys
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from calls import refused
from transformers.generation.logits_process import TopPLogitsWarper

from medjudge.answer.conversation import Request, answer_questions
from medjudge.answer.transformers_engine import SeededSampling, TransformersEngine, nucleus
from medjudge.answer.vllm_engine import Asked, VllmEngine, VllmMemory
from medjudge.models.batching import MemoryLimit
from medjudge.models.loading import load_tokenizer


def requests(*texts: str) -> list[Request]:
    return [Request([{"role": "user", "content": text}], seed) for seed, text in enumerate(texts)]


def texts_of(engine: TransformersEngine, work: list[Request]) -> list[str]:
    generated = dict(engine.answer(work))
    return [generated[index].text for index in range(len(work))]


@pytest.fixture(scope="module")
def engine(tiny_lm) -> TransformersEngine:
    loaded = TransformersEngine(str(tiny_lm), device="cpu", max_new_tokens=8)
    loaded.model.float()  # bfloat16 rounds differently in batches of other shapes; here equality is the point
    return loaded


def test_an_answer_depends_on_its_seed_and_not_on_its_neighbours(engine) -> None:
    work = requests("How much?", "A far longer question about the daily dose of paracetamol in adults.", "为什么？")
    together = texts_of(engine, work)
    assert together == [texts_of(engine, [assignment])[0] for assignment in work]
    assert together == texts_of(engine, work)
    other = [assignment._replace(seed=assignment.seed + 100) for assignment in work]
    assert texts_of(engine, other) != together


def test_greedy_is_the_likeliest_token_throughout_whatever_penalty_the_model_has(tiny_lm) -> None:
    greedy = TransformersEngine(str(tiny_lm), device="cpu", max_new_tokens=12, temperature=0)
    greedy.model.generation_config.repetition_penalty = 50.0
    greedy.model.float()
    (text,) = texts_of(greedy, requests("How much?"))
    ids = greedy.tokenizer.apply_chat_template(
        [{"role": "user", "content": "How much?"}], add_generation_prompt=True, return_dict=True
    )["input_ids"]
    prompt_tokens, end = len(ids), greedy.tokenizer.eos_token_id
    while len(ids) < prompt_tokens + 12 and ids[-1] != end:
        with torch.no_grad():
            ids = [*ids, int(greedy.model(torch.tensor([ids])).logits[0, -1].argmax())]
    assert text == greedy.tokenizer.decode(ids[prompt_tokens:], skip_special_tokens=True).strip()


def test_answers_that_do_not_fit_memory_are_made_in_smaller_batches(engine, monkeypatch) -> None:
    work = requests(*[f"Question {number}?" for number in range(6)])
    whole = texts_of(engine, work)
    generate, rows = engine.model.generate, []

    def little(ids: torch.Tensor, **options: object) -> torch.Tensor:
        rows.append(len(ids))
        if len(ids) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return generate(ids, **options)

    monkeypatch.setattr(engine.model, "generate", little)
    monkeypatch.setattr(engine, "memory", MemoryLimit(torch.device("cpu"), 1000))
    assert texts_of(engine, work) == whole
    assert rows[0] == 6
    assert max(rows[3:]) <= 2


def test_sampling_draws_from_the_softmax() -> None:
    logits = torch.log(torch.tensor([0.6, 0.3, 0.1]))
    sampling = SeededSampling(range(6000), temperature=1.0)
    drawn = Counter(sampling(None, logits.repeat(6000, 1)).argmax(-1).tolist())
    assert [drawn[n] / 6000 for n in range(3)] == pytest.approx([0.6, 0.3, 0.1], abs=0.02)
    unlikely = torch.log(torch.tensor([0.6, 0.36, 0.04]))  # the last is outside of the nucleus
    assert set(sampling(None, unlikely.repeat(6000, 1)).argmax(-1).tolist()) == {0, 1}


def test_a_prompt_that_does_not_fit_is_an_answer_with_its_reason(tiny_lm) -> None:
    small = TransformersEngine(str(tiny_lm), device="cpu", max_new_tokens=4)
    small.window = 40
    generated = dict(small.answer(requests("short", "long " * 60)))
    assert generated[0].finish_reason in ("stop", "length")
    assert generated[1].text == ""
    assert "does not fit the window of 40" in generated[1].finish_reason


def test_a_base_model_answers_through_the_plain_template_and_stops_at_the_next_turn(tiny_lm, tmp_path) -> None:
    base = tmp_path / "base"
    shutil.copytree(tiny_lm, base)
    (base / "chat_template.jinja").unlink()
    engine = TransformersEngine(str(base), device="cpu", max_new_tokens=8)
    ((_, reply),) = engine.answer(requests("short"))
    assert reply.finish_reason in ("stop", "length")
    chat = engine.template.prompt([{"role": "user", "content": "Which dose?"}])
    assert engine.tokenizer.decode(chat.ids) == "### user\nWhich dose?\n\n### assistant\n"
    written = engine.tokenizer("At most 4 g.\n\n### user\nAnd then?", add_special_tokens=False)["input_ids"]
    cut = engine.template.reply(chat, written, ended=False)
    assert (cut.text, cut.finish_reason) == ("At most 4 g.", "stop")


@pytest.mark.parametrize("spread", [4.0, 0.01], ids=["within the likeliest", "nearly uniform"])
def test_the_nucleus_is_that_of_transformers(spread: float, monkeypatch) -> None:
    torch.manual_seed(0)
    scores = torch.randn(3, 5000) * spread
    sorted_widths = []
    topk = torch.Tensor.topk
    monkeypatch.setattr(torch.Tensor, "topk", lambda self, k, dim: (sorted_widths.append(k), topk(self, k, dim=dim))[1])
    narrowed = nucleus(scores, 0.95)
    expected = TopPLogitsWarper(0.95)(torch.zeros(3, 1, dtype=torch.long), scores)
    assert torch.equal(narrowed, expected)
    assert (max(sorted_widths) == 5000) == (spread == 0.01)


def test_without_vllm_the_engine_is_refused_and_nothing_written(medjudge, tiny_lm, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    done = medjudge("answer", "--model", tiny_lm, "--limit", 1, "--engine", "vllm", "--run", tmp_path / "run")
    refused(done, "error: --engine vllm: vLLM is not installed; pip install 'medjudge[vllm]' (Linux with a GPU)\n")
    assert not (tmp_path / "run").exists()


class FakeVllm:
    """The part of vLLM's interface that the engine uses; it keeps how it was started and says one thing."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.options: dict[str, Any] = {}
        self.sampled: list[dict[str, Any]] = []

    def LLM(self, **options: Any) -> "FakeVllm":
        self.options = options
        self.tokenizer = load_tokenizer(options["model"])
        return self

    def SamplingParams(self, **options: Any) -> dict[str, Any]:
        return options

    def generate(self, prompts: list[Any], sampling: list[dict[str, Any]], use_tqdm: bool) -> list[Any]:
        self.sampled += sampling
        ids = self.tokenizer(self.reply, add_special_tokens=False)["input_ids"]
        completion = SimpleNamespace(token_ids=ids, finish_reason="stop")
        return [SimpleNamespace(outputs=[completion]) for _ in prompts]


def test_the_window_is_as_long_as_the_longest_conversation_needs(tiny_lm, question, monkeypatch) -> None:
    vllm = FakeVllm("<think>Hm.</think>Four.")
    monkeypatch.setattr("medjudge.answer.vllm_engine.require_vllm", lambda: vllm)
    questions = [question(id=f"c-{n}", group="c", round=n, prompt="How much of it? " * 10) for n in (1, 2)]
    asked, memory = Asked(questions, "Be brief."), VllmMemory(2, 0.8)
    engine = VllmEngine(str(tiny_lm), max_new_tokens=30, asked=asked, memory=memory)
    answers = list(answer_questions(engine, questions, 1, 0, system="Be brief."))
    assert [(answer.text, answer.thinking) for answer in answers] == [("Four.", "Hm.")] * 2
    assert (vllm.options["tensor_parallel_size"], vllm.options["gpu_memory_utilization"]) == (2, 0.8)
    assert 60 < vllm.options["max_model_len"] < 400  # of 32,768
    assert answers[1].tokens_in + 30 <= vllm.options["max_model_len"]
    assert {options["max_tokens"] for options in vllm.sampled} == {30}  # no turn was short of room
    # As in the other engine, the model's own penalty is left out.
    assert {options.get("repetition_penalty", 1.0) for options in vllm.sampled} == {1.0}
