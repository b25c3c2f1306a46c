"""The states below the first trained layer: they are the same in every epoch, so they are computed once and kept."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl import SFTConfig

_LEFT_FREE = 2**30
"""Bytes of the disk that are left to others."""


class KeptStates:
    """Skips the layers below the first trained one for a batch of which each line was read before.

    The states lie in a file without a name, which ends with the process. The operating system caches it in free memory.
    What does not fit on the disk is computed each time. `forward` of the frozen layers, at least one, is replaced.
    """

    def __init__(self, frozen: nn.ModuleList, folder: Path) -> None:
        self.folder = folder
        self.file = TemporaryFile(dir=folder)  # noqa: SIM115
        self.places: dict[bytes, int] = {}
        self.real: torch.Tensor | None = None
        self.runs: list[tuple[bytes, int]] = []
        """Hash and length of the tokens of a batch that see nothing but each other: a line, or a tree of lines."""
        for number, layer in enumerate(frozen, start=1):
            layer.forward = self._skipping(layer.forward, is_last=number == len(frozen))

    @contextmanager
    def of(self, batch: dict[str, torch.Tensor]) -> Iterator[None]:
        """The model reads this batch of `collate`, and no other."""
        self.real = batch["line"] >= 0
        tokens = torch.stack([batch["input_ids"][self.real], batch["position_ids"][self.real]], dim=1).cpu()
        starts = (tokens[:, 1] == 0).nonzero().flatten().tolist()
        runs = np.split(tokens.numpy(), starts[1:])
        self.runs = [(sha256(run.tobytes()).digest(), len(run)) for run in runs]
        try:
            yield
        finally:
            self.real = None

    def _skipping(self, forward: Callable[..., Any], is_last: bool) -> Callable[..., Any]:
        def skipping(states: torch.Tensor, *arguments: Any, **options: Any) -> Any:
            if self.real is None:
                return forward(states, *arguments, **options)
            known = all(key in self.places for key, _ in self.runs)
            if not is_last:
                return states if known else forward(states, *arguments, **options)
            if known:
                found = states.detach().clone()
                found[self.real] = self._read(states)
            else:
                found = forward(states, *arguments, **options).detach()
                self._keep(found[self.real])
            return found

        return skipping

    def _keep(self, states: torch.Tensor) -> None:
        """Writes the states of the batch's tokens, (tokens, width)."""
        for (key, _), own in zip(self.runs, torch.split(states, [length for _, length in self.runs]), strict=True):
            content = own.contiguous().cpu().view(torch.uint8).numpy().tobytes()
            if key not in self.places and shutil.disk_usage(self.folder).free > len(content) + _LEFT_FREE:
                place = self.file.seek(0, 2)
                self.file.write(content)
                self.places[key] = place

    def _read(self, like: torch.Tensor) -> torch.Tensor:
        """Reads the states of the batch's tokens, (tokens, width)."""
        width = like.shape[-1] * like.itemsize
        content = bytearray()
        for key, length in self.runs:
            self.file.seek(self.places[key])
            content += self.file.read(length * width)
        return torch.frombuffer(content, dtype=like.dtype).view(-1, like.shape[-1]).to(like.device)


def kept_states(model: PreTrainedModel, training: SFTConfig) -> KeptStates | None:
    """The states to keep in a training run; None where it has one epoch, or where they cannot be kept.

    They cannot where embeddings or first layer are trained, where dropout changes what frozen layers say, and under
    ZeRO-3, where all processes must run the same layers. The model has its adapter in it.
    """
    layers = getattr(model.get_decoder(), "layers", nn.ModuleList())
    trained = [any(each.requires_grad for each in layer.parameters()) for layer in layers]
    first = trained.index(True) if True in trained else 0
    embeddings = model.get_input_embeddings().parameters()
    dropout = any(isinstance(module, nn.Dropout) and module.p for module in layers[:first].modules())
    if (
        first == 0
        or (training.num_train_epochs <= 1 and training.max_steps < 1)
        or any(each.requires_grad for each in embeddings)
        or dropout
        or getattr(model.config, "attention_dropout", 0)
        or is_deepspeed_zero3_enabled()
    ):
        return None
    return KeptStates(layers[:first], Path(training.output_dir or ""))
