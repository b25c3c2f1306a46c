import sys
from types import SimpleNamespace
from typing import Any

from medjudge.answer.conversation import answer_questions
from medjudge.answer.vllm_engine import Asked, VllmEngine, VllmMemory
from medjudge.models.loading import load_tokenizer


def test_without_vllm_the_engine_is_refused_and_nothing_written(medjudge, tiny_lm, tmp_path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "vllm", None)
    done = medjudge("answer", "--model", tiny_lm, "--limit", 1, "--engine", "vllm", "--run", tmp_path / "run")
    assert done.returncode == 2
    assert (
        done.stderr == "error: --engine vllm: vLLM is not installed; pip install 'medjudge[vllm]' (Linux with a GPU)\n"
    )
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
