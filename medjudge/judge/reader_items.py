"""The reader judge of items: each item is a point that the answer is compared with."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from medjudge.item_records import ItemJudgment
from medjudge.judge.comparison import Reading
from medjudge.judge.evidence import KINDS, Evidence, Part, evidence_of
from medjudge.judge.items import ItemAssignment, judged_items, split_empty_answers, unjudged_items
from medjudge.judge.language import other_language
from medjudge.judge.points import Span
from medjudge.judge.reader_judge import ReaderJudge, runs
from medjudge.judge.states import TextStates
from medjudge.judge.sure_verdicts import sure_verdicts, with_sure
from medjudge.records import ErrorKind
from medjudge.rubrics.item_prompt import one_line

_QUESTION, _CHECKLIST = KINDS.index("question"), KINDS.index("checklist")


class ReaderItemJudge:
    """Checks answers against items by a reader's verdicts on points: an item is met, open or contradicted.

    The items of a question are read as one checklist, a line each. Of an item that is read in pieces, the piece counts
    that is met least.

    Args:
        judge: The judge, in memory.
    """

    def __init__(self, judge: ReaderJudge) -> None:
        self.name = judge.name
        self.judge = judge

    def judge_items(self, assignments: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        not_empty, empty = split_empty_answers(assignments, self.name)
        yield from empty
        languages = self.judge.languages
        work: list[ItemAssignment] = []
        for item in not_empty:
            reason = None if languages is None else other_language(item.question, item.answer.text, languages)
            if reason is None:
                work.append(item)
            else:
                yield unjudged_items(item, self.name, ErrorKind.LANGUAGE, reason)
        work.sort(key=lambda item: item.question.id)
        known: dict[str, TextStates] = {}
        for start in range(0, len(work), self.judge.chunk):
            chunk = work[start : start + self.judge.chunk]
            known = self.judge.read_texts([text for item in chunk for text in _texts(item)], known)
            yield from self._judged(chunk, known)

    def _judged(self, chunk: Sequence[ItemAssignment], known: Mapping[str, TextStates]) -> Iterator[ItemJudgment]:
        readings = [_reading(item, known) for item in chunk]
        for start, end in runs([len(reading.evidence) for reading in readings]):
            part = readings[start:end]
            verdicts = torch.softmax(self.judge.read_batch(part).verdicts.float(), dim=-1).cpu().numpy()
            sure = [sure_verdicts(_parts(item), each) for item, each in zip(chunk[start:end], part, strict=True)]
            verdicts = with_sure(verdicts, np.concatenate(sure))[:, 0].tolist()
            at = 0
            for assignment, reading in zip(chunk[start:end], part, strict=True):
                shares = verdicts[at : at + len(reading.evidence)]
                at += len(reading.evidence)
                met: dict[int, float] = {}
                for piece, share in zip(reading.evidence, shares, strict=True):
                    if piece.kind == _CHECKLIST:
                        met[piece.number] = min(share, met.get(piece.number, 1.0))
                places = range(len(assignment.items))
                items = reading.parts[_CHECKLIST]
                if items is not None and items.left_out:
                    reason = f"{items.left_out} tokens of the items do not fit the judge's window"
                    yield unjudged_items(assignment, self.name, ErrorKind.WINDOW, reason)
                elif any(place not in met for place in places):
                    reason = "the answer, or one of the items, has no token that the judge reads"
                    yield unjudged_items(assignment, self.name, ErrorKind.EMPTY_ANSWER, reason)
                else:
                    cut = reading.answer.left_out
                    yield judged_items(assignment, self.name, (met[place] for place in places), answer_tokens_cut=cut)


def _texts(assignment: ItemAssignment) -> tuple[str, str, str]:
    """The question with its earlier turns, the items, and the answer."""
    prompt = "\n".join([*assignment.earlier, assignment.question.prompt])
    return prompt, "\n".join(one_line(item.text) for item in assignment.items), assignment.answer.text


def _parts(assignment: ItemAssignment) -> tuple[str, str, str, str]:
    """Question, reference, checklist and answer; the items stand for the checklist."""
    question, items, answer = _texts(assignment)
    return question, "", items, answer


def _reading(assignment: ItemAssignment, known: Mapping[str, TextStates]) -> Reading:
    question, items, answer = (known[text] for text in _texts(assignment))
    spans, start = [], 0
    for item in assignment.items:
        end = start + len(one_line(item.text))
        spans.append(Span(start, end))
        start = end + 1
    evidence: list[Evidence] = evidence_of(Part(_QUESTION, question, [Span(0, len(_texts(assignment)[0]))]), answer)
    evidence += evidence_of(Part(_CHECKLIST, items, spans), answer)
    return Reading((question, None, items), answer, evidence)
