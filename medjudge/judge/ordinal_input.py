"""The input of an ordinal judge: question, reference, checklist and answer together, as windows of token ids."""

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import Literal, NamedTuple

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from medjudge.judge.points import checklist_points, reference_points
from medjudge.models.batching import batches_by_length, padded
from medjudge.records import Question

PARTS = ("question", "reference", "checklist")
ANSWER, WHOLE = len(PARTS), len(PARTS) + 1
"""The numbers of the answer and of a window's last token, which has seen all of it, among the texts of a window."""
TEXTS = WHOLE + 1
"""The number of sums of states of an answer."""

Bucket = dict[str, torch.Tensor]


class Point(NamedTuple):
    """A sentence of a reference or an item of a checklist."""

    text: str
    source: Literal["reference", "checklist"]


class Window(NamedTuple):
    """Token ids of one pass; of each token, which text and which point it belongs to (-1 for none)."""

    ids: list[int]
    texts: list[int]
    points: list[int]


class _Token(NamedTuple):
    """A column of a `Window`."""

    id: int
    text: int
    point: int


class Encoded(NamedTuple):
    """An answer with what it is compared with, as windows that differ in their stretch of the answer."""

    windows: list[Window]
    answer_tokens_cut: int
    context_tokens_cut: int


def points_of(question: Question) -> list[Point]:
    """The sentences of a question's reference, then the items of its checklist."""
    reference, checklist = question.reference or "", question.checklist or ""
    points = [
        Point(reference[span.start : span.end].strip(), "reference")
        for span in reference_points(reference, question.language)
    ]
    if checklist.strip():
        points += [Point(checklist[span.start : span.end].strip(), "checklist") for span in checklist_points(checklist)]
    return [point for point in points if point.text]


def encode(
    tokenizer: PreTrainedTokenizerBase,
    prompt: str,
    points: Sequence[Point],
    answer: str,
    max_length: int,
    most_windows: int,
) -> Encoded:
    """Tokenises a question with its points, and an answer.

    Points that do not fit beside the answer are read in several passes, in groups; each group meets each stretch of the
    answer.

    Args:
        prompt: The question, after the earlier turns of its conversation.
        points: From `points_of`, those of the reference first.
        max_length: The most tokens of one window, special tokens included. At least half of it is the answer's, unless
            that is shorter.
        most_windows: The most stretches of the answer. Those of a longer one are spread evenly from start to end.

    Returns:
        Windows, and how many tokens of the answer, and of the other texts together, were left out.
    """
    start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    before, after = [[] if token is None else [_Token(token, -1, -1)] for token in (start, end)]

    def read(text: str, number: int, point: int = -1) -> list[_Token]:
        # split_special_tokens: a "[SEP]" or "</s>" inside a text is plain text. verbose=False: no warning about length.
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
        return [_Token(token, number, point) for token in ids]

    asked, tokens = read(prompt, 0), read(answer, ANSWER)
    of_points = [read(point.text, PARTS.index(point.source), place) for place, point in enumerate(points)]
    room = max_length - len(before) - len(after) * (len(PARTS) + 1)
    context_room = room - min(len(tokens), room - room // 2)
    total = len(asked) + sum(map(len, of_points))
    kept = asked[: context_room if not points else max(context_room // 2, context_room - total + len(asked))]
    groups = grouped([point[: context_room - len(kept)] for point in of_points], context_room - len(kept))
    cut = windows(tokens, room - len(kept) - max(sum(map(len, group)) for group in groups), most_windows)
    read_windows = []
    # A decoder's tokens see only what stands before them: the points, whose states are compared, come last.
    answer_first = tokenizer.cls_token_id is None
    for group in groups:
        of_group: list[_Token] = []
        for number in range(1, ANSWER):
            of_group += [*(token for point in group for token in point if token.text == number), *after]
        for stretch in cut.windows:
            of_answer = [*stretch, *after]
            rest = [*of_answer, *of_group] if answer_first else [*of_group, *of_answer]
            window = Window(*map(list, zip(*before, *kept, *after, *rest, strict=True)))
            if after:
                window.texts[-1] = WHOLE
            read_windows.append(window)
    shown = len(kept) + sum(len(point) for group in groups for point in group)
    return Encoded(read_windows, cut.tokens_left_out, total - shown)


def grouped(points: Sequence[list[_Token]], room: int) -> list[list[list[_Token]]]:
    """Puts points into as few groups as their order allows, each of at most so many tokens; at least one group."""
    groups: list[list[list[_Token]]] = [[]]
    for point in points:
        if groups[-1] and sum(map(len, groups[-1])) + len(point) > room:
            groups.append([])
        groups[-1].append(point)
    return groups


class Cut(NamedTuple):
    """A text cut into windows, and how many of its tokens are in none of them."""

    windows: list[list[_Token]]
    tokens_left_out: int


def windows(tokens: Sequence[_Token], size: int, most: int) -> Cut:
    """Cuts a text into windows of nearly equal length.

    Args:
        tokens: Any number of tokens; an empty text has no window.
        size: The most tokens of a window.
        most: The most windows.
    """
    if not tokens:
        return Cut([], 0)
    count = ceil(len(tokens) / size)
    if count > most:
        # Full windows, the last one ending with the text.
        starts = np.linspace(0, len(tokens) - size, most).round().astype(int)
        return Cut([list(tokens[start : start + size]) for start in starts], len(tokens) - most * size)
    edges = np.linspace(0, len(tokens), count + 1).round().astype(int)
    return Cut([list(tokens[start:end]) for start, end in pairwise(edges)], 0)


class Passes(NamedTuple):
    """The most tokens of a forward pass, padding included, and what a pass costs beside them, in tokens."""

    tokens: int
    overhead: int


class Batch(NamedTuple):
    """Answers ready for the model.

    Attributes:
        buckets: Windows of similar length: `input_ids` and `attention_mask`, and for each token `text`, the number of
            its row times `TEXTS` plus that of its text, and `point`, the number of its point in the batch; -1 for none.
            Each of shape (windows, length).
        present: 1 where a row has a question, a reference, a checklist, else 0; shape (rows, 3).
        row: The row of each point, shape (points,).
    """

    buckets: list[Bucket]
    present: torch.Tensor
    row: torch.Tensor


def collate(rows: Sequence[Encoded], points: Sequence[int], pad_id: int, passes: Passes) -> Batch:
    """Puts encoded answers into one batch.

    Args:
        rows: At least one answer.
        points: How many points each of them has.
        pad_id: The padding token.
        passes: How the windows are shared out among forward passes.
    """
    placed = placed_windows(rows, points)
    order = batches_by_length([len(window.ids) for window in placed], passes.tokens, passes.overhead)
    buckets = [bucket([placed[index] for index in indices], pad_id) for indices in order]
    return Batch(buckets, present(rows), torch.repeat_interleave(torch.tensor(points)))


def placed_windows(rows: Sequence[Encoded], points: Sequence[int]) -> list[Window]:
    """The windows of several answers, with texts and points numbered through; see `Batch`."""
    placed, first = [], 0
    for number, (row, count) in enumerate(zip(rows, points, strict=True)):
        for window in row.windows:
            texts = [-1 if text < 0 else number * TEXTS + text for text in window.texts]
            placed.append(Window(window.ids, texts, [-1 if point < 0 else first + point for point in window.points]))
        first += count
    return placed


def present(rows: Sequence[Encoded]) -> torch.Tensor:
    """1 where a row has a question, a reference, a checklist, else 0, shape (rows, 3)."""
    there = [{text for window in row.windows for text in window.texts} for row in rows]
    return torch.tensor([[float(number in texts) for number in range(ANSWER)] for texts in there])


def bucket(windows: Sequence[Window], pad_id: int) -> Bucket:
    """Windows as tensors of one length."""
    ids, texts, points = zip(*windows, strict=True)
    read = padded(ids, pad_id, "right")
    return {
        "input_ids": read.ids,
        "attention_mask": read.mask,
        "text": padded(texts, -1, "right").ids,
        "point": padded(points, -1, "right").ids,
    }
