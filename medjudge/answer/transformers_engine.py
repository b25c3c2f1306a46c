"""Answers with a chat model in transformers, here or on the workers of a Ray cluster, with one seed per request."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from transformers import LogitsProcessor, LogitsProcessorList, PreTrainedTokenizerBase

from medjudge.answer.conversation import Reply, Request, answer_questions, unanswered
from medjudge.answer.thinking import ChatPrompt, ChatTemplate, ThinkingOptions
from medjudge.errors import notify
from medjudge.models.batching import MemoryLimit, padded
from medjudge.models.chat import is_plain, with_chat_template
from medjudge.models.hardware import choose_device, fast_dtype
from medjudge.models.loading import load_causal_lm, load_tokenizer, model_name, window
from medjudge.parallel.ray_pool import map_on_actors
from medjudge.records import Answer, Question, grouped
from medjudge.screen import progress_bar

TOP_P = 0.95
"""The mass of nucleus sampling, in both engines."""
_FIRST_BATCH_TOKENS = 32_768
"""Tokens of the first batches, prompt, answer and padding included; later ones adapt to the memory."""
_LIKELIEST = 1024
"""Tokens that are sorted to find the nucleus, before all are."""


def nucleus(scores: torch.Tensor, top_p: float) -> torch.Tensor:
    """Set logits outside of the nucleus to minus infinity, (rows, vocabulary) -> the same shape (arXiv 1904.09751).

    The nucleus is the fewest likeliest tokens that have a probability of `top_p` together. Sorting all of a large
    vocabulary costs more than a layer of a small model, so the likeliest are sorted alone where they are enough.
    """
    normaliser = scores.logsumexp(dim=-1, keepdim=True)
    most = min(_LIKELIEST, scores.shape[-1])
    while True:
        likeliest, index = scores.topk(most, dim=-1)
        probability = (likeliest - normaliser).exp()
        before = probability.cumsum(dim=-1) - probability
        if most == scores.shape[-1] or bool((before[:, -1] >= top_p).all()):
            break
        most = scores.shape[-1]
    inside = likeliest.masked_fill(before >= top_p, float("-inf"))
    return torch.full_like(scores, float("-inf")).scatter(-1, index, inside)


class SeededSampling(LogitsProcessor):
    """Turns greedy search into sampling, with a separate generator for each row of the batch.

    The argmax of logits plus Gumbel noise is a draw from the softmax (the Gumbel-max trick; Maddison, Tarlow and Minka,
    2014), so a request's answer depends on its seed and not on the other rows.

    Args:
        temperature: The sampling temperature, above 0.
    """

    def __init__(self, seeds: Sequence[int], temperature: float) -> None:
        self.seeds = seeds
        self.generators: list[torch.Generator] = []
        self.temperature = temperature

    def __call__(self, input_ids: torch.LongTensor, scores: torch.FloatTensor) -> torch.FloatTensor:
        likely = nucleus(scores.float() / self.temperature, TOP_P)
        device = scores.device
        self.generators = self.generators or [torch.Generator(device).manual_seed(seed) for seed in self.seeds]
        noise = torch.stack(
            [torch.rand(scores.shape[1], generator=generator, device=device) for generator in self.generators]
        )
        return likely - torch.log(-torch.log(noise.clamp(1e-10, 1 - 1e-7)))  # type: ignore[return-value]


def chat_tokenizer(model_id: str) -> PreTrainedTokenizerBase:
    """Load a tokenizer, with a plain chat template where it has none; raise InputError if it cannot be loaded."""
    return with_chat_template(load_tokenizer(model_id))


def require_chat_model(model_id: str) -> None:
    """Find out before any work whether the model of a folder or hub id can answer.

    Raises:
        InputError: It cannot be had.
    """
    if is_plain(chat_tokenizer(model_id)):
        notify(
            f"--model {model_id}: a base model without a chat template; it gets a plain one, and its answers are worse "
            "than those of its instruction-tuned version"
        )
    window(model_id)


class TransformersEngine:
    """A chat model, loaded once.

    Args:
        temperature: The sampling temperature; 0 for greedy decoding.

    Raises:
        InputError: The model cannot be loaded, or the device is not available.
    """

    def __init__(
        self,
        model_id: str,
        device: str = "auto",
        max_new_tokens: int = 1024,
        temperature: float = 0.7,
        thinking: ThinkingOptions = ThinkingOptions(),
    ) -> None:
        chosen_device = choose_device(device)
        self.name = model_name(model_id)
        self.tokenizer = chat_tokenizer(model_id)
        self.template = ChatTemplate(self.tokenizer, max_new_tokens, thinking)
        self.model = load_causal_lm(model_id, dtype=fast_dtype(chosen_device)).to(chosen_device).eval()
        self.window = window(model_id)
        self.max_new_tokens = self.template.most_tokens
        self.temperature = temperature
        self.memory = MemoryLimit(chosen_device, _FIRST_BATCH_TOKENS, most=1 << 20)
        pad_id = self.tokenizer.pad_token_id
        self.pad_id: int = self.tokenizer.eos_token_id if pad_id is None else pad_id

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        chats = [self.template.prompt(request.messages) for request in requests]
        lengths = [len(chat.ids) + self.max_new_tokens for chat in chats]
        fitting = [index for index, chat in enumerate(chats) if len(chat.ids) < self.window]
        # A prompt that leaves less room than `max_new_tokens` gets a batch of its own; the others are sorted by length.
        roomy = [index for index in fitting if lengths[index] <= self.window]
        tight = [[index] for index in fitting if lengths[index] > self.window]

        def generated(batch: Sequence[int]) -> list[Reply]:
            return self._generated([chats[index] for index in batch], [requests[index].seed for index in batch])

        with progress_bar(len(requests), f"answering ({self.name})", "answer") as bar:
            for index in set(range(len(chats))) - set(fitting):
                yield index, self.template.too_long(chats[index], self.window)
                bar.update()
            for group in (roomy, *tight):
                for batch, replies in self.memory.run(group, lengths, generated):
                    yield from zip(batch, replies, strict=True)
                    bar.update(len(batch))

    def _generated(self, chats: Sequence[ChatPrompt], seeds: Sequence[int]) -> list[Reply]:
        ids, mask = padded([chat.ids for chat in chats], self.pad_id, "left", self.model.device)
        longest = ids.shape[1]
        sampling = [SeededSampling(seeds, self.temperature)] if self.temperature > 0 else []
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
                repetition_penalty=1.0,
                logits_processor=LogitsProcessorList(sampling),
                pad_token_id=self.pad_id,
                stop_strings=self.template.stop,
                tokenizer=self.tokenizer,
            )
        return [self._reply(chat, row) for chat, row in zip(chats, sequences[:, longest:].tolist(), strict=True)]

    def _reply(self, chat: ChatPrompt, row: list[int]) -> Reply:
        ends = self.model.generation_config.eos_token_id
        stops = set(ends if isinstance(ends, list) else [ends]) - {None}
        end = next((position for position, token in enumerate(row) if token in stops), None)
        return self.template.reply(chat, row if end is None else row[:end], ended=end is not None)


class PartlyAnswered(NamedTuple):
    """A question and its existing answers."""

    question: Question
    done: list[Answer]


class RayEngine(NamedTuple):
    """Engine that answers as `TransformersEngine` does, on many workers; each conversation stays on one worker.

    Attributes:
        model_id: A hub id, or a folder that every worker must find at the same absolute path.
        temperature: The sampling temperature; 0 for greedy decoding.
    """

    name: str
    model_id: str
    device: str
    max_new_tokens: int
    temperature: float
    thinking: ThinkingOptions = ThinkingOptions()
    system: str | None = None

    def answer_questions(
        self, questions: Sequence[Question], samples: int, seed: int, done: Sequence[Answer] = ()
    ) -> Iterator[Answer]:
        """As `conversation.answer_questions`.

        Raises:
            UnfinishedError: A worker failed.
        """
        existing = grouped((one for one in done if one.model == self.name), lambda answer: answer.question_id)
        work = [
            PartlyAnswered(question, existing.get(question.id, []))
            for question in unanswered(questions, self.name, samples, done)
        ]
        missing = samples * len(work) - sum(len(item.done) for item in work)
        with progress_bar(missing, f"answering ({self.name}, Ray)", "answer") as bar:
            for answers in map_on_actors(
                _load,
                (self, samples, seed),
                work,
                key=lambda item: item.question.group,
                weight=lambda item: len(item.question.prompt),
                device=self.device,
            ):
                yield from answers
                bar.update(len(answers))


def _load(work_of: RayEngine, samples: int, seed: int) -> Callable[[list[PartlyAnswered]], list[Answer]]:
    engine = TransformersEngine(
        work_of.model_id,
        device=work_of.device,
        max_new_tokens=work_of.max_new_tokens,
        temperature=work_of.temperature,
        thinking=work_of.thinking,
    )

    def answers(work: list[PartlyAnswered]) -> list[Answer]:
        done = [answer for item in work for answer in item.done]
        questions = [item.question for item in work]
        return list(answer_questions(engine, questions, samples, seed, done, work_of.system))

    return answers
