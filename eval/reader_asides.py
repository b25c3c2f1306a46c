"""What the built-in judge takes for an aside: a linear look at the states of a sentence that is read alone.

    python eval/reader_asides.py DATA

measures how many asides are found by looks that have not seen their phrases, and how many sentences of real answers
are taken for asides; `eval/results/reader-asides.json`. DATA holds medquad/, mediqa2019-qa/, huatuo-knowledge/ and
toyhom-internal/.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from reader_dangers import advice, load_detector, real_sentences
from reader_examples import PHRASES
from sklearn.linear_model import LogisticRegression
from study import record_entry
from transformers import PreTrainedTokenizerBase

from medjudge.distill.wording import wording_of
from medjudge.judge.asides import SURE
from medjudge.judge.open import built_in_folder
from medjudge.judge.points import sentence_spans
from medjudge.judge.sentences import SentenceReader, token_rows
from medjudge.models.batching import batches_by_length
from medjudge.models.loading import load_tokenizer
from medjudge.models.multilingual_e5 import MULTILINGUAL_E5
from medjudge.models.padding import pad_right

TEXTS = yaml.safe_load((Path(__file__).parent / "reader_asides.yaml").read_text(encoding="utf-8"))
ASIDES = {language: TEXTS[language] for language in ("en", "zh")}
FILLERS, FOLDS = 150, 5
"""Filler sentences of a language, folds of the phrases."""
REAL = 16_000
"""Sentences of real answers, half to learn from and half to choose the threshold by."""
TAKEN = 1 / 500
"""The share of real sentences that may reach `SURE`; among them are greetings and disclaimers."""
_PENALTY, _BATCH_TOKENS = 0.5, 4096
_VALUES = (*"ABCDE", *"ab", "①", "1", "3", "12", "0.5", "2.75", "180")


class Sentences(NamedTuple):
    """Sentences to learn from.

    Attributes:
        vectors: Shape (n, width).
        aside: Whether each is one, (n,).
        fold: That of an aside's phrase, -1 for sentences about the matter, (n,).
    """

    vectors: np.ndarray
    aside: np.ndarray
    fold: np.ndarray


def phrases_of(language: str) -> list[str]:
    """What answers say beside the matter, in a fixed random order."""
    texts, draw = wording_of(language).texts, Random(f"asides-{language}")
    fillers = [
        f"{begin}{' ' if language == 'en' else ''}{end}{'.' if language == 'en' else '。'}"
        for group in texts.filler
        for begin in group.begin
        for end in group.end
    ]
    every = [
        *draw.sample(fillers, FILLERS),
        *(phrase for phrase in PHRASES[language]["frame"] if phrase),
        *ASIDES[language],
        *texts.opening,
        *texts.closing,
        *texts.instruction,
    ]
    return draw.sample(every, len(every))


def asides_of(language: str) -> list[tuple[str, int]]:
    """The sentences of the phrases, each with its phrase's fold."""
    return [
        (phrase[span.start : span.end].strip(), number % FOLDS)
        for number, phrase in enumerate(phrases_of(language))
        for span in sentence_spans(phrase, language)
    ]


def matter(real: Sequence[str]) -> list[str]:
    """Sentences about the matter: real ones, short answers, and good and dangerous advice."""
    short = [form.format(value) for forms in TEXTS["plain"].values() for form in forms for value in _VALUES]
    advised = [sentence for entry in advice() for sentence in (entry.harm, entry.safe)]
    return [*real, *short, *advised]


def labelled_sentences(reader: SentenceReader, tokenizer: PreTrainedTokenizerBase, real: Sequence[str]) -> Sentences:
    """What a look learns from.

    Args:
        real: Sentences of real answers.
    """
    asides, others = [each for language in ASIDES for each in asides_of(language)], matter(real)
    vectors = vectors_of(reader, tokenizer, [*(text for text, _ in asides), *others])
    fold = np.array([*(fold for _, fold in asides), *[-1] * len(others)])
    return Sentences(vectors, fold >= 0, fold)


def vectors_of(reader: SentenceReader, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> np.ndarray:
    """The states that the look sees of sentences, (sentences, width)."""
    rows = token_rows(tokenizer, texts)
    found = np.zeros((len(rows), reader.aside.in_features), np.float32)
    with torch.inference_mode():
        for batch in batches_by_length([len(row) for row in rows], _BATCH_TOKENS):
            _, lower = reader.means(*pad_right([rows[at] for at in batch], tokenizer.pad_token_id))
            found[batch] = lower.float().numpy()
    return found


def fitted(sentences: Sentences, chosen: np.ndarray) -> LogisticRegression:
    """The look, from some of the sentences."""
    look = LogisticRegression(C=_PENALTY, max_iter=2000)
    return look.fit(sentences.vectors[chosen], sentences.aside[chosen])


def threshold(look: LogisticRegression, real: np.ndarray) -> float:
    """The logit that `TAKEN` of some real sentences reach.

    Args:
        look: Has not learned from them.
        real: Their vectors, (sentences, width).
    """
    return float(np.quantile(look.decision_function(real), 1 - TAKEN))


def with_asides(data: Path, dangers: Path, out: Path) -> None:
    """Writes what a folder of `make_detector` holds, with a look at asides; a folder that is there is kept."""
    if out.exists():
        return
    tokenizer, reader, real = load_tokenizer(MULTILINGUAL_E5), load_detector(dangers), real_sentences(data, REAL, 2)
    sentences = labelled_sentences(reader, tokenizer, real[: len(real) // 2])
    look = fitted(sentences, np.ones(len(sentences.aside), bool))
    reached = threshold(look, vectors_of(reader, tokenizer, real[len(real) // 2 :]))
    with torch.no_grad():
        reader.aside.weight.copy_(torch.from_numpy(look.coef_))
        reader.aside.bias.copy_(torch.from_numpy(look.intercept_) + SURE - reached)
    scratch = out.with_suffix(".part")
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(dangers, scratch)
    reader.save_heads(scratch)
    scratch.rename(out)


def held_out(data: Path) -> dict[str, Any]:
    """The share of asides that is found, by looks that did not learn from their phrases, and of real sentences.

    Of the real sentences that no look learned from, half give the threshold, and half are measured.
    """
    tokenizer, reader = load_tokenizer(MULTILINGUAL_E5), load_detector(built_in_folder())
    real = real_sentences(data, REAL, 2)
    sentences = labelled_sentences(reader, tokenizer, real[: len(real) // 2])
    others = vectors_of(reader, tokenizer, real[len(real) // 2 :])
    found, taken = np.zeros(len(sentences.fold), bool), []
    for number in range(FOLDS):
        look, own = fitted(sentences, sentences.fold != number), sentences.fold == number
        reached = threshold(look, others[::2])
        found[own] = look.decision_function(sentences.vectors[own]) >= reached
        taken.append(float((look.decision_function(others[1::2]) >= reached).mean()))
    return {
        "asides": int(sentences.aside.sum()),
        "asides found": round(float(found[sentences.aside].mean()), 4),
        "real sentences": len(others[1::2]),
        "taken for asides": round(float(np.mean(taken)), 4),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/reader_asides.py DATA")
    measured = {"command": "python eval/reader_asides.py DATA", "table": held_out(Path(sys.argv[1]))}
    record_entry("reader-asides", "asides", measured)
