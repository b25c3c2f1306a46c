"""Answers with vLLM's offline engine: the same protocol as `TransformersEngine`, on a GPU that vLLM supports."""

import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from medjudge.answer.conversation import Reply, Request
from medjudge.answer.thinking import ChatTemplate, ThinkingOptions
from medjudge.answer.transformers_engine import TOP_P, chat_tokenizer
from medjudge.errors import InputError
from medjudge.models.loading import model_name, window
from medjudge.records import Question, conversations_of
from medjudge.screen import progress_bar

_CHUNK = 512
"""Requests passed to vLLM together: more than it runs in parallel, so it is never idle. This many answers at most are
lost if the process is killed."""


def require_vllm() -> Any:
    """Import vLLM; raise InputError if it is not installed."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is reserved for --json
    try:
        import vllm
    except ImportError:
        raise InputError(
            "--engine vllm: vLLM is not installed; pip install 'medjudge[vllm]' (Linux with a GPU)"
        ) from None
    return vllm


class VllmMemory(NamedTuple):
    """Use of the GPUs by vLLM.

    Attributes:
        tensor_parallel: The number of GPUs that share the model.
        gpu_share: The share of each GPU's memory that vLLM takes, for weights and cache.
    """

    tensor_parallel: int = 1
    gpu_share: float = 0.9


class Asked(NamedTuple):
    """The questions that a model will be asked, and the system message before each conversation."""

    questions: Sequence[Question]
    system: str | None = None


class VllmEngine:
    """A chat model in vLLM.

    Args:
        temperature: The sampling temperature; 0 for greedy decoding.
        asked: What will be asked. The window is made as long as their longest conversation needs: vLLM wants cache
            for a whole window, and Qwen3-8B's own window does not fit a GPU of 24 GiB together with its weights.

    Raises:
        InputError: vLLM is not installed, or the model cannot be loaded.
    """

    def __init__(
        self,
        model_id: str,
        asked: Asked,
        max_new_tokens: int = 1024,
        temperature: float = 0.7,
        thinking: ThinkingOptions = ThinkingOptions(),
        memory: VllmMemory = VllmMemory(),
    ) -> None:
        self.vllm = require_vllm()
        self.name = model_name(model_id)
        self.tokenizer = chat_tokenizer(model_id)
        self.template = ChatTemplate(self.tokenizer, max_new_tokens, thinking)
        self.window = min(window(model_id), longest_chat(self.template, asked, max_new_tokens))
        self.max_new_tokens = self.template.most_tokens
        self.temperature = temperature
        try:
            self.llm = self.vllm.LLM(
                model=model_id,
                max_model_len=self.window,
                trust_remote_code=False,
                load_format="safetensors",
                tensor_parallel_size=memory.tensor_parallel,
                gpu_memory_utilization=memory.gpu_share,
            )
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"--model {model_id}: vLLM cannot load it ({reason})") from None

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """As `Engine.answer`."""
        chats = [self.template.prompt(request.messages) for request in requests]
        fitting = [index for index, chat in enumerate(chats) if len(chat.ids) < self.window]
        for index in set(range(len(chats))) - set(fitting):
            yield index, self.template.too_long(chats[index], self.window)
        with progress_bar(len(fitting), f"answering ({self.name})", "answer") as bar:
            for start in range(0, len(fitting), _CHUNK):
                group = fitting[start : start + _CHUNK]
                outputs = self.llm.generate(
                    [{"prompt_token_ids": chats[index].ids} for index in group],
                    [self._sampling(requests[index].seed, len(chats[index].ids)) for index in group],
                    use_tqdm=False,
                )
                for index, output in zip(group, outputs, strict=True):
                    written = output.outputs[0]
                    ended = written.finish_reason != "length"
                    yield index, self.template.reply(chats[index], written.token_ids, ended)
                bar.update(len(group))

    def _sampling(self, seed: int, prompt_tokens: int) -> Any:
        return self.vllm.SamplingParams(
            temperature=self.temperature,
            top_p=TOP_P,
            seed=seed % 2**63,
            max_tokens=min(self.max_new_tokens, self.window - prompt_tokens),
        )


def longest_chat(template: ChatTemplate, asked: Asked, max_new_tokens: int) -> int:
    """The tokens that the longest conversation can reach: its prompts, its answers, and the last turn's thought."""
    beginning = [] if asked.system is None else [{"role": "system", "content": asked.system}]
    longest = 0
    for turns in conversations_of(asked.questions).values():
        prompts = sum(
            len(template.prompt([*beginning, {"role": "user", "content": turn.prompt}]).ids) for turn in turns
        )
        longest = max(longest, prompts + (len(turns) - 1) * max_new_tokens + template.most_tokens)
    return longest
