"""Claims made by rule from passages that support them, leave them open, or contradict them.

A fact of a sentence is changed, which gives two versions of its document. A claim is one version of the sentence in
other words: the same version of the passage supports it, the other one contradicts it, and a passage without that
sentence, without a detail of it, or from another document about the same topic leaves it open. Each fact gives one
claim with each label, so the wording of a claim or of a passage tells nothing about it.
"""

import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

from reader_claim_documents import Document, chinese_documents, depends, english_documents
from reader_rewording import Language, Rewording, any_word, lists_of

from medjudge.distill.alterations import altered
from medjudge.distill.wording import wording_of
from medjudge.errors import InputError
from medjudge.text.sentences import is_balanced

ENGLISH_CLAIMS, CHINESE_CLAIMS = 50_000, 20_100
"""How many are made for the built-in judge."""
SUPPORTED, OPEN, CONTRADICTED = 0, 1, 2
KINDS = ("drug", "side", "dose", "unit", "time", "population", "number", "certainty", "opposite", "negation")
"""What can be changed, the rarest first."""
HELD_OUT_KINDS = ("drug", "time")
"""Never trained on. Their documents are held out as a whole, else drugs and times in training would never be wrong."""
_MOST_HELD_OUT = {"en": 240, "zh": 110}
"""Facts of each held-out kind, so that not too many documents are held out."""
_HELD_OUT_ONE_IN = 20
_LEARNED = {
    int(each, 16) for each in Path(__file__).with_name("reader_claims_learned.txt").read_text(encoding="utf-8").split()
}
_TIMES = {"drug": 2, "side": 4, "dose": 4, "unit": 6, "time": 2}
"""How often a fact of a rare kind is used, each time with another value, passage and wording."""
_BY_RULE = {
    "drug": ("drug",),
    "side": ("side",),
    "dose": ("dose",),
    "unit": ("dose-unit", "unit"),
    "time": ("unit",),
    "number": ("number",),
    "opposite": ("opposite",),
    "negation": ("negated-advice", "negated-statement"),
}
"""The alterations of `medjudge.distill.alterations` that make each kind."""
_OWN = ("population", "time", "certainty")
_UNITS_OF_TIME = {"en": r"\b(?:minute|hour|day|week|month|year)s?\b", "zh": r"秒|分钟|小时|天|周|个月|年"}
_MOST_PARTS = {"en": 6, "zh": 8}
_LEFT_OPEN = {"added": 0.84, "removed": 0.08, "other": 0.08}
"""How often each kind of left-open claim is tried first."""
_NEAR = {"en": 0.5, "zh": 0.4}
"""A passage that leaves a claim open has at least this share of its terms, else the words alone would give it away."""
_LEAST_OVERLAP = {"en": 0.65, "zh": 0.5}
"""The least share of a claim's tokens in a passage that leaves it open; shared words alone would else tell it from a
supported one."""
_REPEATED = 0.6
"""A part with more of the terms of another one may say the same."""
_MOST = {"en": 120, "zh": 200}
"""Words or Chinese characters of a passage."""
_COUNTED = {
    "en": re.compile(
        r"(?<![\w.,–-])(?<!type )(?<!stage )(?<!grade )(?:two|three|four|five|six|seven|eight|nine|ten|\d+(?:,\d{3})*)"
        r"(?= (?!to\b|or\b|and\b|percent|mg\b|g\b)[a-z(]|[.,;]? )"
    ),
    "zh": re.compile(
        r"(?<![\d一二三四五六七八九十第点.~～至到—-])[两三四五六七八九](?=个|种|类|次|项|级|型|期|天|周(?!围|岁)|年)"
    ),
}
_WORDS = {
    "en": ["two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"],
    "zh": list("两三四五六七八九"),
}
_NO_CLAIM = {
    "en": re.compile(
        r"[?!\[\]]| - |https?:|www\.|^\W|\b(?:I|we|our|us|NIH|NCI|MedlinePlus|Registry|Web site|website|click|see the"
        r"|your doctor will|this page|section|article|table below|following|listed|provides the)\b"
    ),
    "zh": re.compile(
        r"[？?！!“”\"：:]|你|您|祝|希望|感谢|咨询|回答|解释|帮助到|描述|我们?|吗|呢|啊|吧|嘛|咱|朋友|\d[.、]"
        r"|^[\d一二三四五六七八九][、.．]|^(?:等|的|了|和|及|后|时)"
    ),
}


class Claim(NamedTuple):
    """A claim and the passage it is judged by.

    Attributes:
        passage: A stretch of one document.
        claim: One or two sentences, never word for word from a document.
        label: 0 supported, 1 left open, 2 contradicted.
        kind: "none" for supported; "removed", "other" or "added" for left open; one of `KINDS` for contradicted.
        language: "en" or "zh".
        document: The topic under which the document stands: claims and passages of one topic belong to one side of
            a split.
    """

    passage: str
    claim: str
    label: int
    kind: str
    language: str
    document: str


_Versions = tuple[list[str], list[str]]
"""The parts of a document before and after a fact was changed."""


class _Split(NamedTuple):
    train: list[Claim]
    held_out: list[Claim]


def claims(data: Path, english: int, chinese: int, seed: int) -> list[Claim]:
    """Makes claims, a third with each label.

    Args:
        data: The folder that holds the three sets.
        english: How many English ones, rounded up to a multiple of 3.
        chinese: How many Chinese ones, likewise.
        seed: Of every draw.

    Raises:
        InputError: The documents hold too few facts that can be changed.
    """
    made: list[Claim] = []
    if english:
        made += of_documents(english_documents(data), "en", english, seed)
    if chinese:
        made += of_documents(chinese_documents(data), "zh", chinese, seed)
    return made


def split(made: Sequence[Claim]) -> _Split:
    """Training and held-out claims: no topic is on both sides, and one with a held-out kind is held out."""
    held = {claim.document for claim in made if claim.kind in HELD_OUT_KINDS or _is_held_out(claim.document)}
    return _Split(
        [claim for claim in made if claim.document not in held], [claim for claim in made if claim.document in held]
    )


def thinned(made: Sequence[Claim], most: Mapping[str, int], seed: int) -> list[Claim]:
    """A sample of facts, each with its three claims.

    Args:
        made: What `claims` gives, or a side of `split`.
        most: By language, the most facts of each kind.
        seed: Of the sample.
    """
    by_kind: dict[tuple[str, str], list[Sequence[Claim]]] = defaultdict(list)
    for at in range(0, len(made), 3):
        by_kind[made[at].language, made[at + CONTRADICTED].kind].append(made[at : at + 3])
    chosen: list[Claim] = []
    for (language, kind), facts in sorted(by_kind.items()):
        some = Random(f"{seed} {language} {kind}").sample(facts, min(len(facts), most[language]))
        chosen += [claim for fact in some for claim in fact]
    return chosen


def unlearned(made: Iterable[Claim]) -> list[Claim]:
    """Those of topics that the readers of the shipped judge have not learned from.

    Their first stages learned from claims of an earlier rule (commit 9c6d551), whose split held other topics out.
    `reader_claims_learned.txt` lists the CRC-32 of each topic that they learned from and that `split` now holds out.
    Readers trained anew have learned from none of these.
    """
    return [claim for claim in made if zlib.crc32(claim.document.encode()) not in _LEARNED]


def _is_held_out(topic: str) -> bool:
    return zlib.crc32(topic.encode()) % _HELD_OUT_ONE_IN == 0


def of_documents(documents: Sequence[Document], language: Language, count: int, seed: int) -> list[Claim]:
    """Claims of one language; arguments and errors as for `claims`."""
    return _Maker(documents, language, Random(f"{language} {seed}")).make(-(-count // 3))


class _Maker:
    def __init__(self, documents: Sequence[Document], language: Language, draw: Random) -> None:
        self.documents, self.language, self.draw = documents, language, draw
        self.lenient = False
        self.wording = wording_of(language)
        self.by_topic: dict[str, list[Document]] = defaultdict(list)
        for document in documents:
            self.by_topic[document.topic].append(document)
        within = Counter(
            word
            for document in documents
            for part in document.parts
            for word in re.findall(r"(?<=[a-z,] )[A-Za-z][a-z']*", part)
        )
        self.small = {
            word for word, count in within.items() if word.islower() and count > 2 * within[word.capitalize()]
        }
        self.small |= {"this", "these", "most", "some", "many", "if", "when", "people", "it", "the", "a", "an"}
        self.reworded = Rewording(language, self.small)
        self.swaps = {kind: _Swap(kind, language) for kind in _OWN}
        self.times = re.compile(f"{self.swaps['time'].pattern.pattern}|{_UNITS_OF_TIME[language]}")

    def make(self, facts: int) -> list[Claim]:
        places = [(document, at) for document in self.documents for at in range(len(document.parts))]
        places = [(document, at) for document, at in places if self.is_claimable(document.parts[at])]
        self.draw.shuffle(places)
        places.sort(key=lambda place: not place[0].fluent)
        counts: Counter[str] = Counter()
        made: list[Claim] = []
        used: set[str] = set()
        for number, most in enumerate((-(-facts // len(KINDS)), facts, facts)):
            limits = dict.fromkeys(KINDS, most) | dict.fromkeys(
                HELD_OUT_KINDS, min(most, _MOST_HELD_OUT[self.language])
            )
            for document, at in places:
                if len(made) >= 3 * facts:
                    return made
                kinds = [] if document.parts[at] in used else [kind for kind in KINDS if counts[kind] < limits[kind]]
                if most == facts:
                    self.draw.shuffle(kinds)
                for kind in kinds:
                    self.lenient = kind in _TIMES or number == 2
                    three = self._of_fact(document, at, kind, _TIMES.get(kind, 1))
                    made += three
                    counts[kind] += len(three) // 3
                    if three:
                        used.add(document.parts[at])
                        break
        if len(made) < 3 * facts:
            raise InputError(f"only {len(made)} claims could be made in language {self.language}; ask for fewer")
        return made

    def is_claimable(self, part: str) -> bool:
        if _NO_CLAIM[self.language].search(part) or not is_balanced(part) or self.wording.leans.match(part):
            return False
        if self.language == "zh":
            return 12 <= len(part) <= 60 and not depends(part) and "、" not in part[-2:]
        words = part.split()
        if not 7 <= len(words) <= 42 or not part.endswith(".") or not part[0].isupper():
            return False
        # A heading that runs into its text shows by a word in capitals that is written small elsewhere.
        return not any(word[0].isupper() and word.lower().strip(".,") in self.small for word in words[1:])

    def _of_fact(self, document: Document, at: int, kind: str, times: int) -> list[Claim]:
        """A claim with each label about one fact of a part, several times; none where one of them cannot be made."""
        made: list[Claim] = []
        for _ in range(times):
            changed = self._changed(document.parts, at, kind)
            if changed is None:
                return made
            versions = (document.parts, changed)
            three = [self._claim(document, versions, at, label, kind) for label in (SUPPORTED, OPEN, CONTRADICTED)]
            known = [claim for claim in three if claim]
            if len(known) == len(three) and overlap(known[OPEN]) >= _LEAST_OVERLAP[self.language]:
                made += known
        return made

    def _changed(self, parts: list[str], at: int, kind: str) -> list[str] | None:
        for rule in self.draw.sample(_BY_RULE.get(kind, ()), len(_BY_RULE.get(kind, ()))):
            found = altered(parts, at, rule, self.wording, self.draw)
            if found and (kind == "time") == self._tells_time(parts[at], found.parts[at]):
                return found.parts
        part = None
        if kind in self.swaps:
            part = self.swaps[kind](parts[at], self.draw)
        elif kind == "number":
            part = _other_count(parts[at], self.language, self.draw)
        return [*parts[:at], part, *parts[at + 1 :]] if part and part != parts[at] else None

    def _tells_time(self, before: str, after: str) -> bool:
        return self.times.findall(before) != self.times.findall(after)

    def _claim(self, document: Document, versions: _Versions, at: int, label: int, kind: str) -> Claim | None:
        claimed = self.draw.randrange(2)
        told = 1 - claimed if label == CONTRADICTED else claimed
        passage = self._window(versions, told, at)
        near = [
            number for number in (at + 1, at - 1) if number in passage and self.is_claimable(document.parts[number])
        ]
        second = near[0] if near and self.draw.random() < 0.4 else None
        less, says_less = self._less(versions, at), self.draw.random() < 0.4
        if label == OPEN:
            kind = self._left_open(document, passage, at, second, less[told] if less else "")
            if not kind:
                return None
            says_less = says_less and kind != "added"
        else:
            kind = kind if label == CONTRADICTED else "none"
            if less and self.draw.random() < 0.35 and (says_less or label == CONTRADICTED):
                passage[at] = less[told]
        text = self._worded(less[claimed] if less and says_less else versions[claimed][at])
        if second is not None:
            text = self.reworded.joined(text, self._worded(versions[claimed][second], framed=False), self.draw)
        return Claim(self._written(passage.values()), text, label, kind, self.language, document.topic)

    def _left_open(self, document: Document, passage: dict[int, str], at: int, second: int | None, less: str) -> str:
        """Changes the passage so that it leaves open what it said; how, or nothing where it cannot be done."""
        kinds = sorted(_LEFT_OPEN, key=lambda kind: self.draw.random() ** (1 / _LEFT_OPEN[kind]), reverse=True)
        if kinds[0] == "added" and not self.lenient:
            kinds = ["added"]
        for kind in kinds:
            if kind == "added" and less:
                passage[at] = less
                return kind
            if kind == "added" and second is not None and self._is_near(passage, second):
                del passage[second]
                return kind
            if kind == "removed" and self._is_near(passage, at):
                del passage[at]
                return kind
            other = self._other(document, passage[at]) if kind == "other" else {}
            if other:
                passage.clear()
                passage.update(other)
                return kind
        return ""

    def _is_near(self, passage: dict[int, str], at: int) -> bool:
        """Whether the rest of a passage has many terms of a part, and no part of it says the same."""
        terms, rest = self._terms(passage[at]), [part for number, part in passage.items() if number != at]
        repeated = any(self._share(terms, part) > _REPEATED for part in rest)
        return bool(rest) and not repeated and self._share(terms, " ".join(rest)) >= self._near()

    def _near(self) -> float:
        return _NEAR[self.language] * (0.5 if self.lenient else 1.0)

    def _other(self, document: Document, part: str) -> dict[int, str]:
        """A passage of another document about the same topic, the one of several nearest to a part of this one."""
        others = [other for other in self.by_topic[document.topic] if other.parts != document.parts]
        terms, most = self._terms(part), self._near()
        best: dict[int, str] = {}
        for other in self.draw.sample(others, min(len(others), 6)):
            parts = (other.parts, other.parts)
            window = self._window(parts, 0, self.draw.randrange(len(other.parts)))
            if sum(map(self._size, window.values())) > _MOST[self.language]:
                continue
            share = self._share(terms, " ".join(window.values()))
            if share > most and all(self._share(terms, near) <= _REPEATED for near in window.values()):
                best, most = window, share
        return best

    def _window(self, versions: _Versions, told: int, at: int) -> dict[int, str]:
        """Consecutive parts around one, by their numbers, no more than a passage holds in either version."""
        parts, wanted = versions[told], self.draw.randint(2, _MOST_PARTS[self.language])
        low = high = at
        sizes = [max(self._size(version[number]) for version in versions) for number in range(len(parts))]
        while high - low + 1 < wanted:
            sides = [side for side in (low - 1, high + 1) if 0 <= side < len(parts)]
            sides = [side for side in sides if sum(sizes[low : high + 1]) + sizes[side] <= _MOST[self.language]]
            if not sides:
                break
            side = self.draw.choice(sides)
            low, high = min(low, side), max(high, side)
        return {number: parts[number] for number in range(low, high + 1)}

    def _less(self, versions: _Versions, at: int) -> tuple[str, str] | None:
        """Both versions of a part without the same detail, still two versions."""
        first, second = (self.reworded.less(version[at]) for version in versions)
        both = [pair for pair in zip(first, second, strict=False) if pair[0] != pair[1]]
        return self.draw.choice(both) if len(first) == len(second) and both else None

    def _worded(self, part: str, framed: bool = True) -> str:
        return self.reworded(part.rstrip("，；。") + "。" if self.language == "zh" else part, self.draw, framed)

    def _written(self, parts: Iterable[str]) -> str:
        if self.language == "en":
            return " ".join(parts)
        return re.sub("[，；]$", "。", "".join(parts))

    def _size(self, part: str) -> int:
        return len(part.split()) if self.language == "en" else len(part)

    def _terms(self, part: str) -> set[str]:
        return set(tokens(part, self.language)) - self.wording.stop_words

    def _share(self, terms: set[str], part: str) -> float:
        return len(terms & self._terms(part)) / max(1, len(terms))


class _Swap:
    """Words exchanged for what excludes them."""

    def __init__(self, kind: str, language: Language) -> None:
        self._instead: dict[str, list[str]] = defaultdict(list)
        for first, second in getattr(lists_of(language), kind):
            self._instead[first].append(second)
            self._instead[second].append(first)
        self._whole = kind == "population"
        self.pattern = any_word(list(self._instead), language)
        self._beside = (
            re.compile(r"(?:\b(?:and|or|how|as|more|most|less|very|so|not)|和|或|与|及|、)\s*$"),
            re.compile(r"^\s*(?:(?:and|or|not)\b|和|或|与|及|、|的|性)"),
        )

    def __call__(self, part: str, draw: Random) -> str | None:
        hits = [
            hit
            for hit in self.pattern.finditer(part)
            if not self._beside[0].search(part[: hit.start()])
            and not self._beside[1].search(part[hit.end() :])
            and part[hit.start() - 1 : hit.start()] not in ("不", "没", "非", "无")
        ]
        if not hits:
            return None
        hit = draw.choice(hits)
        new = draw.choice(self._instead[hit[0]])
        if self._whole:
            both = {hit[0]: new, new: hit[0]}
            return self.pattern.sub(lambda word: both.get(word[0], word[0]), part)
        return part[: hit.start()] + new + part[hit.end() :]


def _other_count(part: str, language: Language, draw: Random) -> str | None:
    """A count without a unit that becomes another one."""
    hits = [hit for hit in _COUNTED[language].finditer(part) if not re.fullmatch("0|1|(?:19|20)\\d\\d", hit[0])]
    if not hits:
        return None
    hit, words = draw.choice(hits), _WORDS[language]
    if hit[0] in words:
        new = draw.choice([word for word in words if abs(words.index(word) - words.index(hit[0])) > 1])
    else:
        value = int(hit[0].replace(",", "")) * draw.choice((2, 3, 5))
        new = f"{value:,}" if "," in hit[0] else str(value)
    return part[: hit.start()] + new + part[hit.end() :]


def tokens(text: str, language: str) -> list[str]:
    """English words in lower case, or pairs of adjacent Chinese characters."""
    if language == "en":
        return re.findall(r"[a-z0-9]+(?:[.,'][a-z0-9]+)*", text.lower())
    letters = re.sub(r"[^\u4e00-\u9fffA-Za-z0-9.%]", "", text)
    return [letters[at : at + 2] for at in range(len(letters) - 1)]


def overlap(claim: Claim) -> float:
    """The share of a claim's tokens that occur in its passage."""
    return shared(claim.claim, claim.passage, claim.language)


def shared(text: str, passage: str, language: str) -> float:
    """The share of a text's tokens that occur in a passage."""
    known, said = set(tokens(passage, language)), tokens(text, language)
    return sum(token in known for token in said) / max(1, len(said))
