"""Steps of `eval/on_gpu.py` that judge: rates, agreement with plain forward passes, rows of reason-first batches."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from model_shapes import layer_parameters, matrix_rate, random_model, timed
from on_gpu_steps import Place, assignments_of, clear, counted, tokenizer_of, watched
from transformers import PreTrainedModel

from medjudge.judge.generative import GenerativeJudge, GenerativeSettings, score_line
from medjudge.judge.inference import Inference, prepared
from medjudge.judge.prompts import Prompt, encode_prompt
from medjudge.judge.protocol import Assignment
from medjudge.judge.shared_prefixes import prefix_forest, unique_tokens
from medjudge.models.batching import MemoryLimit
from medjudge.scale import median_level

WINDOW = 10_240
ANSWERS = 39
"""Answers to a question: 13 models, three samples each."""
RATIONALE = 128


def multiplying(place: Place) -> dict[str, Any]:
    """The rate at which the device multiplies matrices in its fast number format."""
    return {"teraflop_per_second": round(matrix_rate(place.device) / 1e12, 3)}


def judging(place: Place, size: str, questions: int) -> dict[str, Any]:
    """Score-first judging, 39 answers to each question: prompts a second, and the share of the matrix rate.

    `read_seconds` is the time of the passes alone, over prompts that are tokenised already.
    """
    tokenizer = tokenizer_of(place)
    model = random_model(place.size(size), place.device, tokenizer)
    judge = GenerativeJudge(size, model, tokenizer, GenerativeSettings(WINDOW))
    work = assignments_of(place.many(questions, 2), place.many(ANSWERS, 4))
    list(judge.judge(assignments_of(1, place.many(ANSWERS, 4), seed=1)))
    memory = counted(judge)
    with watched(place) as whole:
        judgments = list(judge.judge(work))
    prompts = prompts_of(judge, work)
    with watched(place) as reading:
        judge.read(prompts, [score_line(assignment) for assignment in work])
    ids = [prompt.input_ids for prompt in prompts]
    unique = unique_tokens(prefix_forest(ids))
    flop = 2.0 * layer_parameters(model) * unique
    rate = matrix_rate(place.device)
    return {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "prompts": len(work),
        "unscored": sum(judgment.score is None for judgment in judgments),
        "tokens": sum(map(len, ids)),
        "unique_tokens": unique,
        **whole,
        "prompts_per_second": round(len(work) / whole["seconds"], 2),
        "unique_tokens_per_second": round(unique / whole["seconds"]),
        "share_of_matrix_rate": round(flop / whole["seconds"] / rate, 4),
        "read_seconds": reading["seconds"],
        "read_prompts_per_second": round(len(work) / reading["seconds"], 2),
        "read_share_of_matrix_rate": round(flop / reading["seconds"] / rate, 4),
        **memory.summary(),
    }


def in_trees(place: Place, size: str, questions: int) -> dict[str, Any]:
    """`--attention tree` beside the default: seconds of the passes alone, and how far the logits lie apart.

    The first passes compile flex attention on a GPU; they are not timed.
    """
    tokenizer = tokenizer_of(place)
    model = random_model(place.size(size), place.device, tokenizer)
    attend_more(model)
    read: dict[str, Any] = {}
    for name, attention in (("default", None), ("tree", "tree")):
        prepared(model, Inference(attention=attention))
        judge = GenerativeJudge(name, model, tokenizer, GenerativeSettings(WINDOW))
        list(judge.judge(assignments_of(2, place.many(ANSWERS, 4), seed=1)))
        work = assignments_of(place.many(questions, 2), place.many(ANSWERS, 4))
        prompts, lines = prompts_of(judge, work), [score_line(assignment) for assignment in work]
        with watched(place) as read[name]:
            logits = np.array([reading.logits for reading in judge.read(prompts, lines)])
        read[name]["prompts_per_second"] = round(len(prompts) / read[name]["seconds"], 2)
        read[name]["logits"] = logits
    left, right = (read[name].pop("logits") for name in ("default", "tree"))
    return {"prompts": len(left), **read, "differences": differences(left, right, Spread.of(left))}


def prompts_of(judge: GenerativeJudge, work: Sequence[Assignment]) -> list[Prompt]:
    """The prompts of answers that fit the judge's window."""
    prompts = [encode_prompt(judge.tokenizer, item, judge.settings.max_length - 1) for item in work]
    return [prompt for prompt in prompts if prompt is not None]


def agreeing(place: Place) -> dict[str, Any]:
    """Judging with shared prefixes in batches, beside one plain forward pass for each prompt.

    The plain passes run in the fast number format and in float32. What float32 and the fast format differ by is the
    rounding that no order of computation avoids.
    """
    tokenizer = tokenizer_of(place)
    work = assignments_of(place.many(12, 2), place.many(ANSWERS, 4))
    model = random_model(place.size("0.6B"), place.device, tokenizer)
    attend_more(model)
    rows: dict[str, np.ndarray] = {}
    for tokens in (4096, 32_768):
        judge = GenerativeJudge("shared", model, tokenizer, GenerativeSettings(WINDOW, batch_tokens=tokens))
        judge.memory = MemoryLimit(place.device, tokens, most=tokens)
        prompts = prompts_of(judge, work)
        lines = [score_line(assignment) for assignment in work]
        rows[f"shared, batches of {tokens} tokens"] = np.array([r.logits for r in judge.read(prompts, lines)])
    rows["plain"] = plain_logits(model, prompts, judge.label_ids)
    rows["plain, float32"] = plain_logits(model.float(), prompts, judge.label_ids)
    judge = GenerativeJudge("shared", model, tokenizer, GenerativeSettings(WINDOW))
    rows["shared, float32"] = np.array([r.logits for r in judge.read(prompts, lines)])
    names = list(rows)
    pairs = [(names[0], names[1]), (names[0], "plain"), (names[1], "plain"), ("plain", "plain, float32")]
    pairs += [(names[0], "plain, float32"), ("shared, float32", "plain, float32")]
    spread = Spread.of(rows["plain, float32"])
    levels = [median_level(row) for row in probabilities(spread.over(rows["plain, float32"]))]
    return {
        "prompts": len(prompts),
        "logits": {"deviation_between_prompts": float(f"{spread.deviation:.3g}")},
        "levels": {str(level): levels.count(level) for level in range(1, 6)},
        "pairs": {f"{left} | {right}": differences(rows[left], rows[right], spread) for left, right in pairs},
    }


def attend_more(model: PreTrainedModel) -> None:
    """Lets attention count for more in a random model, where a mean over a thousand tokens is nearly nothing."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("v_proj.weight", "o_proj.weight")):
                weight *= 4


class Spread(NamedTuple):
    """How the logits of a random model become those of a judge that tells answers apart.

    A random model gives all prompts nearly the same five logits. Centred over the prompts, and scaled to a deviation of
    2, they give all five levels, and rounding counts as much beside them as beside the logits themselves.

    Attributes:
        centre: The mean of each label's logit over the prompts, shape (5,).
        deviation: Between prompts, over all labels.
    """

    centre: np.ndarray
    deviation: float

    @classmethod
    def of(cls, logits: np.ndarray) -> "Spread":
        """From the logits of a reference, shape (n, 5)."""
        centre = logits.mean(axis=0)
        return cls(centre, float((logits - centre).std()))

    def over(self, logits: np.ndarray) -> np.ndarray:
        """Centred and scaled logits, (n, 5) -> (n, 5)."""
        scaled: np.ndarray = (logits - self.centre) * (2.0 / self.deviation)
        return scaled


def plain_logits(model: PreTrainedModel, prompts: Sequence[Prompt], label_ids: Sequence[int]) -> np.ndarray:
    """The logits of the five labels from one forward pass for each prompt, without cache and padding, (n, 5)."""
    rows = []
    with torch.inference_mode():
        for prompt in prompts:
            ids = torch.tensor([prompt.input_ids], device=model.device)
            logits = model(ids, use_cache=False, logits_to_keep=1).logits[0, -1, list(label_ids)]
            rows.append(logits.float().cpu().numpy())
    return np.array(rows)


def probabilities(logits: np.ndarray) -> np.ndarray:
    """Softmax over the five labels, (n, 5) -> (n, 5)."""
    result: np.ndarray = torch.tensor(logits).double().softmax(dim=1).numpy()
    return result


def differences(left: np.ndarray, right: np.ndarray, spread: Spread) -> dict[str, Any]:
    """How far two readings of the same prompts lie apart, (n, 5) each."""
    left_shares, right_shares = (probabilities(spread.over(logits)) for logits in (left, right))
    expected = np.abs((left_shares - right_shares) @ np.arange(1, 6))
    levels = [[median_level(row) for row in rows] for rows in (left_shares, right_shares)]
    differing = [mine != other for mine, other in zip(*levels, strict=True)]
    return {
        "levels_differing": int(sum(differing)),
        "share_differing": round(float(np.mean(differing)), 5),
        "largest_difference_of_logit": float(f"{np.abs(left - right).max():.3g}"),
        "largest_difference_of_probability": float(f"{np.abs(left_shares - right_shares).max():.3g}"),
        "largest_difference_of_expected_level": float(f"{expected.max():.3g}"),
        "mean_difference_of_expected_level": float(f"{expected.mean():.3g}"),
    }


def reasoning(place: Place) -> dict[str, Any]:
    """Reason-first judging: answers a second, and the rows of its batches."""
    tokenizer = tokenizer_of(place)
    model = random_model(place.size("0.6B"), place.device, tokenizer)
    new_tokens = place.many(RATIONALE, 8)
    settings = GenerativeSettings(WINDOW, style="reason-first", rationale_tokens=new_tokens)
    judge = GenerativeJudge("reasons", model, tokenizer, settings)
    list(judge.judge(assignments_of(1, 2, seed=1)))
    work = assignments_of(place.many(8, 1), place.many(ANSWERS, 4))
    memory = counted(judge)
    with watched(place) as measured:
        judgments = list(judge.judge(work))
    written = sum(len(tokenizer(judgment.rationale or "")["input_ids"]) for judgment in judgments)
    rows = memory.summary()
    judge.model.set_attn_implementation("sdpa")
    judge.memory = MemoryLimit(place.device)
    few = work[: place.many(ANSWERS, 4)]
    with watched(place) as alone:
        list(judge.judge(few))
    return {
        "answers": len(work),
        "rationale_tokens": new_tokens,
        **measured,
        "answers_per_second": round(len(work) / measured["seconds"], 3),
        "tokens_written_per_second": round(written / measured["seconds"], 1),
        "answers_per_second_without_sharing": round(len(few) / alone["seconds"], 3),
        **rows,
    }


def attention(place: Place) -> dict[str, Any]:
    """One layer's attention, in the shape of the answers of a question that follow one shared prefix, in ms.

    16 query and 8 key heads of 128, as in Qwen3-0.6B and 1.7B; 32 answers of 384 tokens after 1,024 of the prefix. The
    rate counts the products that a causal mask leaves.
    """
    rows, suffix, prefix = place.many(32, 2), place.many(384, 16), place.many(1024, 32)
    dtype = model_format(place)
    query = torch.randn(rows, 16, suffix, 128, device=place.device, dtype=dtype)
    key, value = (torch.randn(rows, 8, prefix + suffix, 128, device=place.device, dtype=dtype) for _ in range(2))
    column = torch.arange(prefix + suffix, device=place.device)
    mask = column <= torch.arange(prefix, prefix + suffix, device=place.device)[:, None]
    mask = mask.expand(rows, 1, suffix, prefix + suffix).contiguous()
    seen = rows * suffix * (prefix + suffix / 2)
    flop = 4.0 * 16 * 128 * seen
    result: dict[str, Any] = {}
    for name, run in attention_ways(query, key, value, mask).items():
        try:
            run()
            seconds = min(timed(place.device, run) for _ in range(place.many(10, 2)))
        except Exception as error:  # a kernel that this device lacks is a finding, not the end of the step
            result[name] = {"error": " ".join(str(error).split())[:200]}
        else:
            result[name] = {"ms": round(seconds * 1000, 3), "teraflop_per_second": round(flop / seconds / 1e12, 2)}
    clear(place)
    return result


def model_format(place: Place) -> torch.dtype:
    """bfloat16 on a GPU, float32 in a test."""
    return torch.bfloat16 if place.device.type == "cuda" else torch.float32


def attention_ways(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor) -> dict[str, Any]:
    """The kernels, by name. `query` (rows, 16, suffix, 128), `key` and `value` (rows, 8, length, 128)."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    repeats = query.shape[1] // key.shape[1]
    wide_key, wide_value = (tensor.repeat_interleave(repeats, dim=1) for tensor in (key, value))
    added = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, torch.finfo(query.dtype).min)
    prefix = key.shape[2] - query.shape[2]

    def only(backend: SDPBackend, attn_mask: Any, **options: Any) -> Any:
        def run() -> torch.Tensor:
            with sdpa_kernel(backend):
                return sdpa(query, wide_key, wide_value, attn_mask=attn_mask, **options)

        return run

    def flex() -> torch.Tensor:
        compiled = torch.compile(flex_attention)
        blocks = create_block_mask(
            lambda row, head, at, to: to <= at + prefix, None, None, query.shape[2], key.shape[2], device=query.device
        )
        flexible["run"] = lambda: compiled(query, key, value, block_mask=blocks, enable_gqa=True)
        return flexible["run"]()

    flexible: dict[str, Any] = {"run": flex}
    ways = {
        "sdpa, dense mask, its choice of kernel": lambda: sdpa(query, wide_key, wide_value, attn_mask=mask),
        "sdpa, dense mask, grouped heads": lambda: sdpa(query, key, value, attn_mask=mask, enable_gqa=True),
        "sdpa, dense added mask": lambda: sdpa(query, wide_key, wide_value, attn_mask=added),
        "memory-efficient kernel, dense mask": only(SDPBackend.EFFICIENT_ATTENTION, mask),
        "cuDNN kernel, dense mask": only(SDPBackend.CUDNN_ATTENTION, mask),
        "math kernel, dense mask": only(SDPBackend.MATH, mask),
        "flash kernel, causal from the lower right": lambda: sdpa(
            query, wide_key, wide_value, attn_mask=causal_lower_right(query.shape[2], key.shape[2])
        ),
        "repeating the key heads": lambda: [tensor.repeat_interleave(repeats, dim=1) for tensor in (key, value)],
    }
    if query.device.type == "cuda":
        ways["flex attention, compiled"] = lambda: flexible["run"]()
    return ways
