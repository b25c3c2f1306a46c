"""Sentences of an answer that are not about the matter: addressed to the reader or the judge, or repeated.

Greetings, filler, claims of authority, orders to the judge and quoted marks do not tell whether an answer is right, and
a judge that reads them can be moved by them. What is left is read anew, because the states of its tokens depend on what
stands beside them. The alarm reads the whole answer: a sentence that denies it may look like an aside.
"""

from collections.abc import Mapping, Sequence

from medjudge.judge.sentences import Sentence, Signs, words_of

_SHORTEST_REPEAT = 12
"""In characters: a shorter sentence may well be said twice."""
SURE = 0.0
"""The logit from which a sentence is left out. `eval/reader_asides.py` measures how many about the matter reach it."""


def without_asides(text: str, sentences: Sequence[Sentence], signs: Mapping[str, Signs]) -> str | None:
    """An answer without asides and repeated sentences; None where it has none, or nothing else.

    Args:
        text: The answer.
        sentences: Of it.
        signs: Of its sentences; one that is not among them is no aside.
    """
    if len(sentences) < 2:
        return None
    # What stands between two sentences goes with the first, so that an answer is again what it was without its asides.
    ends = [*(sentence.span.start for sentence in sentences[1:]), sentences[-1].span.end]
    kept, said = [], set()
    for sentence, end in zip(sentences, ends, strict=True):
        words = words_of(text, sentence)
        # A bracket or a row of signs alone says nothing.
        aside = not any(map(str.isalnum, words)) or (words in signs and signs[words].aside >= SURE)
        if not aside and words not in said:
            kept.append(text[sentence.span.start : end])
        if len(words) >= _SHORTEST_REPEAT:
            said.add(words)
    not_read = text[ends[-1] :]
    return "".join([*kept, not_read]).strip() if 0 < len(kept) < len(sentences) else None
