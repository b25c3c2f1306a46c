"""Runs a generative judge in vLLM: prefixes come from its cache, and the adapter is a LoRA request."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import softmax

from medjudge.answer.vllm_engine import VllmMemory, require_vllm
from medjudge.errors import InputError
from medjudge.files import read_text
from medjudge.judge.adapter import ADAPTER_CONFIG
from medjudge.judge.folder import UNTUNED, JudgeCard, base_of, read_card, require_its_rubrics, require_window
from medjudge.judge.generative import (
    GenerativeSettings,
    prompts_ahead,
    require_room_for_rationale,
    score_token_ids,
)
from medjudge.judge.prompts import Prompt
from medjudge.judge.protocol import Assignment, scored
from medjudge.models.hardware import choose_device, fast_dtype
from medjudge.models.loading import load_tokenizer
from medjudge.records import Judgment
from medjudge.scale import median_level
from medjudge.scheme import LLMEVAL_MED, Scheme

_CHUNK = 512
"""Answers passed to vLLM together; this many at most are lost if the process is killed."""
_RANKS = (8, 16, 32, 64, 128, 256, 512)
"""The ranks of an adapter that vLLM can reserve."""


def require_runs_in_vllm(folder: Path, card: JudgeCard) -> None:
    """Finds out before any work whether vLLM can run a judge.

    Raises:
        InputError: It is no generative judge, its base is quantised, or vLLM cannot load its adapter.
    """
    other = "use --judge-engine transformers"
    if card.kind != "generative":
        raise InputError(f"--judge-engine vllm: runs generative judges, and {folder} is of kind {card.kind}; {other}")
    if card.quantization is not None:
        raise InputError(
            f"--judge-engine vllm: judge {folder} runs on a base quantised to {card.quantization}, as it was "
            f"calibrated; {other}"
        )
    if card.training.get(UNTUNED):
        raise InputError(f"--judge-engine vllm: judge {folder} has no adapter; {other}")
    adapter = json.loads(read_text(folder / ADAPTER_CONFIG))
    if adapter.get("use_dora"):
        raise InputError(
            f"--judge-engine vllm: the adapter of judge {folder} is a DoRA, which vLLM cannot load; {other}"
        )
    if most_rank(adapter) > _RANKS[-1]:
        raise InputError(
            f"--judge-engine vllm: the adapter of judge {folder} has rank {most_rank(adapter)}, and vLLM loads up to "
            f"{_RANKS[-1]}; {other}"
        )


def most_rank(adapter: dict[str, Any]) -> int:
    """The largest rank in an `adapter_config.json`."""
    return max([int(adapter["r"]), *(int(rank) for rank in (adapter.get("rank_pattern") or {}).values())])


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
        require_runs_in_vllm(folder, card)
        require_its_rubrics(card, folder, scheme)
        require_window(card, folder)
        self.name = name
        self.tokenizer = load_tokenizer(str(folder))
        self.settings = GenerativeSettings(card.max_length, card.temperature, card.style, rationale_tokens)
        require_room_for_rationale(self.settings)
        self.label_ids = score_token_ids(self.tokenizer)
        base = base_of(card, folder)
        rank = most_rank(json.loads(read_text(folder / ADAPTER_CONFIG)))
        try:
            self.llm = vllm.LLM(
                model=base.model_id,
                revision=base.revision,
                skip_tokenizer_init=True,  # prompts and replies pass as token ids
                trust_remote_code=False,
                load_format="safetensors",
                dtype=str(fast_dtype(choose_device("auto"))).removeprefix("torch."),
                max_model_len=card.max_length,
                enable_prefix_caching=True,
                enable_lora=True,
                max_loras=1,
                max_lora_rank=next(size for size in _RANKS if size >= rank),
                tensor_parallel_size=memory.tensor_parallel,
                gpu_memory_utilization=memory.gpu_share,
            )
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise InputError(f"--judge-engine vllm: vLLM cannot load judge {folder} ({reason})") from None
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
        # vLLM keeps the prefixes of recent prompts.
        for chunk in prompts_ahead(self.name, self.tokenizer, self.settings, assignments, _CHUNK):
            if isinstance(chunk, list):
                yield from self._judgments(chunk)
            else:
                yield chunk

    def _judgments(self, fitting: Sequence[tuple[Assignment, Prompt]]) -> Iterator[Judgment]:
        sequences = [prompt.input_ids for _, prompt in fitting]
        rationales = [""] * len(sequences)
        rows = self._probabilities(sequences)
        if self.settings.rationale_tokens:
            newline = self.tokenizer("\n", add_special_tokens=False)["input_ids"][-1:]
            rationales = self._texts(
                [
                    [*ids, self.label_ids[median_level(row) - 1], *newline]
                    for ids, row in zip(sequences, rows, strict=True)
                ]
            )
        for (item, prompt), row, rationale in zip(fitting, rows, rationales, strict=True):
            cut = prompt.answer_tokens_cut
            yield scored(item, self.name, row, rationale=rationale.strip() or None, answer_tokens_cut=cut)

    def _probabilities(self, sequences: Sequence[list[int]]) -> np.ndarray:
        """Calibrated probabilities of the five levels, shape (sequences, 5)."""
        outputs = self._generated(sequences, self.read_score)
        # Log-probabilities of the whole vocabulary differ from logits by one constant, which the softmax removes.
        logits = [[output.logprobs[0][token].logprob for token in self.label_ids] for output in outputs]
        return np.asarray(softmax(np.reshape(logits, (-1, 5)) / self.settings.temperature, axis=1))

    def _texts(self, sequences: Sequence[list[int]]) -> list[str]:
        """Greedy continuations, up to the end token or the limit of a rationale."""
        outputs = self._generated(sequences, self.write_rationale)
        texts: list[str] = self.tokenizer.batch_decode(
            [list(output.token_ids) for output in outputs], skip_special_tokens=True
        )
        return texts

    def _generated(self, sequences: Sequence[list[int]], sampling: Any) -> list[Any]:
        prompts = [{"prompt_token_ids": ids} for ids in sequences]
        outputs = self.llm.generate(prompts, sampling, use_tqdm=False, lora_request=self.adapter) if prompts else []
        return [output.outputs[0] for output in outputs]
