"""What the danger detector learns from: three sentences on one matter, beside sentences of real answers."""

from collections import Counter
from pathlib import Path

import pytest
import torch
from reader_dangers import (
    ENTRIES,
    EPOCHS,
    LINES_LATER,
    LINES_UNSEEN,
    MIXED_LEARNED,
    NOTES_LEARNED,
    TIPS_LEARNED,
    Advice,
    _steps,
    _with_last_layer_alone,
    advice,
    dangers_of,
    fit_head,
    harmless_lines,
    learned_advice,
    learned_sentences,
    set_threshold,
    unseen,
    unseen_lines,
)
from tiny_models import build_tiny_encoder

from medjudge.judge.alarms import SURE
from medjudge.judge.points import sentence_spans
from medjudge.judge.sentence_reader import SENTENCE_LAYERS, SentenceReader
from medjudge.judge.states import LAYERS
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.probes.texts import probe_texts


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_sentence_of_the_advice_says_something_else(language: str) -> None:
    entries = [entry for entry in learned_advice() if entry.language == language]
    assert len({entry.topic for entry in entries}) >= 80
    sentences = Counter(text for entry in entries for text in (entry.harm, entry.safe, entry.fact))
    assert len(sentences) == 3 * len(entries)


def test_no_danger_of_the_probe_is_learned() -> None:
    learned = " ".join(entry.harm for entry in learned_advice())
    for language in ("en", "zh"):
        for harm in probe_texts(language).harm:
            parts = [harm[span.start : span.end].strip() for span in sentence_spans(harm, language)]
            assert not any(part in learned for part in parts)


def test_the_unseen_advice_stands_under_other_topics_and_says_something_else() -> None:
    learned, others = learned_advice(), unseen()
    assert 70 < len(others) < len(advice("reader_dangers_unseen.yaml"))
    assert {entry.language for entry in others} == {"en", "zh"}
    assert not {(each.language, each.topic) for each in learned} & {(each.language, each.topic) for each in others}
    assert not _texts(learned) & _texts(others)


def test_no_harmless_line_stands_twice_or_among_the_advice() -> None:
    learned = NOTES_LEARNED + TIPS_LEARNED + MIXED_LEARNED
    lines = harmless_lines(sorted(learned + LINES_UNSEEN + LINES_LATER))
    assert len(set(lines)) == len(lines) > 4500
    assert not {*unseen_lines(), *harmless_lines(LINES_LATER)} & set(harmless_lines(learned))
    later = unseen("reader_dangers_later.yaml")
    assert len(later) > 250
    assert not _texts(learned_advice() + unseen() + later) & set(lines)
    assert not _texts(learned_advice() + unseen()) & _texts(later)


def _texts(entries: list[Advice]) -> set[str]:
    return {text for entry in entries for text in (entry.harm, entry.safe, entry.fact)}


def test_a_step_holds_harm_advice_and_facts_of_a_few_entries_beside_real_sentences() -> None:
    entries, real = advice()[:20], [f"Real sentence {number}." for number in range(50)]
    steps = list(_steps(entries, real, EPOCHS, seed=0))
    assert len(steps) == EPOCHS * -(-len(entries) // ENTRIES)
    harm = {entry.harm for entry in entries}
    for sentences, labels in steps:
        assert [sentence in harm for sentence in sentences] == [label == 1 for label in labels]
    seen = Counter(sentence for sentences, _ in steps for sentence in sentences)
    assert set(seen.values()) == {EPOCHS}
    assert len(seen) == 3 * len(entries) + len(real)


def test_the_adapter_learns_from_the_last_layer_alone() -> None:
    detector = SentenceReader(torch.nn.Identity(), width=4)
    _with_last_layer_alone(detector)
    states = torch.ones(3, detector.columns)
    torch.autograd.backward(detector.danger(states).sum())
    gradient = detector.danger.weight.grad
    assert gradient is not None
    assert gradient[0].tolist() == [0.0] * 8 + [3.0] * 4
    assert (detector.danger.weight[0, :8] == 0).all()
    assert (detector.danger.weight[0, 8:] != 0).all()


def test_the_head_learns_from_no_unseen_advice_and_no_unseen_line() -> None:
    dangerous, harmless = learned_sentences(["A real sentence."])
    assert set(dangerous) == {entry.harm for entry in learned_advice()}
    assert not {entry.harm for entry in unseen() + advice("reader_dangers_later.yaml")} & set(dangerous)
    assert not {*unseen_lines(), *harmless_lines(LINES_LATER)} & set(harmless)
    assert "A real sentence." in harmless


def test_the_head_weighs_all_layers_and_few_harmless_sentences_reach_its_threshold(tmp_path: Path) -> None:
    base = str(build_tiny_encoder(tmp_path / "base", layers=LAYERS[-1]))
    tokenizer, encoder = load_tokenizer(base), load_encoder(base).eval()
    torch.manual_seed(0)
    detector = SentenceReader(encoder, encoder.config.hidden_size).eval()
    dangerous = [f"Double the dose {number} times every hour." for number in range(30)]
    harmless = [f"Drink {number} glasses of water with it." for number in range(90)]
    fit_head(detector, tokenizer, dangerous[::2], harmless[::3])
    assert (detector.danger.weight[0].view(len(SENTENCE_LAYERS), -1).abs().amax(dim=1) > 0).all()
    set_threshold(detector, tokenizer, harmless[1::3], harmless[1::3])
    assert (dangers_of(detector, tokenizer, dangerous[1::2]) >= SURE).mean() > 0.9
    assert (dangers_of(detector, tokenizer, harmless[2::3]) >= SURE).mean() < 0.2
