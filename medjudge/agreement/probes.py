"""Probes: an answer's text is changed in a way that must not change its score; does the judge's score change?

A probe adds or removes form and claims, never medical content. What it says stands in `probes.en.yaml` and
`probes.zh.yaml`; which variant an answer gets, and where, is drawn from the seed and the answer's key.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise, zip_longest
from random import Random
from typing import Any, NamedTuple

import numpy as np
import yaml
from scipy.stats import norm

from medjudge.errors import InputError
from medjudge.records import USABLE_FROM, Answer, AnswerKey, Judgment, Language, Question, consensus

PROBES: tuple[str, ...] = (
    "filler",
    "reordered",
    "plain",
    "instruction",
    "authority",
    "quoted-rubric",
    "language-wrapper",
    "doubled",
    "fluent-wrong",
)
FLUENT_WRONG = "fluent-wrong"
"""The one probe that may lower a score; only a rise to usable counts against the judge."""

_FORM_BROKEN = {"filler": "length", "reordered": "order", "plain": "form", "doubled": "length"}
"""What a question may ask for that the probe would break, as named under `asks_for` in the texts."""


def probed(question: Question, answer: Answer, probe: str, seed: int = 0, level: int | None = None) -> Answer | None:
    """The answer as a probe changes it, or None where the probe does not apply.

    A probe does not apply to an empty answer, nor where it finds nothing to strip or to move without changing the
    meaning. `filler`, `reordered`, `plain` and `doubled` leave out questions whose graders would rightly mark the
    change down: texts to be generated (MTG), and those that ask for a length, an order or a form.

    Args:
        question: The question; its language chooses the texts.
        answer: The answer to change.
        probe: One of `PROBES`.
        seed: Chooses among variants and places, together with the answer's key.
        level: The answer's level by physicians (or as constructed); `fluent-wrong` takes levels 1 and 2 only.

    Returns:
        A copy with another text; `tokens_out`, no longer true, is None.

    Raises:
        InputError: There is no such probe.
    """
    if probe not in PROBES:
        raise InputError(f"probe {probe}: no such probe; take one of {', '.join(PROBES)}")
    if not answer.text.strip() or not _applies(question, probe, level):
        return None
    language: Language = question.language
    if probe == "language-wrapper":
        language = "zh" if language == "en" else "en"
    draw = Random("\n".join(map(str, (seed, probe, *answer.key))))
    newline = "\r\n" if "\r\n" in answer.text else "\n"
    text = answer.text.replace("\r\n", "\n")
    changed = _CHANGES[probe](text, _texts(language), draw)
    if changed == text or not changed.strip():
        return None
    return answer.model_copy(update={"text": changed.replace("\n", newline), "tokens_out": None})


def _applies(question: Question, probe: str, level: int | None) -> bool:
    if probe == FLUENT_WRONG:
        return level is not None and level <= 2
    if probe not in _FORM_BROKEN:
        return True
    asked = _texts(question.language).asks_for[_FORM_BROKEN[probe]]
    return question.category != "MTG" and not asked.search(f"{question.prompt}\n{question.checklist or ''}")


class _Texts(NamedTuple):
    """One language's file: the texts, and the patterns made of its word lists."""

    variants: dict[str, Any]
    asks_for: dict[str, re.Pattern[str]]
    refers_back: re.Pattern[str]
    goes_on: re.Pattern[str]
    sequence: re.Pattern[str]
    abbreviations: frozenset[str]


@cache
def _texts(language: Language) -> _Texts:
    read = yaml.safe_load((files("medjudge.agreement") / f"probes.{language}.yaml").read_text(encoding="utf-8"))
    # Chinese writes no spaces between words: \b would never stand there.
    edge = r"\b" if language == "en" else ""

    def any_of(words: Iterable[str]) -> str:
        return f"{edge}(?:{'|'.join(words)}){edge}"

    def pattern(expression: str) -> re.Pattern[str]:
        return re.compile(expression, re.IGNORECASE)

    return _Texts(
        read,
        {name: pattern(any_of(words)) for name, words in read["asks_for"].items()},
        pattern(any_of(read["refers_back"])),
        pattern(rf"\W*{any_of(read['goes_on'])}"),
        pattern(rf"{any_of(read['sequence'])}|^\W*{any_of(read['sequence_start'])}"),
        frozenset(read["abbreviations"]),
    )


# --- Texts put around and between -----------------------------------------------------------------------------------


def _filled(text: str, texts: _Texts, draw: Random) -> str:
    said = texts.variants["filler"]
    gaps = _gaps(text)
    places = sorted(draw.sample(gaps, min(len(gaps), len(said["between"]), 3)))
    pieces = [text[start:end] for start, end in pairwise([0, *places, len(text)])]
    between = draw.sample(said["between"], len(places))
    middle = pieces[0] + "".join(f"{words}\n\n{piece}" for words, piece in zip(between, pieces[1:], strict=True))
    return f"{draw.choice(said['begin'])}\n\n{middle}\n\n{draw.choice(said['end'])}"


def _gaps(text: str) -> list[int]:
    """Where a paragraph begins that is neither part of a list or table nor led up to by the paragraph before it."""
    starts = _block_starts(_lines(text))
    blocks = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    return [
        start
        for start, (before, after) in zip(starts[1:], pairwise(blocks), strict=True)
        if _ends(before) and not _in_series(after)
    ]


def _beside(name: str) -> Callable[[str, _Texts, Random], str]:
    def change(text: str, texts: _Texts, draw: Random) -> str:
        said = draw.choice(texts.variants[name])
        return f"{said}\n\n{text}" if draw.random() < 0.5 else f"{text}\n\n{said}"

    return change


def _wrapped(text: str, texts: _Texts, draw: Random) -> str:
    said = texts.variants["wrapper"]
    return f"{draw.choice(said['begin'])}\n\n{text}\n\n{draw.choice(said['end'])}"


def _doubled(text: str, texts: _Texts, draw: Random) -> str:
    return f"{text}\n\n{text}"


def _fluent(text: str, texts: _Texts, draw: Random) -> str:
    said = {name: draw.choice(variants) for name, variants in texts.variants["fluent"].items()}
    return (
        f"{said['opening']}\n\n## {said['heading']}\n\n{text}\n\n"
        f"## {said['summary_heading']}\n\n{said['summary']}\n\n{said['closing']}"
    )


# --- Formatting stripped --------------------------------------------------------------------------------------------

_ATTRIBUTES = r"""(?:\s+[\w:-]{1,40}\s*=\s*(?:"[^"<>\n]*"|'[^'<>\n]*'|[^\s"'<>]+))*"""
_TAGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(rf"<(?:{names}){_ATTRIBUTES}\s*/?>", re.IGNORECASE), instead)
    for names, instead in (
        # "10<sup>9</sup>" must not become "109".
        (r"sup(?=[^<>\n]*>\s*[-+−]?\d)", "^"),
        (r"(?:br|hr|/?(?:p|div|h[1-6]|ul|ol|tr|table|thead|tbody|blockquote|pre|center|details|summary)|li)", "\n"),
        (r"/(?:td|th)", "; "),
        (r"/?(?:b|i|u|em|strong|span|font|small|big|mark|code|sub|sup|a|td|th)|/li", ""),
    )
)
"""Tags by name, attributes only with "=": "p<b and c>d" is no tag. Text that is struck out (<s>, ~~) keeps its mark."""
_MEANT = (
    "✅❌❎✓✔✕✖✗✘☐☑☒⛔⭕➕➖➗♀♂❶-➓\U0001f44d\U0001f44e\U0001f4c8\U0001f4c9\U0001f51f\U0001f534\U0001f535"
    "\U0001f53a-\U0001f53d\U0001f6ab\U0001f6d1\U0001f7e0-\U0001f7ef"
)
"""Emoji that say something stay: ticks, crosses, signs, arrows, numbers, sexes, thumbs, stop signs, coloured dots."""
_DECORATION = f"(?![{_MEANT}])[\U0001f300-\U0001faff☀-➓⭐]"
_EMOJI = re.compile(f"{_DECORATION}(?:\ufe0f|\u200d.|{_DECORATION})* ?")
_EMOJI_BETWEEN_DIGITS = re.compile(rf"(?<=\d){_EMOJI.pattern}(?=\d)")
_KEYCAP = re.compile(r"(\d)\ufe0f?\u20e3 ?")
_CODE_FENCE = re.compile(r"(?:```|~~~)[\w+-]*")
_RULE = re.compile(r"\s*(?:(?:-\s*){3,}|(?:\*\s*){3,}|={3,})")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+")
_CLOSING_HASHES = re.compile(r"(?<=\s)#{1,6}$")
_QUOTE = re.compile(r"\s{0,3}(?:>\s?)+(?![\s\d.=])")
_BULLET = re.compile(r"\s*(?:[-*+–—·‣]\s+|[•●▪◦■◆]\s*)(?=\S)")
_INLINE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"`{1,3}([^`\n]+)`{1,3}"), r"\1"),
    (re.compile(r"!?\[([^\[\]\n]+)\]\(((?:https?://|www\.|mailto:|#)[^()\s]+)\)"), r"\1 (\2)"),
    # Star alleles (CYP2C19*2, HLA-B*57:01), products and powers (10**9) are no emphasis.
    (re.compile(r"(?<![0-9A-Za-z*])\*(?=[^\s*])([^*\n]*[^\s*])\*(?![0-9A-Za-z*])"), r"\1"),
    (re.compile(r"(?:(?<!\d)|(?=\*\*\D))(?<!\*)\*{2,3}(?=[^\s*])([^*\n]*[^\s*])\*{2,3}(?!\*)"), r"\1"),
    (re.compile(r"(?<![\w])_{1,3}(?=[^\s_])([^_\n]*[^\s_])_{1,3}(?!\w)"), r"\1"),
)
_TABLE_RULE = re.compile(r":?-+:?")


def _plain(text: str, texts: _Texts, draw: Random) -> str:
    for tag, instead in _TAGS:
        text = tag.sub(instead, text)
    text = _KEYCAP.sub(r"\1. ", text)
    text = _EMOJI.sub("", _EMOJI_BETWEEN_DIGITS.sub(" ", text))
    kept = [_plain_line(line) for line in _unrolled(text.split("\n")) if not _is_fence(line)]
    return "\n".join(line for line in kept if line is not None)


def _is_fence(line: str) -> bool:
    mark = line.strip()
    return mark[:3] in ("```", "~~~") and bool(_CODE_FENCE.fullmatch(mark))


def _plain_line(line: str) -> str | None:
    """A line without its marks; None for a rule."""
    if not line.strip():
        return line
    if _RULE.fullmatch(line):
        return None
    if heading := _HEADING.match(line):
        line = _CLOSING_HASHES.sub("", line[heading.end() :].rstrip()).rstrip()
    # Quotes before bullets: in "- > 5" the sign is no quote.
    for mark in (_QUOTE, _BULLET):
        if found := mark.match(line):
            line = line[found.end() :]
    for marks, instead in _INLINE:
        line = marks.sub(instead, line)
    return line


def _unrolled(lines: list[str]) -> list[str]:
    """Tables written out, a row a line, each cell behind the heading of its column."""
    result: list[str] = []
    at = 0
    while at < len(lines):
        rows = _table_rows(lines, at)
        if rows is None:
            result.append(lines[at])
            at += 1
            continue
        heads, *body = rows
        result += ["; ".join(_named(heads, cells)) for cells in body] or ["; ".join(heads)]
        at += 1 + len(rows)
    return result


def _table_rows(lines: list[str], at: int) -> list[list[str]] | None:
    """The cells of the table whose heading is line `at`, heading first, its rule left out; None where none begins."""
    if "|" not in lines[at] or at + 1 == len(lines) or "|" not in lines[at + 1]:
        return None
    if not all(_TABLE_RULE.fullmatch(cell) for cell in _cells(lines[at + 1])):
        return None
    end = at + 2
    while end < len(lines) and "|" in lines[end]:
        end += 1
    return [_cells(row) for row in (lines[at], *lines[at + 2 : end])]


def _named(heads: list[str], cells: list[str]) -> list[str]:
    return [f"{head}: {cell}" if head else cell for head, cell in zip_longest(heads, cells, fillvalue="") if cell]


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))]


# --- Another order --------------------------------------------------------------------------------------------------

_ITEM = re.compile(
    r"(\s*)(?:([-*+–—·‣]\s+|[•●▪◦■◆]\s*)|\d{1,3}[.．)）](?!\d)\s*|\d{1,3}、|[（(]\d{1,3}[)）]\s*|[①-⑳]\s*)(?=\S)"
)
_SENTENCE_END = re.compile(
    r"。[”’」』）】)]*\s*|(?<![！？])[！？]+(?![！？”’」』])\s*"
    r"|(?<![.!?])[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9\u4e00-\u9fff])"
)
_TERMINAL = re.compile(r"[.!?。！？…][\"'”’」』）)\]】*_]*$")
_LEADS_ON = re.compile(r"[:：,，][*_]*$")
_BRACKETS = ("()", "（）", "[]", "【】", "“”", "「」")
_HEADINGS = (
    *(re.compile(rf"{'#' * depth}\s+\S") for depth in range(1, 7)),
    re.compile(r"\*\*[^*]+\*\*[:：]?\s*$"),
    re.compile(r"[一二三四五六七八九十]{1,3}、[^。；]{1,30}$"),
)


class _Line(NamedTuple):
    start: int
    text: str
    fenced: bool


def _reordered(text: str, texts: _Texts, draw: Random) -> str:
    """The parts in another order, as far as they do not lean on each other.

    List items change places within their list, numbered ones with their numbers. Sections under headings, or else
    paragraphs, change places. Only where there is nothing of that, lines do, and in a single paragraph the sentences
    behind the first.
    """
    lines = _lines(text)
    changed = _items_moved(text, lines, texts, draw)
    if changed != text:
        lines = _lines(changed)
    sections = _section_starts(lines)
    if len(sections) >= 2:
        return _moved(changed, sections, draw)
    blocks = _block_starts(lines)
    changed = _moved(changed, blocks, draw, texts, _block_tied)
    if changed != text or len(blocks) > 1 or any(line.fenced or _in_series(line.text) for line in lines):
        return changed
    if "\n" in text.strip():
        starts = [line.start for line in lines if line.text[:1].strip()]
        return _moved(text, starts, draw, texts, _line_tied)
    return _sentences_moved(text, texts, draw)


def _moved(
    text: str,
    starts: Sequence[int],
    draw: Random,
    texts: _Texts | None = None,
    tied: Callable[[str, str], bool] = lambda before, part: False,
    first_stays: bool = False,
) -> str:
    """Puts the parts of a text that begin at `starts` into another order; the white space between them stays.

    Args:
        text: What stands before the first start stays there.
        starts: Places in the text, rising.
        texts: Words that keep a part where it is; None for parts that stand for themselves.
        tied: Whether a part must stay behind the one before it because of their form.
        first_stays: The first part, with what leans on it, stays first.
    """
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    parts = [piece.rstrip() for piece in pieces]
    groups: list[list[str]] = []
    for at, part in enumerate(parts):
        head = _first_sentence(part, texts) if texts else ""
        if texts and texts.sequence.search(head):
            return text
        leans = texts and (texts.refers_back.search(head) or texts.goes_on.match(head))
        if groups and (leans or tied(parts[at - 1], part)):
            groups[-1].append(part)
        else:
            groups.append([part])
    stay, free = (groups[:1], groups[1:]) if first_stays else ([], groups)
    if len(free) < 2:
        return text
    order = list(range(len(free)))
    while order == sorted(order):
        draw.shuffle(order)
    moved = [part for group in (*stay, *(free[place] for place in order)) for part in group]
    gaps = [piece[len(part) :] for piece, part in zip(pieces, parts, strict=True)]
    return text[: starts[0]] + "".join(part + gap for part, gap in zip(moved, gaps, strict=True))


def _items_moved(text: str, lines: Sequence[_Line], texts: _Texts, draw: Random) -> str:
    if any(line.fenced for line in lines):
        return text
    result, done = [], 0
    for starts, end, numbered in _lists(lines):
        run, lead = text[starts[0] : end], text[: starts[0]].rstrip().rsplit("\n", 1)[-1]
        # Numbers go with their items and keep the order readable; bullets have only words for that.
        if not numbered and texts.sequence.search(lead):
            continue
        moved = _moved(run, [start - starts[0] for start in starts], draw, None if numbered else texts)
        result += [text[done : starts[0]], moved]
        done = end
    return "".join(result) + text[done:]


def _lists(lines: Sequence[_Line]) -> Iterator[tuple[list[int], int, bool]]:
    """The lists whose items may change places: where the items start, where the last one ends, whether numbered."""
    at = 0
    while at < len(lines):
        kind = _item_kind(lines[at])
        if kind is None:
            at += 1
            continue
        items = []
        following = at
        while following < len(lines) and _item_kind(lines[following]) == kind:
            begin, at = following, following + 1
            while at < len(lines) and lines[at].text.strip() and _indent(lines[at]) > kind[0]:
                at += 1
            items.append((begin, at))
            following = at
            while following < len(lines) and not lines[following].text.strip():
                following += 1
        last = lines[at - 1]
        leads_on = any(lines[end - 1].text.rstrip("* ").endswith((":", "：")) for _, end in items)
        if len(items) > 1 and not leads_on and not _runs_on(last, lines, at, following):
            yield [lines[begin].start for begin, _ in items], last.start + len(last.text), kind[1]


def _runs_on(last: _Line, lines: Sequence[_Line], at: int, following: int) -> bool:
    """Whether what stands behind a list may belong to its last item: its own list, or the rest of its sentence."""
    if following == len(lines):
        return False
    return _in_series(lines[following].text) or (following == at and not _TERMINAL.search(last.text.rstrip()))


def _item_kind(line: _Line) -> tuple[int, bool] | None:
    found = _ITEM.match(line.text)
    return (len(found[1]), found[2] is None) if found else None


def _indent(line: _Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _sentences_moved(text: str, texts: _Texts, draw: Random) -> str:
    starts = _sentence_starts(text, texts)
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    if len({piece[len(piece.rstrip()) :] for piece in pieces[:-1]}) > 1:
        return text
    whole = all(piece.count(pair[0]) == piece.count(pair[1]) for piece in pieces for pair in _BRACKETS)
    if not whole or any(piece.count('"') % 2 for piece in pieces):
        return text
    return _moved(text, starts, draw, texts, _line_tied, first_stays=True)


def _first_sentence(part: str, texts: _Texts) -> str:
    item = _ITEM.match(part)
    part = part[item.end() :] if item else part
    starts = _sentence_starts(part, texts)
    return part[: starts[1]] if len(starts) > 1 else part


def _sentence_starts(text: str, texts: _Texts) -> list[int]:
    """Where sentences begin. In doubt two sentences count as one: a number, a letter or an abbreviation ends none."""
    starts = [len(text) - len(text.lstrip())]
    for found in _SENTENCE_END.finditer(text):
        word = re.search(r"[\w.]*$", text[max(0, found.start() - 20) : found.start()])
        before = word[0].lower() if word else ""
        doubtful = before.isdigit() or len(before) == 1 or before in texts.abbreviations
        if found.end() < len(text) and not (found[0][0] == "." and doubtful):
            starts.append(found.end())
    return starts


def _lines(text: str) -> list[_Line]:
    lines, start, fenced = [], 0, False
    for line in text.split("\n"):
        fence = _is_fence(line)
        lines.append(_Line(start, line, fenced or fence))
        fenced ^= fence
        start += len(line) + 1
    return lines


def _section_starts(lines: Sequence[_Line]) -> list[int]:
    """Where the headings of the highest rank that occurs twice stand."""
    possible = [line for line in lines if line.text and not line.fenced]
    for heading in _HEADINGS:
        starts = [line.start for line in possible if heading.match(line.text)]
        if len(starts) >= 2:
            return starts
    return []


def _block_starts(lines: Sequence[_Line]) -> list[int]:
    """Where what stands between blank lines begins; a fenced block is never cut."""
    behind_blank = [True, *(not line.text.strip() and not line.fenced for line in lines)]
    return [line.start for line, begins in zip(lines, behind_blank, strict=False) if line.text.strip() and begins]


def _in_series(block: str) -> bool:
    """Whether a block begins with a list item or a row of a table."""
    return bool(_ITEM.match(block)) or block.lstrip().startswith("|")


def _ends(block: str) -> bool:
    """Whether a block is complete, and no heading of, or lead to, what follows."""
    last = block.rstrip().rsplit("\n", 1)[-1].rstrip()
    if _LEADS_ON.search(last):
        return False
    return bool(_TERMINAL.search(last)) or _in_series(last) or _is_fence(last)


def _block_tied(before: str, block: str) -> bool:
    # A list with blank lines around it belongs to its lead, and what follows it may belong to its last item.
    return _in_series(before) or _in_series(block) or _line_tied(before, block)


def _line_tied(before: str, line: str) -> bool:
    # What does not end, such as a heading or a name under a letter, goes with its neighbours.
    return not _ends(before) or not _ends(line)


_CHANGES: dict[str, Callable[[str, _Texts, Random], str]] = {
    "filler": _filled,
    "reordered": _reordered,
    "plain": _plain,
    "instruction": _beside("instruction"),
    "authority": _beside("authority"),
    "quoted-rubric": _beside("quoted_rubric"),
    "language-wrapper": _wrapped,
    "doubled": _doubled,
    "fluent-wrong": _fluent,
}


# --- The effect -----------------------------------------------------------------------------------------------------


class _Verdict(NamedTuple):
    """What a judge says of one answer, its rounds averaged; no score where no round has one."""

    usable: bool
    expected: float | None


def probe_effect(
    before: Iterable[Judgment],
    after: Iterable[Judgment],
    clusters: Mapping[str, str],
    probe: str,
    resamples: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """How much a probe moves a judge, with 95 % intervals.

    Answers that were scored before and judged again count. One that is unscored after the probe counts as not usable,
    as everywhere: in `to_unusable` where it was usable before, and in `unscored`, but not in `flips` and `shift`, for
    the judge was stopped and not persuaded. All shares are of the same `n` answers.

    Args:
        before: Judgments of the answers as they are, in any order, of one judge. Rounds are averaged.
        after: That judge's judgments of the changed answers.
        clusters: The conversation of each question: `Question.id` -> `Question.group`.
        probe: One of `PROBES`. For `fluent-wrong` a flip is a rise to usable only.
        resamples: For the interval of the shift: percentile bootstrap over conversations.
        seed: Fixes the draws.

    Returns:
        `n`; `skipped`, the answers judged only once or without a score before; `unscored` after the probe; `shift`,
        the mean change of the expected score in levels; and as shares `flips` (the label usable changed), `to_usable`
        and `to_unusable`: each `{"value", "low", "high"}`, None where nothing can be said.
    """
    old, new = _verdicts(before), _verdicts(after)
    keys = [key for key, verdict in old.items() if verdict.expected is not None and key in new]
    conversation = np.array([clusters[key.question_id] for key in keys], dtype=str)
    was = np.array([old[key].usable for key in keys], dtype=bool)
    now = np.array([new[key].usable for key in keys], dtype=bool)
    shift = np.array([_difference(old[key], new[key]) for key in keys], dtype=float)
    scored = np.isfinite(shift)
    up, down = ~was & now, was & ~now
    return {
        "n": len(keys),
        "skipped": len(old.keys() | new.keys()) - len(keys),
        "unscored": int((~scored).sum()),
        "shift": _mean_shift(shift[scored], conversation[scored], resamples, seed),
        "flips": _share(up if probe == FLUENT_WRONG else up | (down & scored), conversation),
        "to_usable": _share(up, conversation),
        "to_unusable": _share(down, conversation),
    }


def _verdicts(judgments: Iterable[Judgment]) -> dict[AnswerKey, _Verdict]:
    rounds: dict[AnswerKey, list[Judgment]] = {}
    for judgment in judgments:
        rounds.setdefault(judgment.answer_key, []).append(judgment)
    return {key: _verdict(ones) for key, ones in rounds.items()}


def _verdict(rounds: Sequence[Judgment]) -> _Verdict:
    levels = [one.score for one in rounds if one.score is not None]
    if not levels:
        return _Verdict(False, None)
    expected = [one.score if one.expected is None else one.expected for one in rounds if one.score is not None]
    return _Verdict(consensus(levels) >= USABLE_FROM, sum(expected) / len(expected))


def _difference(old: _Verdict, new: _Verdict) -> float:
    return float("nan") if old.expected is None or new.expected is None else new.expected - old.expected


def _mean_shift(shift: np.ndarray, conversation: np.ndarray, resamples: int, seed: int) -> dict[str, float | None]:
    """The mean with its percentile interval; whole conversations are drawn (Davison and Hinkley, 1997, section 3.8)."""
    names, member = np.unique(conversation, return_inverse=True)
    if len(names) == 0:
        return _estimate(None)
    value = float(shift.mean())
    if len(names) == 1:  # one conversation says nothing about others
        return _estimate(value)
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples)
    means = (drawn @ np.bincount(member, weights=shift)) / (drawn @ np.bincount(member))
    low, high = np.quantile(means, [0.025, 0.975])
    return _estimate(value, float(low), float(high))


def _share(happened: np.ndarray, conversation: np.ndarray) -> dict[str, float | None]:
    """A share with Wilson's interval (1927), n divided by the design effect of the conversations (Kish, 1965).

    The design effect is measured with two conversations added, one in which everything flipped and one in which nothing
    did. Without them no flip at all would pass for proof that answers flip independently; with them, 0 of 40 answers
    from 8 conversations are worth 8 answers.
    """
    n = len(happened)
    if n == 0:
        return _estimate(None)
    _, member = np.unique(conversation, return_inverse=True)
    size = np.bincount(member).astype(float)
    flipped = np.bincount(member, weights=happened)
    typical = float((size**2).sum() / n)
    size, flipped = np.append(size, [typical, typical]), np.append(flipped, [typical, 0.0])
    middle = flipped.sum() / size.sum()
    effect = max(1.0, float(((flipped - middle * size) ** 2).sum() / (size.sum() * middle * (1 - middle))))
    share, effective, z = float(happened.mean()), n / effect, float(norm.ppf(0.975))
    centre = (share + z**2 / (2 * effective)) / (1 + z**2 / effective)
    half = z / (1 + z**2 / effective) * np.sqrt(share * (1 - share) / effective + z**2 / (4 * effective**2))
    return _estimate(share, max(0.0, float(centre - half)), min(1.0, float(centre + half)))


def _estimate(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, float | None]:
    rounded = [None if number is None else round(number, 6) for number in (value, low, high)]
    return dict(zip(("value", "low", "high"), rounded, strict=True))
