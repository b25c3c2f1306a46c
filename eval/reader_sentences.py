"""Heads over the states of sentences that are read alone, and sentences of real answers."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np
import torch
from reader_examples import chinese_pairs, medquad
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from torch import nn
from transformers import PreTrainedTokenizerBase

from medjudge.benchmark.expert_sets import read_mediqa2019
from medjudge.judge.points import sentence_spans
from medjudge.judge.sentence_reader import SentenceReader, head_over, token_rows
from medjudge.models.batching import batches_by_length
from medjudge.models.padding import pad_right
from medjudge.scale import USABLE_FROM

_MOST_OF_ANSWER = 3
"""Sentences taken from one answer."""
_SHORTEST = {"en": 12, "zh": 5}
_PENALTY, _BATCH_TOKENS = 0.1, 4096


def usable_answers(data: Path) -> list[str]:
    """The answers of MEDIQA's training files that experts called usable."""
    files = [data / "mediqa2019-qa" / name for name in ("train-alexa.xml", "train-liveqamed.xml")]
    scored = read_mediqa2019(files)
    usable = {score.answer_key for score in scored.scores if score.level >= USABLE_FROM}
    return [answer.text for answer in scored.answers if answer.key in usable]


def sentences_in(text: str, language: str) -> list[str]:
    """The sentences of a text that are not very short."""
    found = [text[span.start : span.end].strip() for span in sentence_spans(text, language)]
    return [sentence for sentence in found if len(sentence) >= _SHORTEST[language]]


def real_sentences(data: Path, count: int, seed: int) -> list[str]:
    """Sentences of answers: up to a quarter each of MedQuAD, of MEDIQA's usable answers, of Huatuo and of Toyhom."""
    draw, chinese = Random(f"{seed}-real"), chinese_pairs(data)
    sources = [
        ("en", [pair.answer for pair in medquad(data)], count // 4),
        ("en", usable_answers(data), count // 4),
        ("zh", [pair.answer for pair in chinese if pair.topic == "huatuo"], count // 4),
        ("zh", [pair.answer for pair in chinese if pair.topic == "toyhom"], count // 4),
    ]
    found: list[str] = []
    for language, texts, share in sources:
        some: list[str] = []
        for text in draw.sample(texts, len(texts)):
            long = sentences_in(text, language)
            some += draw.sample(long, min(_MOST_OF_ANSWER, len(long)))
            if len(some) >= share:
                break
        found += some[:share]
    return draw.sample(found, len(found))


def vectors_of(reader: SentenceReader, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> np.ndarray:
    """The states of sentences, (sentences, `reader.columns`)."""
    rows = token_rows(tokenizer, texts)
    found = np.zeros((len(rows), reader.columns), np.float32)
    with torch.inference_mode():
        for batch in batches_by_length([len(row) for row in rows], _BATCH_TOKENS):
            states = reader.means(*pad_right([rows[at] for at in batch], tokenizer.pad_token_id))
            found[batch] = states.float().numpy()
    return found


def fitted(vectors: np.ndarray, labels: np.ndarray, units: int, passes: int) -> nn.Sequential:
    """Trains a head that tells sentences apart, and copies it into the form of `head_over`.

    Args:
        vectors: Shape (sentences, columns).
        labels: Shape (sentences,).
        units: Of its hidden layer.
        passes: At most, over the sentences.
    """
    classifier = MLPClassifier((units,), alpha=_PENALTY, batch_size=256, max_iter=passes, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(vectors, labels)
    head = head_over(vectors.shape[1], units)
    with torch.no_grad():
        for layer, weight, bias in zip(list(head)[::2], classifier.coefs_, classifier.intercepts_, strict=True):
            assert isinstance(layer, nn.Linear)
            # As it is written: in half precision.
            layer.weight.copy_(torch.from_numpy(weight.T).half())
            layer.bias.copy_(torch.from_numpy(bias).half())
    return head


def logits_of(head: nn.Module, vectors: np.ndarray) -> np.ndarray:
    """The logits that a head gives, (sentences,)."""
    with torch.inference_mode():
        logits: np.ndarray = head(torch.from_numpy(vectors))[:, 0].numpy()
    return logits


def reached_by(head: nn.Module, vectors: np.ndarray, share: float) -> float:
    """The logit that this share of the sentences reaches; the head has not learned from them."""
    return float(np.quantile(logits_of(head, vectors), 1 - share))


def shift(head: nn.Sequential, by: float) -> None:
    """Adds to the logits of a head."""
    last = head[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.bias.add_(by)
