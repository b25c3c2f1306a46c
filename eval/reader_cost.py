"""What cheaper matrix products save the built-in judge, and what they change.

    python eval/reader_cost.py [VARIANT …]

The sample's 280 answers, in processor seconds on one core, in float32 and without instructions beyond AVX2, as on a CPU
that has no others. Each variant runs in a process of its own. The result is `eval/results/reader-cost.json`; without
names, all are measured.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from reader_measures import interval, judged
from reader_rows import finished
from sklearn.metrics import cohen_kappa_score
from study import circumstances, record_entry
from torch import nn
from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

from medjudge.benchmark.sample import sample_folder
from medjudge.judge import point_reader
from medjudge.judge.open import built_in_folder
from medjudge.judge.ordinal import OrdinalJudge
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.records import Answer, PhysicianScore, Question
from medjudge.scale import USABLE_FROM
from medjudge.store import read_records

UP_TO_AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
"""Torch reads these when it is imported."""
POINTS, SENTENCES, SECOND, ENCODER = "points", "sentences", "second", "encoder"
FEWER_TOKENS = 16


class PackedLinear(nn.Module):
    """A linear layer whose weights oneDNN has laid out beforehand."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self.packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach().contiguous(), 4096)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        bias = self.bias.detach()
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(inputs, self.packed, bias, "none", [], "")
        return product


def in_8_bits(judge: ReaderJudge, parts: tuple[str, ...], by_channel: bool) -> None:
    """Replaces the linear layers of parts of a judge by ones with 8-bit weights and inputs."""
    linear: Any = {nn.Linear: per_channel_dynamic_qconfig} if by_channel else {nn.Linear}

    def replaced(module: Any) -> Any:
        return quantize_dynamic(module, linear, dtype=torch.qint8)  # type: ignore[no-untyped-call]

    assert judge.points
    assert judge.sentences
    assert isinstance(judge.second, OrdinalJudge)
    if POINTS in parts:
        judge.points.layers = replaced(judge.points.layers)
    if SENTENCES in parts:
        judge.sentences.body = replaced(judge.sentences.body)
    if SECOND in parts:
        judge.second.model = replaced(judge.second.model)
    if ENCODER in parts:
        judge.encoder.model = replaced(judge.encoder.model)


def packed(judge: ReaderJudge) -> None:
    """Packs the weights of all linear layers with a bias."""
    assert judge.points
    assert judge.sentences
    assert isinstance(judge.second, OrdinalJudge)
    for part in (judge.points.layers, judge.sentences.body, judge.second.model, judge.encoder.model):
        for module in list(part.modules()):
            for name, child in list(module.named_children()):
                if type(child) is nn.Linear and child.bias is not None:
                    setattr(module, name, PackedLinear(child))


VARIANTS: dict[str, Callable[[ReaderJudge], Any]] = {
    "as shipped": lambda judge: None,
    "packed float32 weights": packed,
    f"{FEWER_TOKENS} tokens of the answer per point": lambda judge: None,
    "8 bits by channel: points": lambda judge: in_8_bits(judge, (POINTS,), True),
    "8 bits by channel: points, sentences": lambda judge: in_8_bits(judge, (POINTS, SENTENCES), True),
    "8 bits by channel: points, sentences, second opinion": lambda judge: in_8_bits(
        judge, (POINTS, SENTENCES, SECOND), True
    ),
    "8 bits by channel: all": lambda judge: in_8_bits(judge, (POINTS, SENTENCES, SECOND, ENCODER), True),
    "8 bits by matrix: all": lambda judge: in_8_bits(judge, (POINTS, SENTENCES, SECOND, ENCODER), False),
}


def main() -> None:
    """Measures variants; with `--here`, one in this process."""
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(measured(sys.argv[2])))
        return
    entries = {name: _in_a_process(name) for name in dict.fromkeys(["as shipped", *(sys.argv[1:] or VARIANTS)])}
    usable = np.array(entries["as shipped"].pop("usable"))
    for name, entry in entries.items():
        changed = usable != np.array(entry.pop("usable", usable))
        record_entry("reader-cost", name, {**circumstances(), **entry, "labels changed": int(changed.sum())})
        print(name, entry, int(changed.sum()), file=sys.stderr, flush=True)


def _in_a_process(variant: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, __file__, "--here", variant],
        env=os.environ | UP_TO_AVX2,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    entry: dict[str, Any] = json.loads(done.stdout)
    return entry


def measured(variant: str) -> dict[str, Any]:
    """Judges the sample with a variant: processor seconds, kappa with the constructed levels, and who is usable."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "onednn"
    bundled = sample_folder()
    questions = {question.id: question for question in read_records(bundled / "questions.jsonl", Question)}
    answers = read_records(bundled / "answers.jsonl", Answer)
    scores = read_records(bundled / "physician_scores.jsonl", PhysicianScore)
    constructed = {(score.question_id, score.model): score.level >= USABLE_FROM for score in scores}
    tokens = FEWER_TOKENS if variant.startswith(f"{FEWER_TOKENS} tokens") else point_reader.MOST_ANSWER_TOKENS
    with (
        patch("torch.cpu._is_avx512_bf16_supported", return_value=False),
        patch("torch.cpu._is_amx_tile_supported", return_value=False),
        patch.object(point_reader, "MOST_ANSWER_TOKENS", tokens),
    ):
        judge = finished(built_in_folder())
        VARIANTS[variant](judge)
        began = time.process_time()
        judgments = judged(judge, [(questions[answer.question_id], answer) for answer in answers])
        seconds = time.process_time() - began
    said = np.array([(judgment.score or 0) >= USABLE_FROM for judgment in judgments.values()])
    usable = np.array([constructed[key] for key in judgments])
    kappa = interval([question for question, _ in judgments], lambda at: cohen_kappa_score(usable[at], said[at]))
    return {"answers": len(said), "processor seconds": round(seconds, 1), "cohen_kappa": kappa, "usable": said.tolist()}


if __name__ == "__main__":
    main()
