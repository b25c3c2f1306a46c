"""Examples with their states and evidence: what the reader is trained on."""

from collections.abc import Sequence

from built_in_examples import Example
from built_in_states import StateStore

from medjudge.judge.evidence import Part, evidence_of
from medjudge.judge.points import Span, checklist_points, reference_points
from medjudge.judge.reader import Reading
from medjudge.train.reader import Lesson


def lessons_of(examples: Sequence[Example], store: StateStore) -> list[Lesson | None]:
    """The examples as lessons; None where the answer or all it is compared with has no token."""
    return [_lesson(example, store) for example in examples]


def _lesson(example: Example, store: StateStore) -> Lesson | None:
    answer = store[example.answer]
    parts = [store[text] if text else None for text in (example.prompt, example.reference, example.checklist)]
    spans = [
        [Span(0, len(example.prompt))],
        [Span(0, len(example.reference))] if example.label is None else _points(example),
        checklist_points(example.checklist) if example.checklist else [],
    ]
    evidence = [
        piece
        for kind, (part, points) in enumerate(zip(parts, spans, strict=True))
        if part is not None
        for piece in evidence_of(Part(kind, part, points), answer)
    ]
    if not evidence:
        return None
    return Lesson(Reading((parts[0], parts[1], parts[2]), answer, evidence), example.label, example.verdict, example.weight)


def _points(example: Example) -> list[Span]:
    return reference_points(example.reference, example.language) if example.reference else []
