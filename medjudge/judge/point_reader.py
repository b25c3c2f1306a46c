"""Reads points together with an answer's nearest tokens in the encoder's own upper layers, which an adapter changes.

The lower layers read each text once, alone (`states.py`); from there on a point and its evidence are one text, so that
their tokens look at each other (MacAvaney et al., 2020, PreTTR).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from medjudge.judge.adapter import require_finite
from medjudge.judge.reader import NEAR, VERDICTS, ReaderBatch, near_numbers, read_by_length
from medjudge.judge.states import LAYERS

POINTS_FILE = "points.safetensors"
MOST_ANSWER_TOKENS = 32
"""Half of what the reader takes, to save time."""
_NEIGHBOURS = 5
_DOWN, _UP = "down", "up"
_COSINE, _SPREAD = 0.88, 0.06
"""Mean and spread of the cosines of tokens with their partners."""


class LowRank(NamedTuple):
    """What an adapter adds to the weight of a linear layer, (out, in): the product `up @ down`.

    Attributes:
        down: Shape (rank, in).
        up: Shape (out, rank), the adapter's scale included.
    """

    down: torch.Tensor
    up: torch.Tensor


class PointReader(nn.Module):
    """Says of each point whether the answer meets it, leaves it open or contradicts it.

    Args:
        body: The encoder, with or without an adapter; its layers above the first of `LAYERS` are used.
        width: Of its states.
    """

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(_layers(body)[LAYERS[0] :])
        self.precision = torch.float32
        self.side = nn.Embedding(3, width)
        self.match = nn.Linear(3, width)
        self.norm = nn.LayerNorm(3 * width)
        self.verdict = nn.Linear(3 * width, len(VERDICTS))
        self.weigh = nn.Linear(len(VERDICTS) + NEAR, len(VERDICTS))
        nn.init.normal_(self.side.weight, std=0.02)
        nn.init.zeros_(self.match.weight)
        nn.init.zeros_(self.match.bias)
        nn.init.eye_(self.weigh.weight)
        nn.init.zeros_(self.weigh.bias)

    def for_judging(self, precision: torch.dtype) -> "PointReader":
        """The reader in evaluation mode, its layers in a precision: faster than by autocast."""
        self.layers.to(precision)
        self.precision = precision
        return self.eval()

    def forward(self, batch: ReaderBatch) -> torch.Tensor:
        """The logits of met, open and contradicted of each piece of a point, (S, 3).

        Claims made by rule, which the layers learned from, are as near to what they contradict as to what they follow
        from. In real answers nearness tells most of whether a point is met, so the verdict weighs both.
        """
        weighed: torch.Tensor = self.weigh(self.numbers(batch)).float()
        return weighed

    def numbers(self, batch: ReaderBatch) -> torch.Tensor:
        """What a verdict weighs: the logits of the layers, and how near the point is to the answer, (S, 6)."""
        return torch.cat([self.read(batch), near_numbers(batch)], dim=1)

    def read(self, batch: ReaderBatch) -> torch.Tensor:
        """The logits of the layers, (S, 3); zeros for a question's pieces."""
        logits = batch.scalars.new_zeros(len(batch.kind), len(VERDICTS))
        rows = torch.nonzero(batch.kind > 0).squeeze(1)
        if not len(rows):
            return logits
        side = batch.side[rows]
        lengths = (side == 1).sum(dim=1) + (side == 2).sum(dim=1).clamp_max(MOST_ANSWER_TOKENS)
        read = read_by_length(lengths.tolist(), lambda some, _: self._read(batch, rows[some]))
        return logits.index_copy(0, rows, read)

    def _read(self, batch: ReaderBatch, rows: torch.Tensor) -> torch.Tensor:
        """The logits of some pieces, (rows, 3)."""
        index, side, gap = nearest(batch.side[rows], batch.match[rows, :, 0], batch.gap[rows])
        width = self.side.embedding_dim
        states = batch.states[rows, :, :width].gather(1, index[..., None].expand(-1, -1, width))
        match = batch.match[rows].gather(1, index[..., None].expand(-1, -1, 2))
        inside = side > 0
        cosine = ((match[..., 0] - _COSINE) / _SPREAD) * inside
        seen = torch.stack([cosine, match[..., 1] * inside, gap.float()], dim=-1)
        hidden = (states + self.side(side) + self.match(seen)).to(self.precision)
        mask = torch.zeros_like(hidden[..., 0]).masked_fill(~inside, -1e4)[:, None, None]
        for layer in self.layers:
            hidden = layer(hidden, mask)
        hidden = hidden.float()
        point, answer = (side == 1)[..., None], (side == 2)[..., None]
        mean = (hidden * point).sum(dim=1) / point.sum(dim=1)
        most = hidden.masked_fill(~point, -1e4).amax(dim=1)
        beside = (hidden * answer).sum(dim=1) / answer.sum(dim=1)
        logits: torch.Tensor = self.verdict(self.norm(torch.cat([mean, most, beside], dim=1))).float()
        return logits

    def save(self, folder: Path, changes: Mapping[str, LowRank]) -> None:
        """Writes `points.safetensors`, in half precision.

        Args:
            folder: The judge folder.
            changes: What the adapter adds to the linear layers, by their names in `layers`.
        """
        tensors = {name: value for name, value in self.state_dict().items() if not name.startswith("layers.")}
        for name, change in changes.items():
            tensors |= {f"{name}.{_DOWN}": change.down, f"{name}.{_UP}": change.up}
        save_file({name: value.detach().half().contiguous() for name, value in tensors.items()}, folder / POINTS_FILE)

    @classmethod
    def load(cls, folder: Path, body: nn.Module, width: int) -> "PointReader":
        """Reads what `save` wrote into an encoder, which nothing else may use.

        Raises:
            ValueError: A tensor is missing, not finite, or does not fit the encoder.
        """
        saved = {name: value.float() for name, value in load_file(folder / POINTS_FILE).items()}
        require_finite(saved, POINTS_FILE)
        reader = cls(body, width)
        try:
            for name, layer in reader.layers.named_modules():
                if f"{name}.{_DOWN}" in saved:
                    down, up = saved.pop(f"{name}.{_DOWN}"), saved.pop(f"{name}.{_UP}")
                    layer.weight.data += up @ down
            problems = reader.load_state_dict(saved, strict=False)
        except (KeyError, RuntimeError) as error:
            raise ValueError(f"{POINTS_FILE} does not fit: {error}") from None
        if problems.unexpected_keys or any(not name.startswith("layers.") for name in problems.missing_keys):
            raise ValueError(f"{POINTS_FILE} does not hold the tensors of a reader of points")
        return reader.eval()


def nearest(side: torch.Tensor, match: torch.Tensor, gap: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """A piece's point and the nearest of the answer's tokens, `MOST_ANSWER_TOKENS` at most, in their order.

    Args:
        side: 0 padding, 1 point, 2 answer, (S, L).
        match: The cosine of each token with its partner on the other side, (S, L).
        gap: Whether the token before was left out already, (S, L).

    Returns:
        The tokens' indices, (S, K); their side, 0 where a piece has fewer; and whether the token before is left out.
    """
    answer = side == 2
    # A token beside a near one is taken too: it may be a negation.
    near = functional.avg_pool1d((match * answer)[:, None], _NEIGHBOURS, 1, _NEIGHBOURS // 2)[:, 0]
    order = near.masked_fill(~answer, -torch.inf).argsort(dim=1, descending=True, stable=True)
    kept = (side == 1) | (answer & (order.argsort(dim=1) < MOST_ANSWER_TOKENS))
    longest = int(kept.sum(dim=1).max())
    index = (~kept).int().argsort(dim=1, stable=True)[:, :longest]
    own = side.gather(1, index) * kept.gather(1, index)
    apart = functional.pad((index.diff(dim=1) > 1) & (own[:, :-1] == 2), (1, 0))
    return index, own, ((gap.gather(1, index) > 0) | apart) & (own == 2)


def _layers(body: nn.Module) -> nn.ModuleList:
    (layers,) = (module.layer for name, module in body.named_modules() if name.endswith("encoder"))
    assert isinstance(layers, nn.ModuleList)
    return layers
