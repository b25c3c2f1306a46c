"""The ordinal judge of items: each item is a point that the answer is compared with."""

from collections.abc import Iterator, Sequence

from medjudge.item_records import ItemJudgment
from medjudge.judge.items import ItemAssignment, judged_items, split_empty_answers, unjudged_items
from medjudge.judge.ordinal import NO_TOKEN, OrdinalJudge, point_verdicts
from medjudge.judge.ordinal_input import Point
from medjudge.records import ErrorKind
from medjudge.rubrics.item_prompt import one_line


class OrdinalItemJudge:
    """Checks answers against items by an ordinal judge's verdicts on points. The items are read as the checklist.

    Args:
        judge: The judge, in memory.
    """

    def __init__(self, judge: OrdinalJudge) -> None:
        self.name = judge.name
        self.judge = judge

    def judge_items(self, assignments: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        not_empty, empty = split_empty_answers(assignments, self.name)
        yield from empty
        work: list[ItemAssignment] = []
        for item in not_empty:
            reason = self.judge.foreign(item.question, item.answer)
            if reason is None:
                work.append(item)
            else:
                yield unjudged_items(item, self.name, ErrorKind.LANGUAGE, reason)
        for start in range(0, len(work), self.judge.chunk):
            yield from self._judged(work[start : start + self.judge.chunk])

    def _judged(self, chunk: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        points = [[Point(one_line(item.text), "checklist") for item in each.items] for each in chunk]
        rows = [
            self.judge.encoded("\n".join([*each.earlier, each.question.prompt]), of_answer, each.answer.text)
            for each, of_answer in zip(chunk, points, strict=True)
        ]
        logits = self.judge.read(rows, [len(of_answer) for of_answer in points]).verdicts
        first = 0
        for assignment, row, of_answer in zip(chunk, rows, points, strict=True):
            verdicts = point_verdicts(of_answer, row, logits[first : first + len(of_answer)])
            first += len(of_answer)
            if not row.windows:
                yield unjudged_items(assignment, self.name, ErrorKind.EMPTY_ANSWER, NO_TOKEN)
            elif row.context_tokens_cut:
                reason = f"{row.context_tokens_cut} tokens of question and items do not fit the judge's window"
                yield unjudged_items(assignment, self.name, ErrorKind.WINDOW, reason)
            else:
                met = [verdict.met for verdict in verdicts]
                yield judged_items(assignment, self.name, met, answer_tokens_cut=row.answer_tokens_cut)
