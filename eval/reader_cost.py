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
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import torch
from reader_measures import interval, judged
from reader_rows import finished, sample_work
from sklearn.metrics import cohen_kappa_score
from study import circumstances, record_entry
from torch import nn
from torch.ao.quantization import per_channel_dynamic_qconfig, quantize_dynamic

from medjudge.judge import point_reader
from medjudge.judge.open import built_in_folder
from medjudge.judge.ordinal import OrdinalJudge
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.scale import USABLE_FROM

UP_TO_AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
"""Torch reads these when it is imported."""
POINTS, SENTENCES, SECOND, ENCODER = "points", "sentences", "second", "encoder"
AS_MEASURED = "float32, one core, no instructions beyond AVX2"


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


class Variant(NamedTuple):
    """What it does to a judge, and how many of the answer's tokens a point is compared with."""

    change: Callable[[ReaderJudge], None] = lambda judge: None
    tokens: int = point_reader.MOST_ANSWER_TOKENS


def _in_8_bits(*parts: str, by_channel: bool = True) -> Variant:
    return Variant(lambda judge: in_8_bits(judge, parts, by_channel))


VARIANTS = {
    "as shipped": Variant(),
    "packed float32 weights": Variant(packed),
    "16 tokens of the answer per point": Variant(tokens=16),
    "8 bits by channel: points": _in_8_bits(POINTS),
    "8 bits by channel: points, sentences": _in_8_bits(POINTS, SENTENCES),
    "8 bits by channel: points, sentences, second opinion": _in_8_bits(POINTS, SENTENCES, SECOND),
    "8 bits by channel: all": _in_8_bits(POINTS, SENTENCES, SECOND, ENCODER),
    "8 bits by matrix: all": _in_8_bits(POINTS, SENTENCES, SECOND, ENCODER, by_channel=False),
}


def main() -> None:
    """Measures variants; with `--here`, one in this process."""
    if sys.argv[1:2] == ["--here"]:
        print(json.dumps(measured(sys.argv[2])))
        return
    entries = {name: _in_a_process(name) for name in dict.fromkeys(["as shipped", *(sys.argv[1:] or VARIANTS)])}
    shipped = np.array(entries["as shipped"]["usable"])
    for name, entry in entries.items():
        changed = shipped != np.array(entry.pop("usable"))
        known = {**circumstances(), "command": f'python eval/reader_cost.py "{name}"', "measured as": AS_MEASURED}
        record_entry("reader-cost", name, {**known, **entry, "labels changed": int(changed.sum())})
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
    work, constructed = sample_work()
    with (
        patch("torch.cpu._is_avx512_bf16_supported", return_value=False),
        patch("torch.cpu._is_amx_tile_supported", return_value=False),
        patch.object(point_reader, "MOST_ANSWER_TOKENS", VARIANTS[variant].tokens),
    ):
        judge = finished(built_in_folder())
        VARIANTS[variant].change(judge)
        began = time.process_time()
        judgments = judged(judge, work)
        seconds = time.process_time() - began
    said = np.array([(judgment.score or 0) >= USABLE_FROM for judgment in judgments.values()])
    usable = constructed >= USABLE_FROM
    kappa = interval([question.id for question, _ in work], lambda at: cohen_kappa_score(usable[at], said[at]))
    return {"answers": len(said), "processor seconds": round(seconds, 1), "cohen_kappa": kappa, "usable": said.tolist()}


if __name__ == "__main__":
    main()
