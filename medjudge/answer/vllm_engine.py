"""Answers with vLLM's offline engine: the same protocol as `TransformersEngine`, on a GPU that vLLM supports."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

from tqdm import tqdm

from medjudge.answer.conversation import Reply, Request
from medjudge.answer.thinking import ChatPrompt, ChatTemplate, ThinkingOptions
from medjudge.answer.transformers_engine import TOP_P, chat_tokenizer, model_name
from medjudge.errors import InputError
from medjudge.models.loading import window

_CHUNK = 512
"""Requests passed to vLLM together: more than it runs in parallel, so it is never idle. This many answers at most are
lost if the process is killed."""


def require_vllm() -> Any:
    """Imports vLLM; raises InputError if it is not installed."""
    os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")  # stdout is reserved for --json
    try:
        import vllm
    except ImportError:
        raise InputError(
            "--engine vllm: vLLM is not installed; pip install 'medjudge[vllm]' (Linux with a GPU)"
        ) from None
    return vllm


class VllmEngine:
    """A chat model in vLLM.

    Args:
        model_id: A folder or a hub id.
        revision: A branch, tag or commit of the hub.
        max_new_tokens: The most tokens of an answer.
        temperature: The sampling temperature; 0 for greedy decoding.
        thinking: Whether the model thinks before it answers.

    Raises:
        InputError: vLLM is not installed, or the model cannot be loaded or has no chat template.
    """

    def __init__(
        self,
        model_id: str,
        revision: str | None = None,
        max_new_tokens: int = 1024,
        temperature: float = 0.7,
        thinking: ThinkingOptions = ThinkingOptions(),
    ) -> None:
        self.vllm = require_vllm()
        self.name = model_name(model_id)
        self.tokenizer = chat_tokenizer(model_id, revision)
        self.template = ChatTemplate(self.tokenizer, max_new_tokens, thinking)
        self.window = window(model_id, revision)
        self.max_new_tokens = self.template.most_tokens
        self.temperature = temperature
        try:
            self.llm = self.vllm.LLM(
                model=model_id, revision=revision, trust_remote_code=False, load_format="safetensors"
            )
        except (RuntimeError, ValueError) as error:
            raise InputError(
                f"--model {model_id}: vLLM cannot load it ({' '.join(str(error).split())[:300]})"
            ) from None

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        """As `Engine.answer`."""
        chats = [self.template.prompt(request.messages) for request in requests]
        prompts = [chat.ids for chat in chats]
        fitting = [index for index, ids in enumerate(prompts) if len(ids) < self.window]
        for index in set(range(len(prompts))) - set(fitting):
            reason = f"prompt of {len(prompts[index])} tokens does not fit the window of {self.window}"
            yield index, Reply("", reason, tokens_in=len(prompts[index]), tokens_out=0)
        with tqdm(total=len(fitting), desc=f"answering ({self.name})", unit="answer", disable=None) as bar:
            for start in range(0, len(fitting), _CHUNK):
                group = fitting[start : start + _CHUNK]
                outputs = self.llm.generate(
                    [{"prompt_token_ids": prompts[index]} for index in group],
                    [self._sampling(requests[index].seed, len(prompts[index])) for index in group],
                    use_tqdm=False,
                )
                for index, output in zip(group, outputs, strict=True):
                    yield index, self._reply(chats[index], output.outputs[0])
                bar.update(len(group))

    def _sampling(self, seed: int, prompt_tokens: int) -> Any:
        return self.vllm.SamplingParams(
            temperature=self.temperature,
            top_p=TOP_P,
            seed=seed % 2**63,
            max_tokens=min(self.max_new_tokens, self.window - prompt_tokens),
        )

    def _reply(self, chat: ChatPrompt, completion: Any) -> Reply:
        return self.template.reply(chat, completion.token_ids, ended=completion.finish_reason != "length")
