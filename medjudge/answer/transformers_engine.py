"""Answers with a chat model in transformers: batched, sampled with one seed per request."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from tqdm import tqdm
from transformers import (
    ContinuousBatchingConfig,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    PreTrainedTokenizerBase,
)
from transformers.generation.logits_process import TopPLogitsWarper

from medjudge.answer.conversation import Reply, Request
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.models.batching import MemoryLimit
from medjudge.models.hardware import choose_device, fast_dtype
from medjudge.models.loading import load_causal_lm, load_tokenizer, window
from medjudge.models.padding import pad_left


class SeededSampling(LogitsProcessor):
    """Turns greedy search into sampling, with a separate generator for each row of the batch.

    The argmax of logits plus Gumbel noise is a draw from the softmax (the Gumbel-max trick; Maddison, Tarlow and Minka,
    2014), so a request's answer depends on its seed and not on the other rows.

    Args:
        seeds: One seed per row.
        temperature: The sampling temperature, above 0.
        top_p: The mass of nucleus sampling; 1 for none.
    """

    def __init__(self, seeds: Sequence[int], temperature: float, top_p: float) -> None:
        self.seeds = seeds
        self.generators: list[torch.Generator] = []
        self.temperature = temperature
        self.nucleus = TopPLogitsWarper(top_p) if top_p < 1 else None

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        scores = scores.float() / self.temperature  # type: ignore[assignment]
        if self.nucleus is not None:
            scores = self.nucleus(input_ids, scores)
        device = scores.device
        self.generators = self.generators or [torch.Generator(device).manual_seed(seed) for seed in self.seeds]
        noise = torch.stack(
            [torch.rand(scores.shape[1], generator=generator, device=device) for generator in self.generators]
        )
        return scores - torch.log(-torch.log(noise.clamp(1e-10, 1 - 1e-7)))  # type: ignore[return-value]


def model_name(model_id: str) -> str:
    """A model's name in the records: the name of its folder, or its hub id."""
    return Path(model_id).resolve().name if Path(model_id).is_dir() else model_id


def chat_tokenizer(model_id: str, revision: str | None = None) -> PreTrainedTokenizerBase:
    """Loads a tokenizer; raises InputError if it cannot be loaded or has no chat template."""
    tokenizer = load_tokenizer(model_id, revision)
    if not tokenizer.chat_template:
        raise InputError(f"--model {model_id}: has no chat template; use the instruction-tuned version of the model")
    return tokenizer


def require_chat_model(model_id: str) -> None:
    """Finds out before any work whether the model of a folder or hub id can answer.

    Raises:
        InputError: It cannot be had, or has no chat template.
    """
    chat_tokenizer(model_id)
    window(model_id)


class TransformersEngine:
    """A chat model, loaded once.

    Args:
        model_id: A folder or a hub id.
        revision: A branch, tag or commit of the hub.
        device: `auto`, `cpu` or `cuda`.
        max_new_tokens: The most tokens of an answer.
        temperature: The sampling temperature; 0 for greedy decoding.
        top_p: The mass of nucleus sampling; 1 for none.
        batch_tokens: The tokens of the first batches, prompt, answer and padding included; later ones adapt to the
            memory.

    Raises:
        InputError: The model cannot be loaded, has no chat template, or the device is not available.
    """

    def __init__(
        self,
        model_id: str,
        revision: str | None = None,
        device: str = "auto",
        max_new_tokens: int = 1024,
        temperature: float = 0.7,
        top_p: float = 0.95,
        batch_tokens: int = 32_768,
    ) -> None:
        chosen_device = choose_device(device)
        self.name = model_name(model_id)
        self.tokenizer = chat_tokenizer(model_id, revision)
        self.model = load_causal_lm(model_id, revision, dtype=fast_dtype(chosen_device)).to(chosen_device).eval()
        self.window = window(model_id, revision)
        self.max_new_tokens = max_new_tokens
        self.temperature = temperature
        self.top_p = top_p
        self.memory = MemoryLimit(chosen_device, batch_tokens, most=1 << 20)
        # Continuous batching has one seed for all requests, so sampled answers would depend on each other.
        self.continuous = chosen_device.type == "cuda" and temperature == 0
        self.batching = ContinuousBatchingConfig(auto_switch_to_flash=False)  # True may download kernels from the hub
        pad_id = self.tokenizer.pad_token_id
        self.pad_id: int = self.tokenizer.eos_token_id if pad_id is None else pad_id

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        prompts = [
            self.tokenizer.apply_chat_template(request.messages, add_generation_prompt=True, return_dict=True)[
                "input_ids"
            ]
            for request in requests
        ]
        room = [self.window - len(prompt) for prompt in prompts]
        # A prompt that leaves less room than `max_new_tokens` gets a batch of its own; the others are sorted by length.
        tight = [index for index in range(len(prompts)) if 0 < room[index] < self.max_new_tokens]
        roomy = [index for index in range(len(prompts)) if room[index] >= self.max_new_tokens]
        lengths = [len(prompt) + self.max_new_tokens for prompt in prompts]

        def generated(batch: Sequence[int]) -> list[Reply]:
            return self._generated([prompts[index] for index in batch], [requests[index].seed for index in batch])

        with tqdm(total=len(requests), desc=f"answering ({self.name})", unit="answer", disable=None) as bar:
            for index in set(range(len(prompts))) - {*tight, *roomy}:
                reason = f"prompt of {len(prompts[index])} tokens does not fit the window of {self.window}"
                yield index, Reply("", reason, tokens_in=len(prompts[index]), tokens_out=0)
                bar.update()
            if self.continuous:
                for index, reply in self._continuously(prompts, sorted([*roomy, *tight])):
                    yield index, reply
                    bar.update()
            if self.continuous:
                return
            for group in (roomy, *([index] for index in tight)):
                for batch, replies in self.memory.run(group, lengths, generated):
                    yield from zip(batch, replies, strict=True)
                    bar.update(len(batch))

    def _continuously(self, prompts: Sequence[list[int]], waiting: Sequence[int]) -> Iterator[tuple[int, Reply]]:
        """Uses transformers' continuous batching: a new prompt starts as soon as an answer is finished."""
        config = GenerationConfig(
            do_sample=False, eos_token_id=self.model.generation_config.eos_token_id, pad_token_id=self.pad_id
        )
        unfinished = set(waiting)
        try:
            with self.model.continuous_batching_context_manager(
                generation_config=config, continuous_batching_config=self.batching, block=True
            ) as manager:
                for index in waiting:
                    most = min(self.max_new_tokens, self.window - len(prompts[index]))
                    manager.add_request(list(prompts[index]), request_id=str(index), max_new_tokens=most)
                try:
                    while unfinished:
                        result = manager.get_result(timeout=1)
                        failed = not manager.is_running() if result is None else result.error
                        if failed:
                            raise RuntimeError(result.error if result else "its thread ended")
                        if result is not None and result.is_finished():
                            unfinished.remove(int(result.request_id))
                            yield int(result.request_id), self._reply(len(result.prompt_ids), result.generated_tokens)
                finally:
                    if unfinished:  # otherwise leaving the context would wait for all of them
                        manager.stop(block=True, hard_stop=True)
        except (RuntimeError, ValueError, MemoryError) as error:
            reason = " ".join(str(error).split())[:200]
            if len(unfinished) < len(waiting):
                raise UnfinishedError(
                    f"{self.name}: continuous batching ended before {len(unfinished)} of {len(waiting)} answers were "
                    f"done ({reason}); the others are kept, and the same command continues"
                ) from None
            notify(f"{self.name}: continuous batching failed, using static batches ({reason})")
            self.continuous = False

    def _generated(self, prompts: Sequence[list[int]], seeds: Sequence[int]) -> list[Reply]:
        ids, mask = pad_left(prompts, self.pad_id, self.model.device)
        longest = ids.shape[1]
        sampling = [SeededSampling(seeds, self.temperature, self.top_p)] if self.temperature > 0 else []
        with torch.inference_mode():
            sequences = self.model.generate(
                ids,
                attention_mask=mask,
                max_new_tokens=min(self.max_new_tokens, self.window - longest),
                do_sample=False,
                # Otherwise the model's own generation settings would apply as well.
                temperature=None,
                top_p=None,
                top_k=None,
                logits_processor=LogitsProcessorList(sampling),
                pad_token_id=self.pad_id,
            )
        return [
            self._reply(len(prompt), row) for prompt, row in zip(prompts, sequences[:, longest:].tolist(), strict=True)
        ]

    def _reply(self, tokens_in: int, row: list[int]) -> Reply:
        ends = self.model.generation_config.eos_token_id
        stops = set(ends if isinstance(ends, list) else [ends]) - {None}
        end = next((position for position, token in enumerate(row) if token in stops), None)
        tokens = row if end is None else row[:end]
        text = self.tokenizer.decode(tokens, skip_special_tokens=True).strip()
        return Reply(text, "length" if end is None else "stop", tokens_in, len(tokens))
