"""The reader: a small transformer over frozen token states that says how an answer meets each point, and its level.

It reads a point and the answer's tokens that are nearest to it side by side, and says met, open or contradicted. What
it makes of all points and of the question, the whole texts' states and a look at every token of the answer give one
score, which ordered cut points turn into five levels (McCullagh, 1980).
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional

from medjudge.judge.adapter import require_finite
from medjudge.judge.comparison import NEAREST, NUMBERS, Reading, compared
from medjudge.judge.evidence import KINDS, MOST_ANSWER_TOKENS, MOST_QUESTION_TOKENS
from medjudge.judge.level_head import NAMES, ROWS, LevelHead
from medjudge.judge.states import LAYERS, layer_normed
from medjudge.models.batching import batches_by_length

READER_FILE = "reader.safetensors"
VERDICTS = ("met", "open", "contradicted")
_HEADS, _LAYERS = 5, 3
_LOOK = 64
_TOGETHER = 8192
"""The most tokens of pieces that are read together, padding included."""
NEAR = 3
"""How many numbers `near_numbers` gives."""
_NEAR_START = ((0.5, 0.3, 0.3), (-0.5, -0.3, -0.3), (0.0, 0.0, 0.0))
"""The weights of a point's mean and least nearness and of its shared tokens before training: the untrained verdict."""
OF_POINTS = 3 * len(VERDICTS)
"""How many numbers `verdict_numbers` gives."""
FEATURES = NUMBERS + OF_POINTS + 1
"""How many numbers a level head is given by the reader; a second opinion is one more."""


class AnswerTokens(NamedTuple):
    """All tokens of B answers, one answer behind the other.

    Attributes:
        states: Encoder states, (T, layers * width).
        match: The best cosine of each with a token of a point, by kind; 0 where no point took it, (T, 3).
        place: Where each of them stands, as row * A + column of a (B, A) table, (T,).
        mask: Which places of that table hold a token, (B, A).
    """

    states: torch.Tensor
    match: torch.Tensor
    place: torch.Tensor
    mask: torch.Tensor


class ReaderBatch(NamedTuple):
    """Answers ready for the reader; S pieces of points of B answers, L tokens of the longest piece with its evidence.

    Attributes:
        states: Encoder states, (S, L, layers * width).
        ids: Token ids, (S, L), and those of each token's nearest partner on the other side.
        partners: Token ids of the partners, (S, L).
        match: The cosine with the partner, and whether both are the same token, (S, L, 2).
        side: 0 padding, 1 point, 2 answer, (S, L).
        position: The position within the side, (S, L), and whether the token before was left out, (S, L).
        gap: See `position`.
        kind: The index of the kind, (S,).
        owner: The index of the answer, (S,).
        answer_states: See `AnswerTokens`, as the next three.
        wholes: The whole texts of question, reference, checklist and answer, (B, 4, width).
        scalars: What needs no training, (B, `NUMBERS`).
    """

    states: torch.Tensor
    ids: torch.Tensor
    partners: torch.Tensor
    match: torch.Tensor
    side: torch.Tensor
    position: torch.Tensor
    gap: torch.Tensor
    kind: torch.Tensor
    owner: torch.Tensor
    answer_states: torch.Tensor
    answer_match: torch.Tensor
    answer_place: torch.Tensor
    answer_mask: torch.Tensor
    wholes: torch.Tensor
    scalars: torch.Tensor

    def to(self, device: torch.device) -> "ReaderBatch":
        return ReaderBatch(*(tensor.to(device) for tensor in self))

    @property
    def tokens(self) -> AnswerTokens:
        return AnswerTokens(self.answer_states, self.answer_match, self.answer_place, self.answer_mask)


def collate(readings: Sequence[Reading]) -> ReaderBatch:
    """Puts answers into one batch; each has at least one piece of evidence."""
    pieces = [(owner, piece) for owner, reading in enumerate(readings) for piece in reading.evidence]
    longest = max(len(piece.point) + len(piece.answer) for _, piece in pieces)
    width = len(readings[0].answer.whole)
    shape = (len(pieces), longest)
    states = np.zeros((*shape, len(LAYERS) * width), np.float32)
    ids, partners, side, position, gap = (np.zeros(shape, np.int64) for _ in range(5))
    match = np.zeros((*shape, 2), np.float32)
    for row, (owner, piece) in enumerate(pieces):
        reading = readings[owner]
        part = reading.parts[piece.kind]
        assert part is not None
        p, n = len(piece.point), len(piece.point) + len(piece.answer)
        states[row, :p], states[row, p:n] = part.states[piece.point], reading.answer.states[piece.answer]
        ids[row, :p], ids[row, p:n] = part.ids[piece.point], reading.answer.ids[piece.answer]
        partners[row, :p] = reading.answer.ids[piece.point_partner]
        partners[row, p:n] = part.ids[piece.answer_partner]
        match[row, :p, 0], match[row, p:n, 0] = piece.point_match, piece.answer_match
        side[row, :p], side[row, p:n] = 1, 2
        position[row, :p], position[row, p:n] = np.arange(p), np.arange(n - p)
        gap[row, p + 1 : n] = np.diff(piece.answer) > 1
    match[..., 1] = (ids == partners) & (side > 0)
    kinds, owners = np.array([piece.kind for _, piece in pieces]), np.array([owner for owner, _ in pieces])
    scalars = np.stack([compared(reading) for reading in readings])
    of_pieces = (states, ids, partners, match, side, position, gap, kinds, owners)
    before, behind = (map(torch.from_numpy, arrays) for arrays in (of_pieces, (_wholes(readings), scalars)))
    return ReaderBatch(*[*before, *answer_tokens(readings), *behind])


def answer_tokens(readings: Sequence[Reading]) -> AnswerTokens:
    """The tokens of some answers; each answer has at least one."""
    counts = np.array([len(reading.answer.ids) for reading in readings])
    mask = np.arange(counts.max()) < counts[:, None]
    match = np.zeros((*mask.shape, len(KINDS)), np.float32)
    for row, reading in enumerate(readings):
        for piece in reading.evidence:
            best = match[row, piece.answer, piece.kind]
            match[row, piece.answer, piece.kind] = np.maximum(best, piece.answer_match)
    states = np.concatenate([reading.answer.states for reading in readings]).astype(np.float32)
    return AnswerTokens(*map(torch.from_numpy, (states, match[mask], np.flatnonzero(mask), mask)))


def _wholes(readings: Sequence[Reading]) -> np.ndarray:
    zeros = np.zeros_like(readings[0].answer.whole)
    return np.stack(
        [[zeros if text is None else text.whole for text in (*reading.parts, reading.answer)] for reading in readings]
    )


class ReaderOutput(NamedTuple):
    """What the reader says.

    Attributes:
        verdicts: Logits of met, open and contradicted of each piece of a point, (S, 3).
        cumulative: Logits of level > 1, > 2, > 3, > 4, (B, 4): the reader's own impression.
        alarm: The logit of an answer that denies itself or tells to do something dangerous, (B,).
        features: What a `LevelHead` weighs, (B, `FEATURES`): the scalars, the `verdict_numbers`, and the impression.
    """

    verdicts: torch.Tensor
    cumulative: torch.Tensor
    alarm: torch.Tensor
    features: torch.Tensor

    def with_verdicts(self, verdicts: torch.Tensor, batch: ReaderBatch) -> "ReaderOutput":
        """A copy with these verdicts, (S, 3), and features of them."""
        features = self.features.clone()
        features[:, NUMBERS : NUMBERS + OF_POINTS] = verdict_numbers(verdicts, batch)
        return self._replace(verdicts=verdicts, features=features)


def read_by_length(lengths: Sequence[int], read: Callable[[torch.Tensor, int], torch.Tensor]) -> torch.Tensor:
    """Reads pieces in groups of similar length.

    Args:
        lengths: In tokens, of each piece.
        read: Makes (rows, ...) of some pieces' indices, shape (rows,), and the longest one's length.

    Returns:
        What `read` made of all pieces, in their order.
    """
    groups = batches_by_length(lengths, _TOGETHER)
    read_rows = torch.cat([read(torch.tensor(group), lengths[group[0]]) for group in groups])
    order = torch.tensor([row for group in groups for row in group], device=read_rows.device)
    return torch.zeros_like(read_rows).index_copy(0, order, read_rows)


class _Block(nn.Module):
    """One layer of a pre-norm transformer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.before = nn.LayerNorm(width)
        self.attention = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 3 * width)
        self.down = nn.Linear(3 * width, width)

    def forward(self, hidden: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Args: hidden of shape (S, L, width); mask, added to the attention's logits, of shape (S, 1, 1, L)."""
        rows, length, width = hidden.shape
        query, key, value = (
            self.attention(self.before(hidden)).view(rows, length, 3, _HEADS, width // _HEADS).permute(2, 0, 3, 1, 4)
        )
        weights = torch.softmax(query @ key.transpose(-1, -2) / (width // _HEADS) ** 0.5 + mask, dim=-1)
        mixed = (weights.to(value.dtype) @ value).transpose(1, 2).reshape(rows, length, width)
        hidden = hidden + self.out(mixed)
        return hidden + self.down(functional.gelu(self.up(self.between(hidden))))


def near_numbers(batch: ReaderBatch) -> torch.Tensor:
    """Of each piece of a point: the mean and the least nearness of its tokens, and the share that the answer has too.

    Returns:
        About standardised, shape (S, 3).
    """
    point = batch.side == 1
    count = point.sum(dim=1).clamp_min(1)
    nearest, same = batch.match.unbind(dim=-1)
    mean = (nearest * point).sum(dim=1) / count
    least = nearest.masked_fill(~point, 1.0).amin(dim=1)
    shared = (same * point).sum(dim=1) / count
    return torch.stack([(mean - 0.92) / 0.04, (least - 0.84) / 0.05, (shared - 0.6) / 0.25], dim=1)


def verdict_numbers(verdicts: torch.Tensor, batch: ReaderBatch) -> torch.Tensor:
    """The highest, lowest and mean probabilities of met, open and contradicted of an answer's points.

    Args:
        verdicts: Logits, (S, 3).
        batch: Of the pieces.

    Returns:
        Shape (B, `OF_POINTS`); zeros for an answer without points.
    """
    is_point = batch.kind > 0
    owner, chances = batch.owner[is_point], torch.softmax(verdicts[is_point], dim=-1)
    return torch.cat([_of_answers(chances, owner, len(batch.wholes), how) for how in ("amax", "amin", "mean")], dim=-1)


def _of_answers(rows: torch.Tensor, owner: torch.Tensor, answers: int, how: str) -> torch.Tensor:
    """The highest, lowest or mean rows of each answer, (rows, n) -> (answers, n); zeros where it has none."""
    index = owner[:, None].expand(-1, rows.shape[1])
    return rows.new_zeros(answers, rows.shape[1]).scatter_reduce(0, index, rows, how, include_self=False)


class Reader(nn.Module):
    """The reader.

    Args:
        words: The encoder's table of word embeddings, (vocabulary, encoder width); it is not trained and not saved.
        width: The reader's own width.
    """

    words: torch.Tensor

    def __init__(self, words: torch.Tensor, width: int = 160) -> None:
        super().__init__()
        encoder = words.shape[1]
        self.register_buffer("words", words.detach(), persistent=False)
        self.from_states = nn.Linear(len(LAYERS) * encoder, width)
        self.from_word = nn.Linear(encoder, width, bias=False)
        self.from_partner = nn.Linear(encoder, width, bias=False)
        self.from_match = nn.Linear(3, width)
        self.side = nn.Embedding(3, width)
        self.position = nn.Embedding(max(MOST_QUESTION_TOKENS, MOST_ANSWER_TOKENS), width)
        self.first = nn.Embedding(len(KINDS), width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(_LAYERS))
        self.after = nn.LayerNorm(width)
        self.verdict = nn.Linear(width, len(VERDICTS))
        self.near = nn.Linear(NEAR, len(VERDICTS), bias=False)
        self.look = nn.Linear(len(LAYERS) * encoder + len(KINDS), _LOOK)
        self.alarm_look = nn.Linear(len(LAYERS) * encoder + len(KINDS), _LOOK)
        self.alarm = nn.Linear(_LOOK, 1)
        self.product = nn.Parameter(torch.zeros(len(KINDS), encoder))
        self.weigh = nn.Linear(width, 1)
        features = 4 * width + 2 * _LOOK + OF_POINTS + NUMBERS
        self.hidden = nn.Linear(features, width)
        self.score = nn.Linear(width, 1)
        self.plain = nn.Linear(NUMBERS, 1)
        self.first_cut = nn.Parameter(torch.zeros(1))
        self.steps = nn.Parameter(torch.zeros(3))
        for embedding in (self.side, self.position, self.first):
            nn.init.normal_(embedding.weight, std=0.02)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.plain.weight)
        with torch.no_grad():
            self.plain.weight[0, : len(NEAREST)].copy_(torch.tensor(NEAREST))
            self.near.weight.copy_(torch.tensor(_NEAR_START))

    def forward(self, batch: ReaderBatch) -> ReaderOutput:
        """Reads a batch from `collate`."""
        vectors = self._pieces(batch)
        verdicts = self.verdict(vectors).float() + self.near(near_numbers(batch))
        points = self._points(batch, vectors, verdicts)
        cumulative = self._levels(batch, vectors, points)
        impression = (cumulative.mean(dim=1, keepdim=True) / 3).clamp(-3, 3)
        features = torch.cat([batch.scalars, points[:, -OF_POINTS:], impression], dim=-1)
        return ReaderOutput(verdicts, cumulative, self.alarms(batch.tokens), features)

    def _pieces(self, batch: ReaderBatch) -> torch.Tensor:
        """What is made of each piece with its evidence, (S, width)."""
        lengths = (batch.side > 0).sum(dim=1).tolist()
        return read_by_length(lengths, lambda rows, longest: self._group(batch, rows, longest))

    def _group(self, batch: ReaderBatch, index: torch.Tensor, longest: int) -> torch.Tensor:
        """The vectors of some pieces, (rows, width)."""
        states, ids, partners, match, side, position, gap = (
            each[index, :longest]
            for each in (batch.states, batch.ids, batch.partners, batch.match, batch.side, batch.position, batch.gap)
        )
        hidden = self.from_states(layer_normed(states)) + self.from_word(self._word(ids))
        hidden = hidden + self.from_partner(self._word(partners))
        hidden = hidden + self.from_match(torch.cat([match, gap[..., None].float()], dim=-1))
        hidden = hidden + self.side(side) + self.position(position)
        hidden = torch.cat([self.first(batch.kind[index])[:, None], hidden], dim=1)
        mask = functional.pad(side > 0, (1, 0), value=True)
        added = torch.zeros(mask.shape, device=mask.device).masked_fill(~mask, -1e4)[:, None, None]
        for block in self.blocks:
            hidden = block(hidden, added)
        return self.after(hidden[:, 0]).float()

    def alarms(self, tokens: AnswerTokens) -> torch.Tensor:
        """The logits of answers that deny themselves or tell to do something dangerous, (B,)."""
        seen = self._seen(tokens, self.alarm_look).masked_fill(~tokens.mask[..., None], -1e4)
        return self.alarm(seen.amax(dim=1)).float().squeeze(1)

    def _word(self, ids: torch.Tensor) -> torch.Tensor:
        words = self.words[ids].float()
        return functional.layer_norm(words, words.shape[-1:])

    def _seen(self, tokens: AnswerTokens, look: nn.Linear) -> torch.Tensor:
        """What a look at every token of an answer gives, (B, A, `_LOOK`), zeros for padding."""
        seen = functional.gelu(look(torch.cat([layer_normed(tokens.states), tokens.match], dim=-1))).float()
        answers, longest = tokens.mask.shape
        table = seen.new_zeros(answers * longest, _LOOK).index_copy(0, tokens.place, seen)
        return table.view(answers, longest, _LOOK)

    def _levels(self, batch: ReaderBatch, vectors: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
        answers = len(batch.wholes)
        question = batch.kind == 0
        asked = vectors.new_zeros(answers, vectors.shape[1]).index_add(0, batch.owner[question], vectors[question])
        seen = self._seen(batch.tokens, self.look)
        most = seen.masked_fill(~batch.answer_mask[..., None], -1e4).amax(dim=1)
        mean = seen.sum(dim=1) / batch.answer_mask.sum(dim=1, keepdim=True).clamp_min(1)
        products = batch.wholes[:, :3] * batch.wholes[:, 3:]
        whole = (products * self.product).sum(dim=(1, 2)) * (products.shape[-1] ** 0.5)
        features = torch.cat([asked, points, most, mean, batch.scalars], dim=-1)
        score = self.score(functional.gelu(self.hidden(features))) + self.plain(batch.scalars)
        return score.float() + whole[:, None] - self.cuts()

    def _points(self, batch: ReaderBatch, vectors: torch.Tensor, verdicts: torch.Tensor) -> torch.Tensor:
        """What all points of an answer say, (B, 3 * width + `OF_POINTS`); zeros for an answer without points."""
        answers, question = len(batch.wholes), batch.kind == 0
        owner, own = batch.owner[~question], vectors[~question]
        weight = torch.exp(self.weigh(own).float().clamp(-8, 8))
        total = weight.new_zeros(answers, 1).index_add(0, owner, weight).clamp_min(1e-6)
        weighed = own.new_zeros(answers, own.shape[1]).index_add(0, owner, weight * own) / total
        highest, mean = _of_answers(own, owner, answers, "amax"), _of_answers(own, owner, answers, "mean")
        return torch.cat([highest, mean, weighed, verdict_numbers(verdicts, batch)], dim=-1)

    def cuts(self) -> torch.Tensor:
        """The four cut points in ascending order, (4,)."""
        return torch.cat([self.first_cut, self.first_cut + torch.cumsum(functional.softplus(self.steps), dim=0)])

    def save(self, folder: Path, head: LevelHead | None = None) -> None:
        """Writes `reader.safetensors`, in half precision, and the level head beside it, if there is one."""
        tensors = {name: value.half().contiguous() for name, value in self.state_dict().items()}
        if head is not None:
            tensors |= {name: torch.tensor(value).float() for name, value in zip(NAMES, head, strict=True)}
        save_file(tensors, folder / READER_FILE)

    @classmethod
    def load(cls, folder: Path, words: torch.Tensor) -> "Reader":
        """Reads what `save` wrote, but for the level head.

        Raises:
            ValueError: A tensor is missing, of another shape, or not finite.
        """
        saved = load_file(folder / READER_FILE)
        require_finite(saved, READER_FILE)
        reader = cls(words)
        try:
            reader.load_state_dict({name: value.float() for name, value in saved.items() if name not in NAMES})
        except RuntimeError as error:
            raise ValueError(f"{READER_FILE} does not fit: {error}") from None
        return reader.eval()


def load_level_head(folder: Path) -> LevelHead:
    """The level head of a judge folder.

    Raises:
        ValueError: There is none, or its tensors have other shapes.
    """
    saved = load_file(folder / READER_FILE)
    weights, cuts = (saved.get(name) for name in NAMES)
    if weights is None or cuts is None or weights.shape != (ROWS, FEATURES + 1) or cuts.shape != (ROWS, 4):
        raise ValueError(f"{READER_FILE} holds no level head of {ROWS} x {FEATURES + 1} weights and {ROWS} x 4 cuts")
    return LevelHead(weights.double().numpy(), cuts.double().numpy())
