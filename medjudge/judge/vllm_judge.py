"""Runs a generative judge in vLLM: prefixes come from its cache, and the adapter is a LoRA request."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from medjudge.answer.vllm_engine import VllmMemory, load_vllm, require_vllm
from medjudge.errors import InputError
from medjudge.files import read_text
from medjudge.judge.adapter import ADAPTER_CONFIG
from medjudge.judge.folder import UNTUNED, JudgeCard, base_of, read_card, require_its_rubrics, require_window
from medjudge.judge.generative import (
    GenerativeSettings,
    Reading,
    begun_reply,
    judged_ahead,
    require_room_for_rationale,
    score_token_ids,
)
from medjudge.judge.prompts import Prompt
from medjudge.judge.protocol import Assignment
from medjudge.models.hardware import choose_device, fast_dtype
from medjudge.models.loading import load_tokenizer
from medjudge.records import Judgment
from medjudge.scheme import LLMEVAL_MED, Scheme

_CHUNK = 512
"""Answers passed to vLLM together; this many at most are lost if the process is killed."""
_RANKS = (8, 16, 32, 64, 128, 256, 512)
"""The ranks of an adapter that vLLM can reserve."""


def require_runs_in_vllm(folder: Path, card: JudgeCard) -> int:
    """Finds out before any work whether vLLM can run a judge.

    Returns:
        The largest rank of its adapter.

    Raises:
        InputError: It is no generative judge, its base is quantised, or vLLM cannot load its adapter.
    """

    def refused(reason: str) -> InputError:
        return InputError(f"--judge-engine vllm: {reason}; use --judge-engine transformers")

    if card.kind != "generative":
        raise refused(f"runs generative judges, and {folder} is of kind {card.kind}")
    if card.quantization is not None:
        raise refused(f"judge {folder} runs on a base quantised to {card.quantization}, as it was calibrated")
    if card.training.get(UNTUNED):
        raise refused(f"judge {folder} has no adapter")
    adapter = json.loads(read_text(folder / ADAPTER_CONFIG))
    if adapter.get("use_dora"):
        raise refused(f"the adapter of judge {folder} is a DoRA, which vLLM cannot load")
    rank = max([int(adapter["r"]), *map(int, (adapter.get("rank_pattern") or {}).values())])
    if rank > _RANKS[-1]:
        raise refused(f"the adapter of judge {folder} has rank {rank}, and vLLM loads up to {_RANKS[-1]}")
    return rank


class VllmJudge:
    """Gives the judgments of `GenerativeJudge`, up to rounding; vLLM batches them.

    Args:
        folder: The judge folder.
        name: The judge's name.
        rationale_tokens: As for `load_judge`.
        scheme: As for `load_judge`.
        memory: How the GPUs are used.

    Raises:
        InputError: vLLM is not installed or cannot load the judge, or as for `load_judge`.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        rationale_tokens: int = 0,
        scheme: Scheme = LLMEVAL_MED,
        memory: VllmMemory = VllmMemory(),
    ) -> None:
        vllm = require_vllm("--judge-engine vllm")
        card = read_card(folder)
        rank = require_runs_in_vllm(folder, card)
        require_its_rubrics(card, folder, scheme)
        require_window(card, folder)
        self.name = name
        self.tokenizer = load_tokenizer(str(folder))
        self.settings = GenerativeSettings(card.max_length, card.temperature, card.style, rationale_tokens)
        require_room_for_rationale(self.settings)
        self.label_ids = score_token_ids(self.tokenizer)
        base = base_of(card, folder)
        self.llm = load_vllm(
            vllm,
            memory,
            f"--judge-engine vllm: vLLM cannot load judge {folder}",
            model=base.model_id,
            revision=base.revision,
            skip_tokenizer_init=True,  # prompts and replies pass as token ids
            dtype=str(fast_dtype(choose_device("auto"))).removeprefix("torch."),
            max_model_len=card.max_length,
            enable_prefix_caching=True,
            enable_lora=True,
            max_loras=1,
            max_lora_rank=next(size for size in _RANKS if size >= rank),
        )
        self.adapter = vllm.lora.request.LoRARequest(name, 1, str(folder.resolve()))
        # Greedy, and nothing else: SamplingParams does not read the model's own repetition penalty.
        self.read_score = vllm.SamplingParams(
            temperature=0, max_tokens=1, logprob_token_ids=self.label_ids, detokenize=False
        )
        most = rationale_tokens - 2  # the score and a newline go before it
        self.write_rationale = (
            vllm.SamplingParams(temperature=0, max_tokens=most, detokenize=False) if most > 0 else None
        )

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        """As `Judge.judge`."""
        yield from judged_ahead(self.name, self.tokenizer, self.settings, assignments, _CHUNK, self._readings)

    def _readings(self, prompts: Sequence[Prompt]) -> Iterator[tuple[int, Reading]]:
        sequences = [prompt.input_ids for prompt in prompts]
        # Log-probabilities of the whole vocabulary differ from logits by one constant, which the softmax removes.
        read = [
            np.array([output.logprobs[0][token].logprob for token in self.label_ids])
            for output in self._generated(sequences, self.read_score)
        ]
        rationales = [""] * len(read)
        if self.write_rationale is not None:
            begun = [
                [*ids, *begun_reply(self.tokenizer, self.settings, self.label_ids, logits)]
                for ids, logits in zip(sequences, read, strict=True)
            ]
            written = [list(output.token_ids) for output in self._generated(begun, self.write_rationale)]
            rationales = self.tokenizer.batch_decode(written, skip_special_tokens=True)
        for index, (logits, rationale) in enumerate(zip(read, rationales, strict=True)):
            yield index, Reading(logits, rationale.strip() or None)

    def _generated(self, sequences: Sequence[list[int]], sampling: Any) -> list[Any]:
        prompts = [{"prompt_token_ids": ids} for ids in sequences]
        outputs = self.llm.generate(prompts, sampling, use_tqdm=False, lora_request=self.adapter) if prompts else []
        return [output.outputs[0] for output in outputs]
