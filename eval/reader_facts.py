"""How often a fact of an answer is taken for another than a point's: what the least nearness of facts is chosen by.

    python eval/reader_facts.py DATA [quotes]

prints, for each least nearness and for quoted sentences, the share of pairs with a conflict: texts that answer one
question independently (the judge should find none), references in another order and with changed facts, and claims
made by rule by their label. With `quotes`, it prints how many of all texts that answer one question, and of all
held-out claims, quote a sentence with another fact, and how many of the drugs that the generator puts in are found in
a quoted sentence; that needs no encoder.
DATA is that of `eval/built_in.py`; LLMEval-Med and LLMEval-2, which the judge is measured on, have no part in it.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from reader_claims import CHINESE_CLAIMS, ENGLISH_CLAIMS, Claim, claims, split
from reader_examples import Pair, chinese_pairs, medquad
from reader_measures import reworded, with_changed_facts
from reader_parallel import huatuo_parallels, medquad_parallels
from reader_states import encoder

from medjudge.distill.sources import Source
from medjudge.distill.wording import wording_of
from medjudge.judge import conflicts
from medjudge.judge.conflicts import FactsOfText, Least, facts_by_token
from medjudge.judge.evidence import Evidence, Part, evidence_of
from medjudge.judge.points import Span, reference_points
from medjudge.judge.quoted_conflicts import misquoted
from medjudge.judge.states import TextStates
from medjudge.records import Question

PARALLELS, REFERENCES, CLAIMS = 120, 130, 1500
"""Of a language; and claims of both together."""
NEAR = (0.88, 0.90, 0.92, 0.94, 0.96, 0.97)
SENTENCES_WITH_A_DRUG = {
    "en": ("The patient takes {} every morning before breakfast.", ("aspirin", "metformin")),
    "zh": ("医生建议该患者出院以后每天早上饭前用温水送服{}一次，每月到门诊复查肝肾功能。", ("阿司匹林", "二甲双胍")),
}
"""By language: a sentence, and two drugs, so that each drug can stand in the place of another."""
_SHORTEST, _LONGEST = 60, 1200
"""In characters, of references."""


class Compared(NamedTuple):
    """A text that holds points, an answer, and what the pair is an example of."""

    source: str
    part: str
    answer: str
    whole: bool
    language: str


def pairs_of(data: Path) -> list[Compared]:
    """The pairs of every source."""
    draw, found = Random("facts"), []
    for parallels in (medquad_parallels(data), huatuo_parallels(data)):
        for each in draw.sample(parallels, min(PARALLELS, len(parallels))):
            found.append(Compared("answers to one question", each.reference, each.answer, False, each.language))
    chinese = [pair for pair in chinese_pairs(data) if pair.topic == "huatuo"]
    for pairs in (medquad(data), chinese):
        fitting = [pair for pair in pairs if _SHORTEST <= len(pair.answer) <= _LONGEST]
        for number, pair in enumerate(draw.sample(fitting, REFERENCES)):
            found += _altered(pair, number, draw)
    for claim in draw.sample(split(claims(data, 2 * CLAIMS, CLAIMS, 5)).train, CLAIMS):
        found.append(_of_claim(claim))
    return found


def _of_claim(claim: Claim) -> Compared:
    label = ("supported", "open", "contradicted")[claim.label]
    return Compared(f"claims, {label}", claim.claim, claim.passage, True, claim.language)


def _altered(pair: Pair, number: int, draw: Random) -> list[Compared]:
    asked = Question(
        id=str(number),
        category="MK",
        group=str(number),
        prompt=pair.question,
        reference=pair.answer,
        language=pair.language,
    )
    source = Source(asked)
    texts = {"in another order": reworded(source, draw), "with changed facts": with_changed_facts(source, draw)}
    return [
        Compared(f"references {name}", pair.answer, text, False, pair.language) for name, text in texts.items() if text
    ]


def main(data: Path) -> None:
    """Prints the table."""
    pairs, reader = pairs_of(data), encoder()
    texts = sorted({text for pair in pairs for text in (pair.part, pair.answer)})
    states = dict(zip(texts, reader.read(texts), strict=True))
    facts = {text: facts_by_token(text, states[text]) for text in texts}
    evidence = [_evidence(pair, states) for pair in pairs]
    Find = Callable[[Evidence, FactsOfText, FactsOfText, Least], bool]
    ways: dict[str, Find] = {"other fact": conflicts.other_fact, "denial": conflicts.denied}
    for name, find in ways.items():
        for near in NEAR:
            least = Least(near, conflicts.OF_FACT.together)
            shares: dict[str, list[bool]] = {}
            for pair, pieces in zip(pairs, evidence, strict=True):
                hit = any(find(piece, facts[pair.part], facts[pair.answer], least) for piece in pieces)
                shares.setdefault(f"{pair.source}, {pair.language}", []).append(hit)
            print(f"{name}, from {near:.2f}: {_row(shares)}", flush=True)
    print(f"quoted with another fact: {_row(misquotes(pairs))}", flush=True)


def misquotes(pairs: Iterable[Compared]) -> dict[str, list[bool]]:
    """Whether each pair quotes a sentence with another fact, by source and language."""
    found: dict[str, list[bool]] = {}
    for pair in pairs:
        found.setdefault(f"{pair.source}, {pair.language}", []).append(bool(misquoted(pair.part, pair.answer)))
    return found


def all_pairs(data: Path) -> Iterator[Compared]:
    """All texts that answer one question independently, and all held-out claims made for the built-in judge."""
    for each in (*medquad_parallels(data), *huatuo_parallels(data)):
        yield Compared("answers to one question", each.reference, each.answer, False, each.language)
    for claim in split(claims(data, ENGLISH_CLAIMS, CHINESE_CLAIMS, 0)).held_out:
        yield _of_claim(claim)


def drugs_found() -> dict[str, list[bool]]:
    """Whether each drug that the generator puts in is found in another's place in a quoted sentence, by language."""
    found: dict[str, list[bool]] = {}
    for language, (sentence, others) in SENTENCES_WITH_A_DRUG.items():
        for drug in (name.partition("(?")[0] for names in wording_of(language).texts.drugs for name in names):
            changed = (misquoted(sentence.format(other), sentence.format(drug)) for other in others)
            found.setdefault(f"drugs, {language}", []).append(any(changed))
    return found


def _row(shares: dict[str, list[bool]]) -> str:
    return ", ".join(f"{source} {100 * np.mean(hits):.1f} %" for source, hits in sorted(shares.items()))


def _evidence(pair: Compared, states: dict[str, TextStates]) -> list[Evidence]:
    spans = [Span(0, len(pair.part))] if pair.whole else reference_points(pair.part, pair.language)
    return evidence_of(Part(1, states[pair.part], spans), states[pair.answer])


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["quotes"]):
        sys.exit("usage: python eval/reader_facts.py DATA [quotes]")
    if sys.argv[2:]:
        for name, hits in sorted((misquotes(all_pairs(Path(sys.argv[1]))) | drugs_found()).items()):
            print(f"{name}: {sum(hits)} of {len(hits)}")
    else:
        main(Path(sys.argv[1]))
