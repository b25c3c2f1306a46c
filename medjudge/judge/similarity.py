"""The `similarity` judge: the cosine of answer and reference, cut into levels; the baseline for other judges."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import expit
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.models.batching import batches_by_length, cut_middle, padded
from medjudge.records import ErrorKind, Judgment
from medjudge.screen import progress_bar

_CHUNK = 64
"""The answers that are embedded before their judgments are yielded: few, so that an interruption loses little."""


class SentenceEncoder(NamedTuple):
    """An encoder whose embedding of a text is the mean over its tokens.

    Attributes:
        model: The encoder.
        tokenizer: The model's tokenizer.
        max_length: The most tokens of a text that it reads.
        prefix: What the encoder learned to find before each text, such as "query: ".
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    max_length: int
    prefix: str = ""


class CutPoints(NamedTuple):
    """P(level > k) = sigmoid(slope * cosine - cuts[k - 1]); `cuts` are in ascending order."""

    slope: float
    cuts: tuple[float, float, float, float]

    def probabilities(self, cosines: np.ndarray) -> np.ndarray:
        """Level probabilities, (n,) -> (n, 5), level 1 first."""
        above = expit(self.slope * np.asarray(cosines)[:, None] - np.asarray(self.cuts)[None, :])
        edges = np.concatenate([np.ones((len(above), 1)), above, np.zeros((len(above), 1))], axis=1)
        return edges[:, :-1] - edges[:, 1:]


def fit_cut_points(cosines: np.ndarray, levels: np.ndarray) -> CutPoints:
    """Fits the cut points by maximum likelihood, with a weak ridge on the slope (proportional odds; McCullagh, 1980).

    Args:
        cosines: Cosine of answer and reference, shape (n,).
        levels: The answers' levels 1-5, shape (n,), integers.
    """
    cosines, levels = np.asarray(cosines, dtype=float), np.asarray(levels)

    def unpacked(parameters: np.ndarray) -> CutPoints:
        cuts = parameters[1] + np.concatenate([[0.0], np.cumsum(np.exp(parameters[2:]))])
        return CutPoints(float(parameters[0]), (float(cuts[0]), float(cuts[1]), float(cuts[2]), float(cuts[3])))

    def loss(parameters: np.ndarray) -> float:
        likelihood = unpacked(parameters).probabilities(cosines)[np.arange(len(levels)), levels - 1]
        return float(-np.log(np.clip(likelihood, 1e-12, None)).mean() + 1e-4 * parameters[0] ** 2)

    optimum = minimize(loss, np.array([5.0, 2.0, 0.0, 0.0, 0.0]), method="Nelder-Mead", options={"maxiter": 4000})
    return unpacked(optimum.x)


class SimilarityJudge:
    """Scores by the cosine between the embeddings of answer and reference.

    Args:
        name: The judge's name.
        encoder: The encoder of answers and references.
        cut_points: Cut points from `fit_cut_points`.
    """

    def __init__(self, name: str, encoder: SentenceEncoder, cut_points: CutPoints) -> None:
        self.name = name
        self.encoder = encoder
        self.cut_points = cut_points

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        not_empty, empty = split_empty(assignments, self.name)
        yield from empty
        for assignment in not_empty:
            if not assignment.question.reference:
                reason = "the question has no reference to compare the answer with"
                yield unscored(assignment, self.name, ErrorKind.NO_REFERENCE, reason)
        # A reference is embedded once per chunk, so answers to one question are adjacent.
        work = sorted((item for item in not_empty if item.question.reference), key=lambda item: item.question.id)
        for start in range(0, len(work), _CHUNK):
            chunk = work[start : start + _CHUNK]
            cosines, cut = cosines_to_reference(self.encoder, chunk, show_bar=False)
            for assignment, row, tokens_cut in zip(chunk, self.cut_points.probabilities(cosines), cut, strict=True):
                yield scored(assignment, self.name, row, answer_tokens_cut=tokens_cut)


def cosines_to_reference(
    encoder: SentenceEncoder, work: Sequence[Assignment], show_bar: bool = True
) -> tuple[np.ndarray, list[int]]:
    """The cosine of each answer with its reference, shape (n,), and the tokens of each answer that did not fit."""
    references = list(dict.fromkeys(assignment.question.reference or "" for assignment in work))
    texts = references + [assignment.answer.text for assignment in work]
    model, tokenizer = encoder.model, encoder.tokenizer
    prefix = tokenizer(encoder.prefix, add_special_tokens=False)["input_ids"]
    room = encoder.max_length - len(prefix) - 2
    sequences, cut = [], []
    for text in texts:
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
        shortened = cut_middle(ids, room)
        sequences.append([tokenizer.cls_token_id, *prefix, *shortened.tokens, tokenizer.sep_token_id])
        cut.append(shortened.left_out)
    vectors = np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
    with progress_bar(len(texts), "embedding (similarity)", "text", show_bar) as shown:
        for batch in batches_by_length([len(sequence) for sequence in sequences], 8192):
            ids, mask = padded([sequences[index] for index in batch], tokenizer.pad_token_id, "right")
            with torch.inference_mode():
                hidden = model(ids.to(model.device), mask.to(model.device)).last_hidden_state.float().cpu()
            mean = (hidden * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
            vectors[batch] = torch.nn.functional.normalize(mean, dim=1).numpy()
            shown.update(len(batch))
    position = {text: index for index, text in enumerate(references)}
    reference_vectors = vectors[[position[assignment.question.reference or ""] for assignment in work]]
    return (reference_vectors * vectors[len(references) :]).sum(axis=1), cut[len(references) :]
