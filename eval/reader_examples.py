"""What the reader learns from and is measured on: answers with a level, claims with a verdict.

Four sources teach it: which answer belongs to which question (MedQuAD, Toyhom, Huatuo), claims and the passages that
support or contradict them (HealthVer, and claims made by rule), answers that deserve their level by construction, and
experts' scores (MEDIQA, LiveQA). No Chinese expert score is among them.
"""

import csv
import gzip
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import yaml
from built_in_data import REFERENCE_AS_ANSWER, liveqa_lines, scored_lines, softened
from reader_claims import Claim, claims

from medjudge.distill.graded import GradedAnswer, graded_answers
from medjudge.judge.points import reference_points
from medjudge.records import Question, TrainingLine
from medjudge.scheme import LLMEVAL_MED

VERDICTS = {"Supports": 0, "Neutral": 1, "Refutes": 2}
_SYNTHETIC_WEIGHT, _LIVEQA_WEIGHT = 0.5, 0.5


class Example(NamedTuple):
    """One answer with what it is compared with.

    Attributes:
        prompt: The question; empty for a claim.
        reference: The reference; for a claim, the claim.
        checklist: The checklist.
        answer: The answer; for a claim, the passage.
        language: `en` or `zh`.
        label: The probabilities of the five levels; None for a claim.
        verdict: 0 supported, 1 open, 2 contradicted; None for an answer.
        group: The document, question or claim that a split keeps on one side.
        source: Where it comes from, such as `mediqa` or `claims/dose`.
        weight: In the loss.
        alarm: Whether an answer denies itself or tells to do something dangerous; None where nobody knows.
    """

    prompt: str
    reference: str
    checklist: str
    answer: str
    language: str
    label: tuple[float, ...] | None
    verdict: int | None
    group: str
    source: str
    weight: float = 1.0
    alarm: bool | None = None

    @property
    def texts(self) -> tuple[str, str, str, str]:
        return (self.prompt, self.reference, self.checklist, self.answer)


def scored(work: Path) -> list[Example]:
    """MEDIQA's training files and LiveQA, the questions of MEDIQA's validation file left out."""
    validation = {_words(line.question.prompt) for line in scored_lines(work / "mediqa-validation")}
    lines = [*scored_lines(work / "mediqa"), *liveqa_lines(work / "liveqa")]
    left_out = {line.question.group for line in lines if _words(line.question.prompt) in validation}
    return [_of_line(line) for line in lines if line.question.group not in left_out]


def measured(work: Path) -> list[Example]:
    """MEDIQA's validation file."""
    return [_of_line(line, soft=False) for line in scored_lines(work / "mediqa-validation")]


def _of_line(line: TrainingLine, soft: bool = True) -> Example:
    liveqa = line.answer.model.startswith("liveqa-")
    name = "liveqa-reference" if line.answer.model == REFERENCE_AS_ANSWER else "liveqa" if liveqa else "mediqa"
    return Example(
        line.question.prompt,
        line.question.reference or "",
        "",
        line.answer.text,
        "en",
        tuple((softened(line) if soft else line).probabilities),
        None,
        line.question.group,
        name,
        _LIVEQA_WEIGHT if liveqa else 1.0,
    )


def healthver(data: Path) -> list[Example]:
    """HealthVer's two files: the claim is a reference of one sentence, the evidence is the answer."""
    examples = []
    for file in sorted((data / "healthver").glob("*.csv")):
        with file.open(encoding="utf-8") as lines:
            for row in csv.DictReader(lines):
                claim = row["claim"].strip()
                examples.append(_claim("healthver", claim, row["evidence"], VERDICTS[row["label"]], "en", claim))
    return examples


def rule_claims(data: Path, english: int, chinese: int, seed: int) -> list[Example]:
    """The claims made by rule."""
    return [of_claim(claim) for claim in claims(data, english, chinese, seed)]


def of_claim(claim: Claim) -> Example:
    """A claim as an example."""
    source = f"claims/{claim.kind}"
    return _claim(source, claim.claim, claim.passage, claim.label, claim.language, claim.document)


def verbatim(claims: Sequence[Example], count: int, seed: int) -> list[Example]:
    """Sentences that a passage says word for word: supported, as an answer supports what it repeats."""
    draw = Random(f"{seed}-verbatim")
    passages = sorted({(each.answer, each.language, each.group) for each in claims})
    examples = []
    for passage, language, group in draw.sample(passages, min(count, len(passages))):
        span = draw.choice(reference_points(passage, language))
        sentence = passage[span.start : span.end].strip()
        examples.append(_claim("claims/verbatim", sentence, passage, VERDICTS["Supports"], language, group))
    return examples


def mined(claims: Sequence[Example], vectors: Callable[[str], np.ndarray], count: int, seed: int) -> list[Example]:
    """Supported claims beside one of the nearest passages about another topic, which leaves them open.

    Args:
        claims: Claims made by rule.
        vectors: The encoder's vector of a whole text, of length 1, (width,).
    """
    draw = Random(f"{seed}-mined")
    examples = []
    for language in sorted({each.language for each in claims}):
        of = [each for each in claims if each.language == language]
        passages = sorted({(each.answer, each.group) for each in of})
        table = np.stack([vectors(passage) for passage, _ in passages])
        supported = [each for each in of if each.verdict == VERDICTS["Supports"]]
        for claim in draw.sample(supported, min(count * len(of) // len(claims), len(supported))):
            nearest = np.argsort(-(table @ vectors(claim.reference)))[:30]
            others = [passages[at][0] for at in nearest if passages[at][1] != claim.group][:8]
            if others:
                passage = draw.choice(others)
                examples.append(
                    _claim("claims/mined", claim.reference, passage, VERDICTS["Neutral"], language, claim.group)
                )
    return examples


def _claim(source: str, claim: str, passage: str, verdict: int, language: str, group: str) -> Example:
    return Example("", claim, "", passage, language, None, verdict, group, source)


class Pair(NamedTuple):
    """A question with its answer; `topic` is what both are about, empty where nobody says."""

    question: str
    answer: str
    topic: str
    language: str


def medquad(data: Path) -> list[Pair]:
    """MedQuAD's pairs with an answer of at least 80 characters."""
    with gzip.open(data / "medquad" / "medquad.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [
        Pair(row["question"], row["answer"].strip(), row["focus"] or "", "en")
        for row in rows
        if len(row["answer"] or "") >= 80
    ]


def chinese_pairs(data: Path) -> list[Pair]:
    """Huatuo's and Toyhom's pairs."""
    with gzip.open(data / "huatuo-knowledge" / "llama_data.json.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    pairs = [Pair(f"{row['instruction']}{row['input']}", row["output"].strip(), "huatuo", "zh") for row in rows]
    file = data / "toyhom-internal" / "internal-medicine-5000-6000.csv"
    with file.open(encoding="gb18030", errors="replace") as lines:
        for row in csv.DictReader(lines):
            pairs.append(Pair(f"{row['title']}\n{row['ask']}", row["answer"].strip(), "toyhom", "zh"))
    return [pair for pair in pairs if len(pair.answer) >= 20]


def matching(pairs: Sequence[Pair], count: int, seed: int) -> list[Example]:
    """Answers to their own question (level 4 or 5) and to another one (level 1), half of these about the same topic."""
    draw = Random(f"{seed}-matching")
    chosen = draw.sample(pairs, count // 2)
    by_topic: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_topic.setdefault(pair.topic, []).append(pair)
    examples = []
    for number, pair in enumerate(chosen):
        near = [other for other in by_topic[pair.topic] if other.answer != pair.answer] if pair.topic else []
        other = draw.choice(near) if near and number % 2 else draw.choice(pairs)
        if other.answer == pair.answer:
            continue
        # Another question of the same topic may have a related answer: 2 as often as 1.
        wrong = (
            (0.6, 0.4, 0.0, 0.0, 0.0) if other.topic == pair.topic and pair.language == "en" else (0.9, 0.1, 0, 0, 0)
        )
        for answer, label in ((pair.answer, (0.0, 0.0, 0.1, 0.4, 0.5)), (other.answer, wrong)):
            group = f"pair-{pair.question[:60]}"
            examples.append(
                Example(pair.question, "", "", answer, pair.language, label, None, group, f"matching-{pair.language}")
            )
    return examples


def graded(pairs: Sequence[Pair], count: int, seed: int) -> list[Example]:
    """Graded answers to questions whose reference is a pair's answer; every third has the reference as a checklist too.

    Where both stand, either of them may be left out: the judge reads what there is.
    """
    draw = Random(f"{seed}-graded")
    long = [pair for pair in pairs if 120 <= len(pair.answer) * (2 if pair.language == "zh" else 1) <= 3000]
    questions = [
        Question(
            id=f"graded-{number}",
            category="MK",
            group=f"graded-{number}",
            prompt=pair.question,
            reference=pair.answer,
            language=pair.language,
        )
        for number, pair in enumerate(draw.sample(long, min(len(long), count)))
    ]
    examples = []
    for made in graded_answers(questions, count, seed, LLMEVAL_MED):
        reference, checklist = made.question.reference or "", ""
        if draw.random() < 0.35:
            checklist = as_checklist(reference, made.question.language, draw)
            if draw.random() < 0.5:
                reference = ""
        label = [0.0] * 5
        label[made.level - 1] = 0.9
        for near in (made.level - 1, made.level + 1):
            label[min(max(near, 1), 5) - 1] += 0.05
        examples.append(
            Example(
                made.question.prompt,
                reference,
                checklist,
                made.answer.text,
                made.question.language,
                tuple(label),
                _known_verdict(made),
                made.question.id,
                f"graded-{made.question.language}",
                _SYNTHETIC_WEIGHT,
            )
        )
    return examples


def _known_verdict(made: GradedAnswer) -> int | None:
    """Of every point: met by the reference itself, left open by another question's answer, else unknown."""
    if made.how.startswith("reference"):
        return 0
    return 1 if made.made_from else None


def as_checklist(reference: str, language: str, draw: Random) -> str:
    """A reference's sentences as a checklist's lines."""
    openers = PHRASES["checklist"][language]
    spans = reference_points(reference, language)
    return "\n".join(
        f"{number}. {draw.choice(openers)}{reference[span.start : span.end].strip()}"
        for number, span in enumerate(spans, 1)
    )


PHRASES = yaml.safe_load((Path(__file__).parent / "reader_phrases.yaml").read_text(encoding="utf-8"))
"""Texts that the disturbed answers carry; none of them is a text of the probes."""


def disturbed(usable: Sequence[Example], seed: int) -> list[Example]:
    """Usable answers as they are, with harmless text around or inside, denied, with a danger added, or replaced."""
    draw = Random(f"{seed}-disturbed")
    examples = []
    for example in usable:
        assert example.label is not None
        texts = PHRASES[example.language]
        bad = (0.9, 0.1, 0.0, 0.0, 0.0)
        ways = {
            "as-is": (example.answer, example.label),
            "framed": (framed(example.answer, texts, draw), example.label),
            "denied": (denied(example.answer, texts, draw), bad),
            "harmed": (with_inside(example.answer, filled(texts["harm"], texts["slots"], draw), draw), bad),
            "safe": (with_inside(example.answer, filled(texts["safe"], texts["slots"], draw), draw), example.label),
            "echo": (draw.choice(texts["echo"]).replace("{prompt}", example.prompt), bad),
            "empty": (draw.choice(texts["empty"]), bad),
        }
        for way in draw.sample(sorted(ways), 4):
            text, label = ways[way]
            alarm = way in ("denied", "harmed")
            changed = example._replace(answer=text, label=label, source=f"disturbed-{way}", alarm=alarm)
            examples.append(changed._replace(weight=_SYNTHETIC_WEIGHT))
    return examples


def framed(text: str, texts: dict[str, Any], draw: Random) -> str:
    """An answer with harmless text before it, behind it, or both; now and then it is said twice."""
    parts = [text]
    if draw.random() < 0.7:
        parts.insert(0, draw.choice(texts["frame"]))
    if draw.random() < 0.7:
        parts.append(draw.choice(texts["frame"]))
    if draw.random() < 0.15:
        parts.append(text)
    return "\n\n".join(parts)


def denied(text: str, texts: dict[str, Any], draw: Random) -> str:
    """An answer that says of itself that it is wrong, before or after."""
    denial = draw.choice(texts["denial"])
    return f"{denial}\n{text}" if draw.random() < 0.7 else f"{text}\n{draw.choice(texts['denial_after'])}"


def filled(templates: Sequence[str], slots: dict[str, list[str]], draw: Random) -> str:
    """One of the templates, each slot of it filled with one of its words."""
    return re.sub(r"\{(\w+)\}", lambda slot: draw.choice(slots[slot[1]]), draw.choice(templates))


def with_inside(text: str, sentence: str, draw: Random) -> str:
    """A text with a sentence behind it, before it, or as a paragraph of its own."""
    place = draw.random()
    if place < 0.6:
        return f"{text}\n\n{sentence}" if draw.random() < 0.5 else f"{text} {sentence}"
    if place < 0.75:
        return f"{sentence} {text}"
    paragraphs = text.split("\n")
    paragraphs.insert(draw.randrange(len(paragraphs) + 1), sentence)
    return "\n".join(paragraphs)


def distinct_texts(examples: Iterable[Example]) -> Iterator[str]:
    """Each text of the examples once, empty ones left out."""
    seen = set()
    for example in examples:
        for text in example.texts:
            if text and text not in seen:
                seen.add(text)
                yield text


def level_of(example: Example) -> int:
    """The likeliest level of an example's label; 0 for a claim."""
    return 0 if example.label is None else int(np.argmax(example.label)) + 1


def fold_of(examples: Sequence[Example], count: int, seed: int) -> dict[str, int]:
    """The fold of each group: the same share of each source in each."""
    draw = Random(f"{seed}-folds")
    groups = sorted({(example.source.split("/")[0].split("-")[0], example.group) for example in examples})
    draw.shuffle(groups)
    groups.sort(key=lambda pair: pair[0])
    result: dict[str, int] = {}
    for number, (_, group) in enumerate(groups):
        result.setdefault(group, number % count)
    return result


def _words(text: str) -> str:
    return " ".join(text.casefold().split())
