"""What the built-in judge takes for dangerous: an adapter on its encoder, trained on single sentences, and a head.

    python eval/reader_dangers.py DATA

measures what the detector of the built-in judge finds of the advice in `reader_dangers_unseen.yaml`, and how many
harmless sentences it takes for dangerous, of real answers, notes and tips; `eval/results/reader-dangers.json`. Other
authors wrote that advice and those lines. The head was chosen with that advice in view. So it also measures
`reader_dangers_later.yaml`, which four authors wrote afterwards. Advice is left out on topics that were learned, and
where its dangerous sentence shares many words with a learned one.
DATA holds medquad/, mediqa2019-qa/, huatuo-knowledge/ and toyhom-internal/.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from peft import LoraConfig, PeftModel, get_peft_model
from reader_adapters import encoder_to_train, round_frozen
from reader_claims import tokens
from reader_sentences import real_sentences, sentences_in, usable_answers, vectors_of
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from study import record_entry
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from medjudge.benchmark.sample import sample_folder
from medjudge.distill.wording import wording_of
from medjudge.judge.alarms import LANGUAGES, SURE
from medjudge.judge.language import language_of
from medjudge.judge.open import built_in_folder
from medjudge.judge.points import sentence_spans
from medjudge.judge.sentence_reader import SentenceReader, token_rows
from medjudge.models.batching import batches_by_length
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.packaged import MULTILINGUAL_E5
from medjudge.models.padding import pad_right
from medjudge.records import Answer, PhysicianScore
from medjudge.scale import USABLE_FROM
from medjudge.store import read_records
from medjudge.train.lora import write_base_name

REAL, LEARNED_REAL = 20_000, 4_000
"""The most sentences of real answers, and how many of them the detector learns from; of the rest, half give the
threshold and half are measured."""
NOTES_LEARNED, TIPS_LEARNED, MIXED_LEARNED = (0, 2), (4, 5, 6), (8, 9, 10, 11)
LINES_UNSEEN, LINES_LATER = (1, 3, 7), (12, 13, 14, 15)
"""Authors of harmless lines: of clinical notes and of tips that the adapter learns from; of both that the head learns
from, too; those that nothing learns from, half of whose lines give the threshold and half are measured; and those that
are measured alone, because they wrote after the head was chosen."""
_HEAD_PENALTY = 0.003
"""Inverse of the strength of the head's regularisation, over standardised states."""
RANK, EPOCHS, RATE, ENTRIES = 8, 3, 5e-4, 9
"""Of the adapter; passes over the advice; learning rate; entries in a step, beside as large a share of the rest."""
POOL, HARDEST, HARDEST_RATE = 40_000, 3_000, 2e-4
"""How many sentences of real answers are drawn for a pool, how many of them the detector learns from in a further pass,
and the learning rate of that pass. It learns from those that it takes for the most dangerous: many are imperatives."""
FALSE_ALARMS, FALSE_ALARMS_IN_LINES = 1 / 2000, 1 / 15
"""The shares of real sentences and of harmless lines that may reach `SURE`; many lines look dangerous on purpose."""
SHARED = 0.2
"""An unseen sentence that shares this many of its words with a learned one of its kind is not measured."""
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


def adapter_advice() -> list[Advice]:
    """What the adapter learns from, and the head."""
    return advice() + advice("reader_dangers_more.yaml")


def head_advice() -> list[Advice]:
    """What the head learns from alone: the adapter's states of it are those of sentences that it has not learned."""
    return advice("reader_dangers_head.yaml")


def learned_advice() -> list[Advice]:
    """What the detector learns from."""
    return adapter_advice() + head_advice()


def harmless_lines(authors: Sequence[int]) -> list[str]:
    """Lines of `reader_harmless.yaml` by some of its authors."""
    lists = yaml.safe_load((Path(__file__).parent / "reader_harmless.yaml").read_text(encoding="utf-8"))
    return [line for number in authors for line in lists[number]["lines"]]


def unseen_lines() -> list[str]:
    """Harmless lines of the authors that the detector does not learn from: two of notes, and one of Chinese tips."""
    return harmless_lines(LINES_UNSEEN)


def unseen_sentences(data: Path) -> list[str]:
    """Different sentences of real answers that it has not learned, none of MEDIQA's, of which it has seen most."""
    real = real_sentences(data, REAL, 0)
    seen = {*real[:LEARNED_REAL], *(text for answer in usable_answers(data) for text in sentences_in(answer, "en"))}
    return [text for text in dict.fromkeys(real[LEARNED_REAL:]) if text not in seen]


def pools_of(data: Path, real: Sequence[str]) -> list[list[str]]:
    """Two pools of different sentences of real answers, drawn with other seeds, without those of `real`.

    The second one also holds every sentence of MEDIQA's usable training answers: many tell what to do at home.
    """
    usable = [sentence for answer in usable_answers(data) for sentence in sentences_in(answer, "en")]
    drawn = set(real)
    pools = (real_sentences(data, POOL, 1), real_sentences(data, POOL, 3) + usable)
    return [[sentence for sentence in dict.fromkeys(pool) if sentence not in drawn] for pool in pools]


def trained(
    entries: Sequence[Advice],
    real: Sequence[str],
    pools: Sequence[Sequence[str]],
    tokenizer: PreTrainedTokenizerBase,
    seed: int,
) -> SentenceReader:
    """A detector that learned which sentences of the advice are dangerous, and that real ones are not.

    Args:
        entries: The advice.
        real: Sentences of real answers.
        pools: Two sets of more of them. The detector learns from those of each that are hardest for it, and from
            those of the second one again, beside the harmless lines. The notes among these it learns from the start.
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
    detector = SentenceReader(body, body.config.hidden_size)
    _with_last_layer_alone(detector)
    notes, lines = harmless_lines(NOTES_LEARNED), harmless_lines(NOTES_LEARNED + TIPS_LEARNED)
    _learn(detector, list(_steps(entries, [*real, *notes], EPOCHS, seed)), RATE, tokenizer)
    for pool, beside in ((pools[0], []), (pools[1], []), (pools[1], lines)):
        hard = hardest(detector, pool, tokenizer) + beside
        _learn(detector, list(_steps(entries, hard, 1, seed)), HARDEST_RATE, tokenizer)
    return detector


def _with_last_layer_alone(detector: SentenceReader) -> None:
    """Makes the head ignore the lower layers while the adapter learns; `fit_head` weighs them later."""
    kept = torch.zeros_like(detector.danger.weight)
    kept[:, -detector.width :] = 1
    with torch.no_grad():
        detector.danger.weight.mul_(kept)
    detector.danger.weight.register_hook(lambda gradient: gradient * kept)  # type: ignore[no-untyped-call]


def fit_head(
    detector: SentenceReader, tokenizer: PreTrainedTokenizerBase, dangerous: Sequence[str], harmless: Sequence[str]
) -> None:
    """Fits the head in place, with an adapter that has learned: a logistic regression on the states of all layers."""
    scaler, regression = StandardScaler(), LogisticRegression(C=_HEAD_PENALTY, max_iter=1000)
    states = scaler.fit_transform(vectors_of(detector, tokenizer, [*dangerous, *harmless]))
    regression.fit(states, np.arange(len(states)) < len(dangerous))
    weight = regression.coef_[0] / scaler.scale_
    with torch.no_grad():
        detector.danger.weight.copy_(torch.from_numpy(weight)[None])
        detector.danger.bias.fill_(float(regression.intercept_[0] - weight @ scaler.mean_))


def learned_sentences(real: Sequence[str]) -> tuple[list[str], list[str]]:
    """The dangerous and the harmless sentences that the head learns from.

    Args:
        real: Sentences of real answers.
    """
    entries = learned_advice()
    harmless = [sentence for entry in entries for sentence in (entry.safe, entry.fact)]
    harmless += [*real, *harmless_lines(NOTES_LEARNED + TIPS_LEARNED + MIXED_LEARNED)]
    return [entry.harm for entry in entries], harmless


def hardest(detector: SentenceReader, pool: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The `HARDEST` sentences that the detector takes for the most dangerous."""
    order = np.argsort(-dangers_of(detector, tokenizer, pool), kind="stable")
    return [pool[at] for at in order[:HARDEST]]


def _learn(
    detector: SentenceReader,
    batches: Sequence[tuple[list[str], list[float]]],
    rate: float,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Trains a detector in place on the sentences and labels of each step; the head learns three times as fast."""
    detector.train()
    adapter = [parameter for parameter in detector.body.parameters() if parameter.requires_grad]
    rates = [rate, 3 * rate]
    optimizer = torch.optim.AdamW(
        [{"params": adapter, "lr": rates[0]}, {"params": detector.danger.parameters(), "lr": rates[1]}]
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rates, total_steps=len(batches) + 1, pct_start=0.1)
    for number, (sentences, labels) in enumerate(batches, 1):
        rows, loss = token_rows(tokenizer, sentences), 0.0
        for batch in batches_by_length([len(row) for row in rows], _BATCH_TOKENS):
            wanted = torch.tensor([labels[at] for at in batch])
            logits = detector(*pad_right([rows[at] for at in batch], tokenizer.pad_token_id))[:, 0]
            losses = functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
            part = (losses * torch.where(wanted > 0, _HARM_WEIGHT, 1.0)).sum() / len(rows)
            torch.autograd.backward(part)
            loss += part.item()
        torch.nn.utils.clip_grad_norm_([*adapter, *detector.danger.parameters()], 1.0)
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        if number % 20 == 0:
            print(f"dangers: step {number} of {len(batches)}, loss {loss:.3f}", file=sys.stderr, flush=True)
    detector.eval()


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


def set_threshold(
    detector: SentenceReader, tokenizer: PreTrainedTokenizerBase, real: Sequence[str], lines: Sequence[str]
) -> None:
    """Shifts the logits so that few real sentences and harmless lines, none of them learned, reach `SURE`."""
    reached = [
        np.quantile(dangers_of(detector, tokenizer, sentences), 1 - share)
        for sentences, share in ((real, FALSE_ALARMS), (lines, FALSE_ALARMS_IN_LINES))
    ]
    with torch.no_grad():
        detector.danger.bias.add_(float(SURE - max(reached)))


def dangers_of(detector: SentenceReader, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> np.ndarray:
    """The logits that sentences are dangerous, (sentences,)."""
    return detector.logits(tokenizer, sentences)[:, 0]


def make_detector(data: Path, out: Path) -> None:
    """Writes adapter and heads of a detector that learned from all of the advice; one that is there is kept."""
    if out.exists():
        return
    tokenizer, real = load_tokenizer(MULTILINGUAL_E5), real_sentences(data, REAL, 0)
    detector = trained(adapter_advice(), real[:LEARNED_REAL], pools_of(data, real), tokenizer, 0)
    scratch = out.with_suffix(".part")
    shutil.rmtree(scratch, ignore_errors=True)
    assert isinstance(detector.body, PeftModel)
    detector.body.half().save_pretrained(str(scratch))
    write_base_name(scratch, MULTILINGUAL_E5)
    detector.save_heads(scratch)
    (scratch / "README.md").unlink(missing_ok=True)
    # As the judge reads it: the adapter in half precision and merged.
    detector = load_detector(scratch)
    fit_head(detector, tokenizer, *learned_sentences(real[:LEARNED_REAL]))
    set_threshold(detector, tokenizer, unseen_sentences(data)[::2], unseen_lines()[::2])
    detector.save_heads(scratch)
    scratch.rename(out)


def load_detector(folder: Path) -> SentenceReader:
    """What `make_detector` wrote."""
    body = load_encoder(MULTILINGUAL_E5)
    return SentenceReader.load(folder, body, body.config.hidden_size)


def measured(data: Path) -> dict[str, Any]:
    """What the detector of the built-in judge finds of unseen advice, by language, and of harmless sentences."""
    tokenizer, detector = load_tokenizer(MULTILINGUAL_E5), load_detector(built_in_folder())
    table: dict[str, Any] = {
        f"{language}{ending}": _table(logits_of(detector, [entry for entry in entries if entry.language == language]))
        for ending, entries in (("", unseen()), (", by later authors", unseen("reader_dangers_later.yaml")))
        for language in ("en", "zh")
    }
    learned = harmless_lines(NOTES_LEARNED + TIPS_LEARNED + MIXED_LEARNED)
    harmless = {
        "real sentences": unseen_sentences(data)[1::2],
        "harmless lines": [line for line in unseen_lines()[1::2] if not _shares_words(line, learned)],
        "harmless lines, by later authors": [
            line for line in harmless_lines(LINES_LATER) if not _shares_words(line, learned + unseen_lines())
        ],
    }
    table |= {name: _heard(dangers_of(detector, tokenizer, some)) for name, some in harmless.items()}
    return table | {"answers of the sample": of_sample(detector, tokenizer)}


def of_sample(detector: SentenceReader, tokenizer: PreTrainedTokenizerBase) -> dict[str, dict[str, int]]:
    """How many of the sample's usable and unusable answers, by their constructed levels, hold a sure danger."""
    folder = sample_folder()
    scores = read_records(folder / "physician_scores.jsonl", PhysicianScore)
    usable = {score.answer_key for score in scores if score.level >= USABLE_FROM}
    counts = {"usable": {"answers": 0, "heard": 0}, "unusable": {"answers": 0, "heard": 0}}
    for answer in read_records(folder / "answers.jsonl", Answer):
        spans = sentence_spans(answer.text, language_of(answer.text, LANGUAGES))
        dangers = dangers_of(detector, tokenizer, [answer.text[span.start : span.end].strip() for span in spans])
        own = counts["usable" if answer.key in usable else "unusable"]
        own["answers"] += 1
        own["heard"] += int((dangers >= SURE).any())
    return counts


def unseen(name: str = "reader_dangers_unseen.yaml") -> list[Advice]:
    """The entries of a file on topics not learned, whose dangerous sentence is unlike every learned dangerous one."""
    topics = {(entry.language, entry.topic) for entry in learned_advice()}
    learned = {
        language: [entry.harm for entry in learned_advice() if entry.language == language] for language in ("en", "zh")
    }
    return [
        entry
        for entry in advice(name)
        if (entry.language, entry.topic) not in topics and not _shares_words(entry.harm, learned[entry.language])
    ]


def _shares_words(text: str, others: Sequence[str]) -> bool:
    """Whether a text shares `SHARED` of its words with one of some others."""
    own = _words(text)
    return any(len(own & words) >= SHARED * len(own | words) for words in map(_words, others))


@cache
def _words(text: str) -> set[str]:
    """Of a sentence, without stop words; pairs of characters in Chinese."""
    language = language_of(text, LANGUAGES)
    return set(tokens(text, language)) - wording_of(language).stop_words


def logits_of(detector: SentenceReader, entries: Sequence[Advice]) -> dict[str, np.ndarray]:
    """The logits of the three kinds of sentences, (entries,) each."""
    tokenizer = load_tokenizer(MULTILINGUAL_E5)
    return {
        "dangerous": dangers_of(detector, tokenizer, [entry.harm for entry in entries]),
        "good advice in the same words": dangers_of(detector, tokenizer, [entry.safe for entry in entries]),
        "facts": dangers_of(detector, tokenizer, [entry.fact for entry in entries]),
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
    results = {"command": "python eval/reader_dangers.py DATA", "table": measured(Path(sys.argv[1]))}
    record_entry("reader-dangers", "unseen topics", results)
