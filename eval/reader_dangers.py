"""What the built-in judge takes for dangerous: an adapter on its encoder and a head, for single sentences.

    python eval/reader_dangers.py DATA

measures what the detector of the built-in judge finds of the advice in `reader_dangers_unseen.yaml`, and how many
sentences of real answers it takes for dangerous; `eval/results/reader-dangers.json`. Other authors wrote that advice,
and entries that share many words with what was learned are left out. DATA holds medquad/, mediqa2019-qa/,
huatuo-knowledge/ and toyhom-internal/.

The adapter learns from `reader_dangers.yaml`. The head that then reads its states learns from that and from
`reader_dangers_more.yaml`, whose sentences the adapter has not seen.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from peft import LoraConfig, PeftModel, get_peft_model
from reader_adapters import encoder_to_train, round_frozen
from reader_claims import tokens
from reader_sentences import (
    fitted,
    is_held_out,
    logits_of,
    reached_by,
    real_sentences,
    sentences_in,
    shift,
    usable_answers,
    vectors_of,
)
from sklearn.metrics import roc_auc_score
from study import record_entry
from torch import nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from medjudge.distill.wording import wording_of
from medjudge.judge.alarms import SURE
from medjudge.judge.open import built_in_folder
from medjudge.judge.sentence_reader import DANGER_UNITS, SentenceReader, token_rows
from medjudge.models.batching import batches_by_length
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.multilingual_e5 import MULTILINGUAL_E5
from medjudge.models.padding import pad_right
from medjudge.train.lora import write_base_name

REAL = 4_000
"""Sentences of real answers that the adapter learns from."""
RANK, EPOCHS, RATE, ENTRIES = 8, 3, 5e-4, 9
"""Of the adapter; passes over the advice; learning rate; entries in a step, beside as large a share of the rest."""
POOL, HARDEST, HARDEST_RATE = 40_000, 3_000, 2e-4
"""The size of a pool of more sentences of real answers, how many of them the adapter learns from in one more pass, and
the learning rate of that pass. It learns from those that it takes for the most dangerous: many are imperatives."""
HEAD_REAL, HELD_REAL, PASSES = 24_000, 20_000, 40
"""Sentences of real answers that the head learns from; those of held-out answers, half of them to choose the threshold
by; and most passes over what it learns from."""
SHARED = 0.2
"""An unseen sentence that shares this many of its words with a learned one is left out."""
FALSE_ALARMS = 1 / 2000
"""The share of real sentences that may reach `SURE`. Some of Toyhom's, which laymen wrote, are dangerous."""
_HARM_WEIGHT = 2.0
_BATCH_TOKENS = 4096


class Advice(NamedTuple):
    """Three sentences on one matter: a dangerous one, good advice in much the same words, and a fact."""

    language: str
    topic: str
    harm: str
    safe: str
    fact: str


def advice(name: str = "reader_dangers.yaml") -> list[Advice]:
    """All entries of a file beside this one."""
    by_language = yaml.safe_load((Path(__file__).parent / name).read_text(encoding="utf-8"))
    return [Advice(language, **entry) for language, entries in by_language.items() for entry in entries]


class Learner(NamedTuple):
    """An encoder with an adapter, and the linear head on its last layer that it learns by."""

    reader: SentenceReader
    head: nn.Linear

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Of sentences, from what `SentenceReader.means` gives, (sentences, 1)."""
        logits: torch.Tensor = self.head(states[:, -self.reader.width :])
        return logits


def pool_of(data: Path, real: Sequence[str]) -> list[str]:
    """Different sentences of real answers, drawn with another seed, without those of `real`."""
    drawn = set(real)
    return [sentence for sentence in dict.fromkeys(real_sentences(data, POOL, 1)) if sentence not in drawn]


def adapted(
    entries: Sequence[Advice], real: Sequence[str], pool: Sequence[str], tokenizer: PreTrainedTokenizerBase, seed: int
) -> PeftModel:
    """An encoder whose adapter learned which sentences of the advice are dangerous, and that real ones are not.

    Args:
        entries: The advice.
        real: Sentences of real answers.
        pool: More of them; the adapter learns from those that are hardest for it.
    """
    torch.manual_seed(seed)
    config = LoraConfig(
        r=RANK,
        lora_alpha=2 * RANK,
        target_modules=["query", "key", "value", "dense"],
        exclude_modules=r".*pooler.*",
        task_type="FEATURE_EXTRACTION",
    )
    body = get_peft_model(encoder_to_train(), config)
    assert isinstance(body, PeftModel)
    round_frozen(body)
    width = body.config.hidden_size
    learner = Learner(SentenceReader(body, width), nn.Linear(width, 1))
    _learn(learner, list(_steps(entries, real, EPOCHS, seed)), RATE, tokenizer)
    hard = hardest(learner, pool, tokenizer)
    _learn(learner, list(_steps(entries, hard, 1, seed)), HARDEST_RATE, tokenizer)
    return body


def hardest(learner: Learner, pool: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The `HARDEST` sentences that the learner takes for the most dangerous."""
    with torch.inference_mode():
        logits = learner.logits(torch.from_numpy(vectors_of(learner.reader, tokenizer, pool)))[:, 0]
    return [pool[at] for at in np.argsort(-logits.numpy(), kind="stable")[:HARDEST]]


def _learn(
    learner: Learner, batches: Sequence[tuple[list[str], list[float]]], rate: float, tokenizer: PreTrainedTokenizerBase
) -> None:
    """Trains an adapter in place on the sentences and labels of each step; the head learns three times as fast."""
    learner.reader.train()
    adapter = [parameter for parameter in learner.reader.body.parameters() if parameter.requires_grad]
    rates, head = [rate, 3 * rate], list(learner.head.parameters())
    optimizer = torch.optim.AdamW([{"params": adapter, "lr": rates[0]}, {"params": head, "lr": rates[1]}])
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=len(batches) + 1, pct_start=0.1)
    for number, (sentences, labels) in enumerate(batches, 1):
        rows, loss = token_rows(tokenizer, sentences), 0.0
        for batch in batches_by_length([len(row) for row in rows], _BATCH_TOKENS):
            wanted = torch.tensor([labels[at] for at in batch])
            states = learner.reader.means(*pad_right([rows[at] for at in batch], tokenizer.pad_token_id))
            losses = functional.binary_cross_entropy_with_logits(learner.logits(states)[:, 0], wanted, reduction="none")
            part = (losses * torch.where(wanted > 0, _HARM_WEIGHT, 1.0)).sum() / len(rows)
            torch.autograd.backward(part)
            loss += part.item()
        torch.nn.utils.clip_grad_norm_([*adapter, *head], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if number % 20 == 0:
            print(f"dangers: step {number} of {len(batches)}, loss {loss:.3f}", file=sys.stderr, flush=True)
    learner.reader.eval()


def _steps(
    entries: Sequence[Advice], real: Sequence[str], epochs: int, seed: int
) -> Iterator[tuple[list[str], list[float]]]:
    """The sentences of each step, and whether each is dangerous."""
    draw = Random(seed)
    for _ in range(epochs):
        shuffled, others = draw.sample(entries, len(entries)), draw.sample(real, len(real))
        starts = range(0, len(shuffled), ENTRIES)
        share = -(-len(others) // len(starts))
        for number, start in enumerate(starts):
            some = shuffled[start : start + ENTRIES]
            beside = others[number * share : (number + 1) * share]
            sentences = [sentence for entry in some for sentence in (entry.harm, entry.safe, entry.fact)]
            yield sentences + beside, [1.0, 0.0, 0.0] * len(some) + [0.0] * len(beside)


def fit_head(reader: SentenceReader, data: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Fits the head for danger of a reader in place, and its threshold on sentences that nothing learned from."""
    entries = advice() + advice("reader_dangers_more.yaml")
    drawn = real_sentences(data, HEAD_REAL, 7, held_out=False)
    usable = [text for answer in usable_answers(data) if not is_held_out(answer) for text in sentences_in(answer, "en")]
    learned = list(dict.fromkeys([*drawn, *usable]))
    harm = [entry.harm for entry in entries]
    harmless = [text for entry in entries for text in (entry.safe, entry.fact)]
    texts = [*harm, *harmless, *learned]
    vectors, labels = vectors_of(reader, tokenizer, texts), np.arange(len(texts)) < len(harm)
    reader.danger = fitted(vectors, labels, DANGER_UNITS, PASSES)
    held = vectors_of(reader, tokenizer, held_sentences(data)[::2])
    shift(reader.danger, SURE - reached_by(reader.danger, held, FALSE_ALARMS))


def held_sentences(data: Path) -> list[str]:
    """Different sentences of held-out answers that the adapter did not learn from."""
    real = real_sentences(data, 2 * REAL, 0)
    seen = {*real[:REAL], *pool_of(data, real)}
    return [text for text in dict.fromkeys(real_sentences(data, HELD_REAL, 7, held_out=True)) if text not in seen]


def make_detector(data: Path, out: Path) -> None:
    """Writes adapter and heads of a detector that learned from all of the advice; one that is there is kept."""
    if out.exists():
        return
    tokenizer, real = load_tokenizer(MULTILINGUAL_E5), real_sentences(data, 2 * REAL, 0)
    body = adapted(advice(), real[:REAL], pool_of(data, real), tokenizer, 0)
    scratch = out.with_suffix(".part")
    shutil.rmtree(scratch, ignore_errors=True)
    body.half().save_pretrained(str(scratch))
    write_base_name(scratch, MULTILINGUAL_E5)
    SentenceReader(body, body.config.hidden_size).save_heads(scratch)
    (scratch / "README.md").unlink(missing_ok=True)
    # As the judge reads it: the adapter in half precision and merged.
    reader = load_detector(scratch)
    fit_head(reader, data, tokenizer)
    reader.save_heads(scratch)
    scratch.rename(out)


def load_detector(folder: Path) -> SentenceReader:
    """What `make_detector` wrote."""
    body = load_encoder(MULTILINGUAL_E5)
    return SentenceReader.load(folder, body, body.config.hidden_size)


def measured(data: Path) -> dict[str, Any]:
    """What the detector of the built-in judge finds of unseen advice, by language, and of sentences of real answers."""
    tokenizer, detector, entries = load_tokenizer(MULTILINGUAL_E5), load_detector(built_in_folder()), unseen()
    table: dict[str, Any] = {
        name: _table(_logits(detector, tokenizer, [entry for entry in entries if entry.language == name]))
        for name in ("en", "zh")
    }
    real = held_sentences(data)[1::2]
    return table | {"real sentences": _heard(logits_of(detector.danger, vectors_of(detector, tokenizer, real)))}


def unseen() -> list[Advice]:
    """The entries of `reader_dangers_unseen.yaml` whose dangerous sentence is unlike all that was learned."""
    learned = [(entry.language, _words(entry)) for entry in advice() + advice("reader_dangers_more.yaml")]
    return [
        entry
        for entry in advice("reader_dangers_unseen.yaml")
        if all(
            len(words & _words(entry)) < SHARED * len(words | _words(entry))
            for language, words in learned
            if language == entry.language
        )
    ]


def _words(entry: Advice) -> set[str]:
    """Of the dangerous sentence, without stop words; pairs of characters in Chinese."""
    return set(tokens(entry.harm, entry.language)) - wording_of(entry.language).stop_words


def _logits(
    detector: SentenceReader, tokenizer: PreTrainedTokenizerBase, entries: Sequence[Advice]
) -> dict[str, np.ndarray]:
    """The logits of the three kinds of sentences, (entries,) each."""
    kinds = {"dangerous": "harm", "good advice in the same words": "safe", "facts": "fact"}
    return {
        name: logits_of(detector.danger, vectors_of(detector, tokenizer, [getattr(entry, field) for entry in entries]))
        for name, field in kinds.items()
    }


def _table(logits: dict[str, np.ndarray]) -> dict[str, Any]:
    """The share of each kind that is found, and the area under the curve of dangerous ones beside each other kind."""
    table: dict[str, Any] = {name: _heard(own) for name, own in logits.items()}
    dangerous = logits["dangerous"]
    for name, own in list(logits.items())[1:]:
        labels = np.repeat([1, 0], [len(dangerous), len(own)])
        table[name]["auc of dangerous ones beside them"] = round(
            float(roc_auc_score(labels, np.concatenate([dangerous, own]))), 3
        )
    return table


def _heard(logits: np.ndarray) -> dict[str, float]:
    return {"sentences": len(logits), "heard": round(float((logits >= SURE).mean()), 4)}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/reader_dangers.py DATA")
    own = {"command": "python eval/reader_dangers.py DATA", "table": measured(Path(sys.argv[1]))}
    record_entry("reader-dangers", "unseen topics", own)
