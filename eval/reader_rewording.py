"""Claims in other words that say the same, and claims that say less."""

import re
from collections.abc import Callable, Sequence, Set
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal

from medjudge.files import parse_yaml
from medjudge.languages.texts import Texts

Language = Literal["en", "zh"]
Edit = Callable[[str, Random], str]
"""The text with the edit, or the text as it was where there is nothing to edit."""

_FILE = Path(__file__).with_name("reader_claims.yaml")
_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_HANZI = "两三四五六七八九"
_COUNTED = r"(?=个|种|次|天|周(?!围|岁)|年|片|粒|类|岁|倍)"
_NAMED = (
    r"(?<!to )(?<!or )(?<!and )(?<!type )(?<!stage )(?<!grade )(?<!chromosome )"
    r"(?<!phase )(?<!class )(?<!vitamin )(?<!step )"
)
_ASKS = "even|only|just|is|are|was|and|or|such|especially|out|know|see|determine|tell|ask|check|decide|sure|learn"
"""Behind these, "if" or "when" begins no condition."""
_DEPENDS = r"(?!it\b|they\b|he\b|she\b|this\b|these\b|those\b|their\b|its\b|then\b|and\b|or\b|but\b|which\b)"


class Lists(Texts):
    """A language's part of `reader_claims.yaml`; its first lines say what each list is for."""

    frames: list[str]
    openers: list[str]
    synonyms: list[list[str]]
    renderings: list[list[str]]
    details: list[str]
    population: list[tuple[str, str]]
    time: list[tuple[str, str]]
    certainty: list[tuple[str, str]]


@cache
def lists_of(language: Language) -> Lists:
    """A language's lists, read once."""
    return Lists.model_validate(parse_yaml(_FILE.read_text(encoding="utf-8"), _FILE.name)[language])


def any_word(words: Sequence[str], language: Language) -> re.Pattern[str]:
    """Matches any of these words, the longest that fits, as it is written."""
    edge = (r"(?<![\w-])", r"(?![\w-])") if language == "en" else ("", "")
    return re.compile(f"{edge[0]}(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))}){edge[1]}")


class Rewording:
    """Rewords claims of one language."""

    def __init__(self, language: Language, small: Set[str]) -> None:
        """With the English words that are written small within a sentence."""
        lists = lists_of(language)
        self.language, self._small, self._frames = language, small, lists.frames
        self._instead: dict[str, list[str]] = {}
        for group in lists.synonyms:
            for word in group:
                self._instead.setdefault(word, []).extend(other for other in group if other != word)
        for first, *rest in lists.renderings:
            self._instead.setdefault(first, []).extend(rest)
        self._synonyms = any_word(list(self._instead), language)
        self._details = any_word(lists.details, language)
        comma = r",?\s+" if language == "en" else "，?"
        self._openers = re.compile(f"^(?:{'|'.join(map(re.escape, lists.openers))}){comma}")
        self._edits: list[Edit] = (
            [self._without_aside, self._numbers, _listed, self._turned]
            if language == "en"
            else [_aside_zh, _numbers_zh]
        )
        if language == "zh":
            self._edits += [_listed_zh, _turned_zh]

    def __call__(self, text: str, draw: Random, framed: bool = True) -> str:
        """The claim with one to four edits that keep its meaning; never as it was if it may be `framed`."""
        result = self._openers.sub("", text) if draw.random() < 0.7 else text
        result = self._upper(result)
        for edit in draw.sample(self._edits, draw.randint(1, len(self._edits))):
            result = edit(result, draw)
        share = draw.choice((0.6, 1.0, 1.0))
        result = self._upper(self._synonyms.sub(lambda word: self._synonym(word, result, share, draw), result))
        if framed and (result == text or draw.random() < 0.2):
            result = self._framed(result, draw)
        return result

    def joined(self, first: str, second: str, draw: Random) -> str:
        """Two claims in one."""
        if self.language == "zh":
            return first.rstrip("。") + draw.choice(("；", "，另外", "。此外，")) + second
        link = draw.choice(("; ", ", and ", ". In addition, ", ". Also, "))
        return first.rstrip(".") + link + self._lower(second)

    def less(self, text: str) -> list[str]:
        """What says less than the claim: an item of a list, a number or a detail left out; always in the same order."""
        cuts = [*(_LESS_EN if self.language == "en" else _LESS_ZH), (self._details, "")]
        results = []
        for pattern, instead in cuts:
            for match in pattern.finditer(text):
                if self._is_bound(text[: match.start()], match[0], text[match.end() :]):
                    continue
                rest = text[: match.start()] + match.expand(instead) + text[match.end() :]
                rest = re.sub(r"\s+(?=[.,;])|(?<=\s)\s+", "", rest)
                results.append(_articles(self._upper(rest)))
        return results

    def _is_bound(self, before: str, words: str, after: str) -> bool:
        """Whether these words cannot go without what stands beside them."""
        if self.language == "zh":
            return bool(re.search("[不和或与、～~-]$", before) or re.match("[的性期地是时者]", after))
        if re.search(r"\b(?:not|no|very|more|most|less|as|so|too|how|every|and|or|to)$", before.rstrip()):
            return True
        free = (
            r",|.*\d| ?(?:in|at|as|over|on|of|by|for|from|each|right|later|during|throughout|such|including|because)\b"
        )
        goes_on = (
            r" (?!(?:and|or|but|to|in|for|with|than|as|enough|when|if|while|because|that|who|which|until|so)\b)[a-z]"
        )
        return not re.match(rf"{free}|\w+ly\b", words) and not re.match(goes_on, after)

    def _synonym(self, word: re.Match[str], text: str, share: float, draw: Random) -> str:
        if draw.random() > share or (self.language == "zh" and text[word.start() - 1 : word.start()] == "不"):
            return word[0]
        new = draw.choice(self._instead[word[0]])
        # "a" before a consonant and "an" before a vowel must stay what they are.
        before = text[: word.start()]
        if re.search(r"\b[Aa]n? $", before) and (new[0] in "aeiou") != (word[0][0] in "aeiou"):
            return word[0]
        return new

    def _framed(self, text: str, draw: Random) -> str:
        frame = draw.choice(self._frames)
        return frame + text if self.language == "zh" else f"{frame} {self._lower(text)}"

    def _lower(self, text: str) -> str:
        word = re.match(r"[A-Z][a-z']*(?!\w)", text)
        return text[:1].lower() + text[1:] if word and word[0].lower() in self._small and word[0] != "I" else text

    def _upper(self, text: str) -> str:
        return text[:1].upper() + text[1:]

    def _without_aside(self, text: str, draw: Random) -> str:
        return re.sub(r" \([^()]*\)", "", text)

    def _numbers(self, text: str, draw: Random) -> str:
        if draw.random() < 0.5:
            words = rf"{_NAMED}\b({'|'.join(_WORDS)})(?= (?!to\b|or\b|and\b)[a-z])"
            text = re.sub(words, lambda word: str(_WORDS.index(word[1]) + 2), text)
        else:
            digits = rf"{_NAMED}(?<![\w.,–-])([2-9]|10)(?= (?!to\b|or\b|and\b|in\b|percent|mg\b|g\b|mL\b|ml\b)[a-z])"
            text = re.sub(digits, lambda digit: _WORDS[int(digit[1]) - 2], text)
        text = re.sub(r"(?<=\d) percent\b|(?<=\d)%", "%" if " percent" in text else " percent", text)
        text = re.sub(r"\b(\d+)00 mg\b", lambda mass: f"{int(mass[1]) / 10:g} g", text)
        text = re.sub(r"(?<=\d),(?=\d{3}\b)", "", text)
        return re.sub(r"\b12 months\b", "one year", re.sub(r"\b24 hours\b", "one day", text))

    def _turned(self, text: str, draw: Random) -> str:
        """The condition, reason or circumstance moved from one end of the sentence to the other."""
        lead = re.fullmatch(
            rf"(If|When|Because|Although|While|Unless|Once|As|In|During|For|At|Among|By)"
            rf" ([^,;]{{4,80}}), {_DEPENDS}([^,;]{{12,}})\.",
            text,
        )
        if lead and not re.search(r"\b(that|which|who)\b", lead[3]):
            return f"{self._upper(lead[3])} {lead[1].lower()} {lead[2]}."
        tail = re.fullmatch(rf"([^,;]{{15,}}?) (if|when|because|although|unless) {_DEPENDS}([^,;]{{8,}})\.", text)
        if not tail or re.search(r"\b(that|which|who|whose|how|what|whether|as)\b", text):
            return text
        if re.search(rf" (?:{_ASKS})$", tail[1]):
            return text
        return f"{self._upper(tail[2])} {tail[3]}, {self._lower(tail[1])}."


_ITEM = r"[^,;:.()]{2,40}"
_NO_ITEM = r"(?! (?:such|including|like|especially|and|or|but|which|who|it|they|is|are|so)\b)"
_RANGE = r"\b\d+(?:\.\d+)?(?: to \d+|-\d+)?"
_LESS_EN = [
    (re.compile(rf",{_NO_ITEM}(?: [\w'-]+){{1,4}}(?=,(?: {_ITEM},)* (?:and|or) )"), ""),
    (re.compile(r",? (?:such as|including|especially|particularly|for example|because)\b [^.;()]{4,}(?=\.$)"), ""),
    (re.compile(rf"(?:about |approximately )?{_RANGE} (?=(?:days|weeks|months|years|hours|minutes)\b)"), "several "),
    (re.compile(rf"(?:[Aa]bout |[Aa]pproximately )?{_RANGE} ?(?:percent|%) of "), "a share of "),
]
_LESS_ZH = [
    (re.compile(r"、[^、，。；：（）的]{2,8}(?=、)"), ""),
    (re.compile(r"、[^、，。；：（）的和及]{2,8}(?=等)"), ""),
    (re.compile(r"(?<=包括|例如|比如|出现|采用|使用|应用|进行|食用|给予)[^、，。；：（）]{2,8}、"), ""),
    (re.compile(r"(?<![-~～至到—\d.])(?:大约|约)?\d+(?:\.\d+)?(?:[-~～至到—]\d+)?(?=天|周|个月|年|小时|分钟)"), "数"),
    (
        re.compile(r"(?<![-~～至到—\d.])(?:大约|约)?\d+(?:\.\d+)?%?(?:[-~～至到—]\d+(?:\.\d+)?)?%(?![-~～至到—])"),
        "一定比例",
    ),
]
"""What can be left out of a text, and what is put in its place."""


def _articles(text: str) -> str:
    """The articles as the words behind them want them."""
    return re.sub(
        r"\b([Aa])n? (?=([a-z]))",
        lambda found: (
            f"{found[1]}{'n' if found[2] in 'aeio' else ''} "
            if found[0].rstrip().lower() == "an" or found[2] in "aeio"
            else found[0]
        ),
        text,
    )


def _listed(text: str, draw: Random) -> str:
    """The items of a list in another order."""
    match = re.search(r"\b(?:includes?|including|such as|comprises?) ([^.;:()]+)(?=\.$)", text)
    if not match:
        return text
    items = re.split(r", (?:and |or )?", match[1])
    last = re.search(r", (and|or) [^,]+$", match[1])
    if len(items) < 3 or not last or any(len(item.split()) > 5 or re.search(r"\b(?:and|or)\b", item) for item in items):
        return text
    # In "dark, thick, and leathery skin" the last word belongs to all.
    if len(items[-1].split()) > 1 and all(len(item.split()) == 1 for item in items[:-1]):
        return text
    draw.shuffle(items)
    return text[: match.start(1)] + ", ".join(items[:-1]) + f", {last[1]} {items[-1]}" + text[match.end(1) :]


def _aside_zh(text: str, draw: Random) -> str:
    return re.sub(r"（[^（）]*）|\([^()]*\)", "", text)


def _numbers_zh(text: str, draw: Random) -> str:
    if draw.random() < 0.5:
        numbers = rf"(?<![\d一二三四五六七八九十第点百千之、])([{_HANZI}]){_COUNTED}"
        text = re.sub(numbers, lambda found: str(_HANZI.index(found[1]) + 2), text)
    else:
        numbers = rf"(?<![\d.~～至到—/-])([2-9]){_COUNTED}"
        text = re.sub(numbers, lambda found: _HANZI[int(found[1]) - 2], text)
    for latin, hanzi in (("mg", "毫克"), ("g", "克"), ("ml", "毫升")):
        text = re.sub(
            rf"(?<=\d){latin}(?![A-Za-z/])|(?<=\d){hanzi}", hanzi if re.search(rf"\d{latin}", text) else latin, text
        )
    text = re.sub(r"(?<![\d.~～至到—-])(\d+(?:\.\d+)?)%(?![-~～至到—])", r"百分之\1", text)
    return re.sub(r"(?<=\d)天", "日", text) if draw.random() < 0.5 else text


def _listed_zh(text: str, draw: Random) -> str:
    """Two items of a list exchanged; only items with a mark at both ends, for words have none."""
    item = r"(?<=[、：])[^、，。；：（）和或及与]{2,9}(?=、|等)|(?<=包括)[^、，。；：（）]{2,9}(?=、)"
    neighbours = pairwise(re.finditer(item, text))
    runs = [(first, second) for first, second in neighbours if second.start() == first.end() + 1]
    if not runs:
        return text
    first, second = draw.choice(runs)
    return text[: first.start()] + second[0] + "、" + first[0] + text[second.end() :]


def _turned_zh(text: str, draw: Random) -> str:
    match = re.fullmatch(
        r"(如果|由于|因为)([^，。；]{4,40})，(?!则|就|那|可|也|因此|所以|从而|故)([^。；]{6,})。", text
    )
    if not match:
        return text
    head = {"如果": "，前提是", "由于": "，这是由于", "因为": "，这是因为"}[match[1]]
    return f"{match[3]}{head}{match[2]}。"
