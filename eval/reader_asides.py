"""What the built-in judge takes for an aside: a classifier of the states of a sentence that is read alone.

    python eval/reader_asides.py DATA

measures how many asides are found by classifiers that have not seen their phrases, and how many sentences of real
answers are taken for asides; `eval/results/reader-asides.json`. DATA holds medquad/, mediqa2019-qa/,
huatuo-knowledge/ and toyhom-internal/.
"""

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import yaml
from reader_dangers import NOTES_LEARNED, TIPS_LEARNED, adapter_advice, harmless_lines, load_detector
from reader_examples import PHRASES
from reader_sentences import fitted, logits_of, reached_by, real_sentences, shift, vectors_of
from study import record_entry
from torch import nn
from transformers import PreTrainedTokenizerBase

from medjudge.distill.wording import wording_of
from medjudge.judge.asides import SURE
from medjudge.judge.open import built_in_folder
from medjudge.judge.points import sentence_spans
from medjudge.judge.sentence_reader import ASIDE_UNITS, SentenceReader
from medjudge.models.loading import load_tokenizer
from medjudge.models.packaged import MULTILINGUAL_E5

TEXTS = yaml.safe_load((Path(__file__).parent / "reader_asides.yaml").read_text(encoding="utf-8"))
ASIDES = {language: TEXTS[language] for language in ("en", "zh")}
FILLERS, FOLDS, ALWAYS = 150, 5, -1
"""Filler sentences of a language, folds of the phrases, and the fold of what is always learned from."""
RECORDS = 2_000
"""Lines of records of a language."""
REAL = 16_000
"""Sentences of real answers, half to learn from and half to choose the threshold by."""
TAKEN = 1 / 250
"""The share of real sentences that may reach `SURE`; about half of those that do are greetings and notes to readers."""
PASSES = 40
"""At most, over the sentences."""
_VALUES = (*"ABCDE", *"ab", "①", "1", "3", "12", "0.5", "2.75", "180")


class Sentences(NamedTuple):
    """Sentences to learn from.

    Attributes:
        vectors: Their states, those of the last layer left out, (n, columns).
        aside: Whether each is one, (n,).
        fold: That of an aside of `reader_asides.yaml`, `ALWAYS` for other sentences, (n,).
    """

    vectors: np.ndarray
    aside: np.ndarray
    fold: np.ndarray


def phrases_of(language: str) -> list[tuple[str, int]]:
    """What answers say beside the matter, and the fold of each."""
    texts, draw = wording_of(language).texts, Random(f"asides-{language}")
    fillers = [
        f"{begin}{' ' if language == 'en' else ''}{end}{'.' if language == 'en' else '。'}"
        for group in texts.filler
        for begin in group.begin
        for end in group.end
    ]
    made = [
        *draw.sample(fillers, FILLERS),
        *(phrase for phrase in PHRASES[language]["frame"] if phrase),
        *texts.opening,
        *texts.closing,
        *texts.instruction,
    ]
    plain = set(TEXTS["plain"][language])
    own = ASIDES[language]
    return [
        *((phrase, ALWAYS) for phrase in made if phrase not in plain),
        # The phrases stand by author, and so a fold is mostly other authors' than the rest.
        *((phrase, number * FOLDS // len(own)) for number, phrase in enumerate(own)),
    ]


def asides_of(language: str) -> list[tuple[str, int]]:
    """The sentences of the phrases, each with its phrase's fold."""
    return [
        (phrase[span.start : span.end].strip(), fold)
        for phrase, fold in phrases_of(language)
        for span in sentence_spans(phrase, language)
    ]


def records() -> list[str]:
    """Lines of records, tables and lists."""
    draw, lines = Random("records"), []
    for texts in TEXTS["records"].values():
        for number in range(RECORDS):
            (field, other), (value, next_value) = draw.sample(texts["fields"], 2), draw.sample(texts["values"], 2)
            form = texts["forms"][number % len(texts["forms"])]
            lines.append(form.format(f=field, g=other, v=value, w=next_value))
    return lines


def matter(real: Sequence[str]) -> list[str]:
    """Sentences about the matter: real ones, short answers, records, harmless lines, advice, and denials."""
    short = [form.format(value) for forms in TEXTS["plain"].values() for form in forms for value in _VALUES]
    advised = [sentence for entry in adapter_advice() for sentence in (entry.harm, entry.safe)]
    denials = [text for language in ASIDES for way in ("denial", "denial_after") for text in PHRASES[language][way]]
    lines = harmless_lines(NOTES_LEARNED + TIPS_LEARNED)
    return [*real, *dict.fromkeys([*short, *records()]), *advised, *lines, *denials]


def real_ones(data: Path) -> tuple[list[str], list[str]]:
    """Different sentences of real answers: those to learn from, and others."""
    real = list(dict.fromkeys(real_sentences(data, REAL, 2)))
    return real[::2], real[1::2]


def labelled_sentences(reader: SentenceReader, tokenizer: PreTrainedTokenizerBase, real: Sequence[str]) -> Sentences:
    """What the classifier learns from.

    Args:
        real: Sentences of real answers.
    """
    asides, others = [each for language in ASIDES for each in asides_of(language)], matter(real)
    vectors = lower_states(reader, tokenizer, [*(text for text, _ in asides), *others])
    fold = np.array([*(fold for _, fold in asides), *[ALWAYS] * len(others)])
    return Sentences(vectors, np.arange(len(fold)) < len(asides), fold)


def lower_states(reader: SentenceReader, tokenizer: PreTrainedTokenizerBase, texts: Sequence[str]) -> np.ndarray:
    """The states of sentences that the head for asides sees, (sentences, columns)."""
    return vectors_of(reader, tokenizer, texts)[:, : -reader.width]


def head_of(sentences: Sentences, chosen: np.ndarray) -> nn.Sequential:
    """The head, from some of the sentences."""
    return fitted(sentences.vectors[chosen], sentences.aside[chosen], ASIDE_UNITS, PASSES)


def with_asides(data: Path, dangers: Path, out: Path) -> None:
    """Writes what a folder of `make_detector` holds, with a head for asides; a folder that is there is kept."""
    if out.exists():
        return
    tokenizer, reader, (real, others) = load_tokenizer(MULTILINGUAL_E5), load_detector(dangers), real_ones(data)
    sentences = labelled_sentences(reader, tokenizer, real)
    reader.aside = head_of(sentences, np.ones(len(sentences.aside), bool))
    shift(reader.aside, SURE - reached_by(reader.aside, lower_states(reader, tokenizer, others), TAKEN))
    scratch = out.with_suffix(".part")
    shutil.rmtree(scratch, ignore_errors=True)
    shutil.copytree(dangers, scratch)
    reader.save_heads(scratch)
    scratch.rename(out)


def held_out(data: Path) -> dict[str, Any]:
    """The share of asides that is found, by heads that did not learn from their phrases, and of real sentences.

    Of the real sentences that no head learned from, half give the threshold, and half are measured.
    """
    tokenizer, reader = load_tokenizer(MULTILINGUAL_E5), load_detector(built_in_folder())
    real, others = real_ones(data)
    sentences, vectors = labelled_sentences(reader, tokenizer, real), lower_states(reader, tokenizer, others)
    found, taken = np.zeros(len(sentences.fold), bool), []
    for number in range(FOLDS):
        head, own = head_of(sentences, sentences.fold != number), sentences.fold == number
        reached = reached_by(head, vectors[::2], TAKEN)
        found[own] = logits_of(head, sentences.vectors[own]) >= reached
        taken.append(float((logits_of(head, vectors[1::2]) >= reached).mean()))
    measured = sentences.fold != ALWAYS
    return {
        "asides": int(measured.sum()),
        "asides found": round(float(found[measured].mean()), 4),
        "real sentences": len(vectors[1::2]),
        "taken for asides": round(float(np.mean(taken)), 4),
    }


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/reader_asides.py DATA")
    results = {"command": "python eval/reader_asides.py DATA", "table": held_out(Path(sys.argv[1]))}
    record_entry("reader-asides", "asides", results)
