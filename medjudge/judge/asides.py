"""Sentences of an answer that are not about the matter: addressed to the reader or the judge, or repeated.

Greetings, filler, claims of authority, orders to the judge and quoted marks do not tell whether an answer is right, and
a judge that reads them can be moved by them. What is left is read anew, because the states of its tokens depend on what
stands beside them. The alarm reads the whole answer: a sentence that denies it may look like an aside.
"""

from collections.abc import Mapping, Sequence

from medjudge.judge.sentence_reader import Sentence, SentenceLogits

_SHORTEST_REPEAT = 12
"""In characters: a shorter sentence may well be said twice."""
SURE = 0.0
"""The logit from which a sentence is left out; one in 250 sentences of real answers reaches it, and about half
of those are asides."""
_BRACKETS = " \t\"'`{}[]()<>（）【】《》「」“”‘’"


def without_asides(text: str, sentences: Sequence[Sentence], logits: Mapping[str, SentenceLogits]) -> str | None:
    """An answer without asides, repeated sentences and lone brackets; None where it has none, or nothing else.

    Args:
        text: The answer.
        sentences: All of it.
        logits: Of its sentences; one that is not among them is no aside.
    """
    # What stands between two sentences goes with the first. The encoders do not see line breaks.
    ends = [*(sentence.span.start for sentence in sentences[1:]), len(text)]
    kept, said = [], set()
    for sentence, end in zip(sentences, ends, strict=True):
        words = sentence.text
        aside = not words.strip(_BRACKETS) or (words in logits and logits[words].aside >= SURE)
        if not aside and words not in said:
            kept.append(text[sentence.span.start : end])
        if len(words) >= _SHORTEST_REPEAT:
            said.add(words)
    return "".join(kept).strip() if 0 < len(kept) < len(sentences) else None
