"""The texts that claims are made from, in parts that can stand alone."""

import csv
import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.distill.wording import wording_of
from medjudge.text.sentences import is_balanced, sentence_starts

_LEADS_ON = re.compile(
    r"^(?:若|如|当|虽然|尽管|除了|对于|为了|针对|根据|在|从|随着|通过|不仅|不但|既|无论|首先)|如果|要是|假如|一旦|由于|因为"
    r"|(?:时|时候|期间|后|前|同时|来说|而言|的话|情况下|方面|上|中|看)，$"
)
"""A Chinese clause that depends on the next one."""
_LEANS = re.compile(
    r"^(?:则|就|从而|并|但|以及|或|还|也|其|且|而|才|使|导致|引起|等|因此|所以|故|以|都|均|即|又|再|甚至|这|它|该|此|可见|包括|如|例如|比如"
    r"|同时|另外|后|时|是|那|更|只有|特别|尤其)"
)
"""A Chinese clause that depends on the one before."""


class Document(NamedTuple):
    """A text in parts: English sentences, or Chinese clauses that can stand alone, with their punctuation.

    Facts are taken from the fluent ones first; some answers of doctors are badly written.
    """

    topic: str
    parts: list[str]
    fluent: bool = True


def english_documents(data: Path) -> list[Document]:
    """MedQuAD's answers by focus."""
    grammar = wording_of("en").grammar
    documents = []
    for row in _rows(data / "medquad/medquad.jsonl.gz"):
        text = " ".join((row["answer"] or "").split())[:8000]
        starts = sentence_starts(text, grammar)
        parts = [text[start:end].strip() for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
        documents.append(Document(f"medquad/{(row['focus'] or row['question']).casefold()}", parts))
    return _distinct(documents)


def chinese_documents(data: Path) -> list[Document]:
    """Answers of both Chinese sets, by a rare word that question and answer share."""
    pairs = [(row["instruction"], row["output"]) for row in _rows(data / "huatuo-knowledge/llama_data.json.gz")]
    fluent = len(pairs)
    with (data / "toyhom-internal/internal-medicine-5000-6000.csv").open(encoding="gb18030", errors="replace") as file:
        pairs += [(row["title"] + row["ask"], row["answer"]) for row in csv.DictReader(file)]
    shared = [_trigrams(question) & _trigrams(answer) for question, answer in pairs]
    counts = Counter(gram for grams in shared for gram in grams)
    documents = []
    for number, ((_, answer), grams) in enumerate(zip(pairs, shared, strict=True)):
        topics = sorted((counts[gram], gram) for gram in grams if counts[gram] >= 3)
        documents.append(
            Document(f"zh/{topics[0][1] if topics else answer[:24]}", _units("".join(answer.split())), number < fluent)
        )
    return _distinct(documents)


def _rows(path: Path) -> Iterable[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _distinct(documents: Iterable[Document]) -> list[Document]:
    return list({tuple(document.parts): document for document in documents if document.parts}.values())


def _trigrams(text: str) -> set[str]:
    return {
        gram for gram in (text[at : at + 3] for at in range(len(text) - 2)) if re.fullmatch("[\u4e00-\u9fff]{3}", gram)
    }


def _units(text: str) -> list[str]:
    """A Chinese text in clauses; one that leans on its neighbour stays with it."""
    units: list[str] = []
    for piece in re.findall(r"[^，。；！？]+[，。；！？]*", _punctuated(text)):
        glued = units and not re.search("[。！？]$", units[-1])
        if (
            glued
            and (_LEANS.match(piece) or _LEADS_ON.search(_clause(units[-1])) or min(len(units[-1]), len(piece)) < 9)
        ) or (glued and not is_balanced(units[-1])):
            units[-1] += piece
        else:
            units.append(piece)
    return units


def _punctuated(text: str) -> str:
    text = text.replace(",", "，").replace(";", "；")
    return re.sub(r"(?<=[\u4e00-\u9fff])\.(?=[\u4e00-\u9fff])", "。", text)


def _clause(unit: str) -> str:
    """The last clause of a unit, with its mark."""
    return re.split("(?<=，)(?=.)", unit)[-1]


def depends(part: str) -> bool:
    """Whether a Chinese part cannot stand without the one before or behind it."""
    return bool(_LEANS.match(part) or _LEADS_ON.search(_clause(part.rstrip("。"))))
