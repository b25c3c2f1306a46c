"""The `reader` judge: a frozen encoder reads each text, and a reader compares the answer with every point."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import expit, logit

from medjudge.judge.alarms import LANGUAGES, Alarm, Alarms
from medjudge.judge.alarms import SURE as SURE_ALARM
from medjudge.judge.asides import without_asides
from medjudge.judge.comparison import CHECKLIST_THERE, ECHOED, REFERENCE_THERE, Reading, echo_number
from medjudge.judge.evidence import KINDS, Evidence, Part, evidence_of
from medjudge.judge.language import language_of, other_language
from medjudge.judge.level_head import LevelHead, row_of
from medjudge.judge.ordinal import probabilities
from medjudge.judge.point_reader import PointReader
from medjudge.judge.points import Span, checklist_points, reference_points
from medjudge.judge.protocol import Assignment, Judge, scored, split_empty, unscored
from medjudge.judge.reader import Reader, ReaderOutput, collate
from medjudge.judge.sentence_reader import Sentence, SentenceLogits, SentenceReader, sentences_of
from medjudge.judge.states import FrozenEncoder, TextStates
from medjudge.judge.sure_verdicts import CONTRADICTED, SURE, sure_verdicts, with_sure
from medjudge.languages.texts import PACKAGED, Texts
from medjudge.models.hardware import fast_autocast
from medjudge.records import Answer, ErrorKind, Judgment, PointVerdict
from medjudge.scale import USABLE_FROM
from medjudge.text.answer_keys import Stated, in_words, stated

_PIECES = 256
"""The most pieces of points in one pass of the reader."""
_ALARM_SHARPNESS = 4.0
"""How abruptly an alarm counts from `alarms.SURE` on."""
_LOWER_LEVELS_KEPT = 0.45
"""What a sure alarm leaves at least of the chances of more than levels 1 and 2; below a half, so that the level
is 1. The expected level keeps some order: half of the few alarms in MEDIQA's answers are false, and would put a good
answer behind every bad one."""
_REPEATS = 0.75
"""The share of an answer's tokens from which it only repeats the question: no answer that experts scored has more than
0.57. With a reference nothing follows from it: some right answers are one of the words that the question offers."""
_LEAST = 1e-6
_SURE_OF_KEY: dict[Stated, float] = {"right": SURE, "wrong": SURE, "term": 0.8}
"""What an answer's statement of a key makes of its level; terms may be named beside wrong ones."""


class _Texts(NamedTuple):
    """The texts of one assignment; empty where there is none.

    A reference that is the key of a multiple choice is the options in words; one that only notes that there is none is
    empty.
    """

    question: str
    reference: str
    checklist: str
    answer: str


class Advisers(NamedTuple):
    """What a reader judge may have beside its reader.

    Attributes:
        second: A judge whose opinion the head weighs too.
        sentences: Detects dangerous advice and asides in single sentences; without it, the reader's alarm alone
            detects danger, and of the asides only repeated sentences and brackets are left out.
        points: Gives the verdicts on points in the reader's place.
    """

    second: Judge | None = None
    sentences: SentenceReader | None = None
    points: PointReader | None = None


class ReaderJudge:
    """Scores answers in English and Chinese from question, reference and checklist.

    Args:
        name: The judge's name.
        encoder: Reads texts.
        reader: Compares them; on the encoder's device, in evaluation mode.
        head: Makes levels of what the reader says.
        advisers: What it has beside the reader.
        temperature: Divides the logits of levels.
        languages: Answers in other languages get no score; None for no restriction.
    """

    chunk = 32
    """How many answers are read at a time."""

    def __init__(
        self,
        name: str,
        encoder: FrozenEncoder,
        reader: Reader,
        head: LevelHead,
        advisers: Advisers = Advisers(),
        temperature: float = 1.0,
        languages: Sequence[str] | None = None,
    ) -> None:
        self.name = name
        self.encoder = encoder
        self.reader = reader
        self.head = head
        self.second = advisers.second
        self.points = advisers.points
        self.sentences = advisers.sentences
        self.alarms = Alarms(reader)
        self.temperature = temperature
        self.languages = languages

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        not_empty, empty = split_empty(assignments, self.name)
        yield from empty
        work: list[Assignment] = []
        for assignment in not_empty:
            if self.languages is None:
                reason = None
            else:
                reason = other_language(assignment.question, assignment.answer.text, self.languages)
            if reason is None:
                work.append(assignment)
            else:
                yield unscored(assignment, self.name, ErrorKind.LANGUAGE, reason)
        work.sort(key=lambda item: item.question.id)
        known: dict[str, TextStates] = {}
        for start in range(0, len(work), self.chunk):
            chunk = work[start : start + self.chunk]
            known = self.read_texts([text for item in chunk for text in _texts(item)], known)
            yield from self._judged(chunk, known)

    def read_texts(self, texts: Sequence[str], known: Mapping[str, TextStates]) -> dict[str, TextStates]:
        """The states of texts that are not empty; what is known is not read again, and nothing else is kept."""
        texts = list(dict.fromkeys(text for text in texts if text.strip()))
        new = [text for text in texts if text not in known]
        read = dict(zip(new, self.encoder.read(new), strict=True)) if new else {}
        return {text: known[text] if text in known else read[text] for text in texts}

    def _judged(self, chunk: Sequence[Assignment], known: Mapping[str, TextStates]) -> Iterator[Judgment]:
        whole = [reading_of(item, known) for item in chunk]
        sentences = [_sentences(*each) for each in zip(chunk, whole, strict=True)]
        logits = self._logits(sentences)
        cut = [_without_asides(item, own, logits) for item, own in zip(chunk, sentences, strict=True)]
        known = self.read_texts([text for item in cut for text in _texts(item)], known)
        readings = [
            reading if own is item else reading_of(own, known)
            for item, own, reading in zip(chunk, cut, whole, strict=True)
        ]
        # A short key may look like an aside.
        keys = [_stated(item) for item in chunk]
        sure = [
            sure_verdicts(_texts(item), reading, key) for item, reading, key in zip(cut, readings, keys, strict=True)
        ]
        for start, end in runs([len(reading.evidence) for reading in readings]):
            part = slice(start, end)
            output = self.read_batch(readings[part])
            # A sentence that denies the answer may look like an aside, and the alarm must hear it.
            references = [_texts(item).reference for item in chunk[part]]
            alarms = self.alarms.of(references, whole[part], sentences[part], logits)
            cumulative = level_logits(
                self.head,
                output.features.double().cpu().numpy(),
                self._second_opinions(cut[part]),
                np.array([alarm.logit for alarm in alarms]),
                np.array([(each == CONTRADICTED).any() for each in sure[part]]),
                keys[part],
            )
            rows = probabilities(torch.from_numpy(cumulative), self.temperature).numpy()
            verdicts = torch.softmax(output.verdicts.float(), dim=-1).cpu().numpy()
            verdicts = with_sure(verdicts, np.concatenate(sure[part]))
            ends = np.cumsum([len(reading.evidence) for reading in readings[part]])[:-1]
            of_answers = zip(chunk[part], readings[part], rows, np.split(verdicts, ends), alarms, strict=True)
            for assignment, reading, row, own, alarm in of_answers:
                yield self._judgment(assignment, reading, row, own, alarm)

    def _judgment(
        self, assignment: Assignment, reading: Reading, row: np.ndarray, verdicts: np.ndarray, alarm: Alarm
    ) -> Judgment:
        points = _point_verdicts(assignment, reading.evidence, verdicts)
        return scored(
            assignment,
            self.name,
            row,
            rationale=point_rationale(points, assignment.question.language, alarm.sentence),
            answer_tokens_cut=reading.answer.left_out,
            context_tokens_cut=sum(text.left_out for text in reading.parts if text is not None),
            points=points,
        )

    def _logits(self, sentences: Sequence[Sequence[Sentence]]) -> Mapping[str, SentenceLogits]:
        """What the sentences of some answers are by themselves; nothing without a reader of sentences."""
        if self.sentences is None:
            return {}
        return self.sentences.read(self.encoder.tokenizer, [each.text for own in sentences for each in own])

    def _second_opinions(self, assignments: Sequence[Assignment]) -> np.ndarray:
        """What the second judge says of answers, (n,); not a number where it says nothing."""
        if self.second is None:
            return np.full(len(assignments), np.nan)
        judgments = {_key(each): each for each in self.second.judge(assignments)}
        return np.array([second_opinion(judgments[_key(each.answer)].probabilities) for each in assignments])

    def read_batch(self, readings: Sequence[Reading]) -> ReaderOutput:
        """What the reader says of some answers, with the verdicts of the reader of points, if there is one."""
        device = self.reader.product.device
        with torch.inference_mode(), fast_autocast(device):
            batch = collate(readings).to(device)
            output = self.reader(batch)
            return output if self.points is None else output.with_verdicts(self.points(batch), batch)


def second_opinion(probabilities: Sequence[float] | None) -> float:
    """A judge's opinion in one number: the mean logit of level > 1, ..., > 4; not a number where it has none.

    Args:
        probabilities: Of the five levels, or None.
    """
    if probabilities is None:
        return float("nan")
    above = np.cumsum(probabilities[::-1])[::-1][1:]
    return float(logit(np.clip(above, 1e-4, 1 - 1e-4)).mean())


def level_logits(
    head: LevelHead,
    features: np.ndarray,
    opinions: np.ndarray,
    alarms: np.ndarray,
    contradicted: np.ndarray,
    keys: Sequence[Stated | None] = (),
) -> np.ndarray:
    """Logits of level > 1, > 2, > 3, > 4, shape (n, 4).

    A sure alarm gives level 1, whatever the head says: no nearness to a reference makes up for it. So does repeating a
    question that has neither reference nor checklist: nothing lies nearer to it than itself. A wrong fact leaves no
    usable level. Where the reference is the key of an objective question, the level is mostly whether the answer states
    it.

    Args:
        features: What the reader says, (n, `FEATURES`).
        opinions: Second opinions, (n,); not a number where there is none.
        alarms: Logits, (n,).
        contradicted: Whether an answer surely states a fact otherwise than a point, (n,).
        keys: How each answer states the key of its question, n of them; omitted where no reference is a key.
    """
    together = np.column_stack([features, np.nan_to_num(opinions)])
    cumulative = head.cumulative(together, row_of(has_points(features), ~np.isnan(opinions)))
    quiet = expit(-_ALARM_SHARPNESS * (alarms - SURE_ALARM))
    chances = expit(cumulative)
    for row, key in zip(chances, keys, strict=bool(keys)):
        if key is not None:
            sure = _SURE_OF_KEY[key]
            row *= 1 - sure
            row += 0.0 if key == "wrong" else sure
    chances[:, USABLE_FROM - 2 :] *= (quiet * np.where(contradicted, 1 - SURE, 1.0))[:, None]
    chances[:, : USABLE_FROM - 2] *= np.maximum(quiet, _LOWER_LEVELS_KEPT)[:, None]
    chances[~has_points(features) & (features[:, ECHOED] >= echo_number(_REPEATS))] = 0.0
    return logit(np.clip(chances, _LEAST, 1 - _LEAST))


def has_points(features: np.ndarray) -> np.ndarray:
    """Whether an answer was compared with a reference or a checklist, which its features say, (n,)."""
    return (features[:, REFERENCE_THERE] > 0) | (features[:, CHECKLIST_THERE] > 0)


def _key(record: Answer | Judgment) -> tuple[str, str, int]:
    return record.question_id, record.model, record.sample


def reading_of(assignment: Assignment, known: Mapping[str, TextStates]) -> Reading:
    """An assignment with the evidence for its points, from the states of its texts."""
    texts = _texts(assignment)
    answer = known[texts.answer]
    states = [known[text] if text.strip() else None for text in texts[:3]]
    evidence: list[Evidence] = []
    for kind, (part, spans) in enumerate(zip(states, spans_of(assignment), strict=True)):
        if part is not None:
            evidence += evidence_of(Part(kind, part, spans), answer)
    return Reading((states[0], states[1], states[2]), answer, evidence)


def spans_of(assignment: Assignment) -> tuple[list[Span], list[Span], list[Span]]:
    """The question as one stretch, and the points of reference and checklist."""
    texts = _texts(assignment)
    language = language_of(texts.reference, LANGUAGES)
    return (
        [Span(0, len(texts.question))],
        reference_points(texts.reference, language) if texts.reference.strip() else [],
        checklist_points(texts.checklist) if texts.checklist.strip() else [],
    )


def _sentences(assignment: Assignment, reading: Reading) -> list[Sentence]:
    """The sentences of an answer."""
    text = assignment.answer.text
    return sentences_of(text, reading.answer, language_of(text, LANGUAGES))


def _without_asides(
    assignment: Assignment, sentences: Sequence[Sentence], logits: Mapping[str, SentenceLogits]
) -> Assignment:
    """The assignment without the asides of its answer; the same where it has none."""
    left = without_asides(assignment.answer.text, sentences, logits)
    if left is None:
        return assignment
    return assignment._replace(answer=assignment.answer.model_copy(update={"text": left}))


def _texts(assignment: Assignment) -> _Texts:
    question = assignment.question
    prompt = _prompt(assignment)
    reference = in_words(prompt, question.reference or "")
    return _Texts(prompt, reference, question.checklist or "", assignment.answer.text)


def _prompt(assignment: Assignment) -> str:
    return "\n".join([*assignment.earlier, assignment.question.prompt])


def _stated(assignment: Assignment) -> Stated | None:
    """How the answer states the key that its question's reference is."""
    return stated(_prompt(assignment), assignment.question.reference or "", assignment.answer.text)


def _point_verdicts(assignment: Assignment, evidence: Sequence[Evidence], verdicts: np.ndarray) -> list[PointVerdict]:
    """The verdict on each point; of a point that was read in pieces, the one that is met least."""
    spans, texts = spans_of(assignment), _texts(assignment)
    least: dict[tuple[int, int], np.ndarray] = {}
    for piece, row in zip(evidence, verdicts, strict=True):
        key = (piece.kind, piece.number)
        if KINDS[piece.kind] != "question" and (key not in least or row[0] < least[key][0]):
            least[key] = row
    result = []
    for (kind, number), row in least.items():
        span = spans[kind][number]
        text = texts[kind][span.start : span.end].strip()
        met, not_met, contradicted = (round(float(value), 4) for value in row)
        result.append(
            PointVerdict(
                point=text,
                source="checklist" if KINDS[kind] == "checklist" else "reference",
                met=met,
                open=not_met,
                contradicted=contradicted,
            )
        )
    return result


def point_rationale(points: Sequence[PointVerdict], language: str, dangerous: str | None = None) -> str | None:
    """What an answer advises that is dangerous, and which points it misses or contradicts, a line each.

    Args:
        points: The verdicts.
        language: Of the question; its texts are those of English where it is neither English nor Chinese.
        dangerous: The sentence with the advice, where there is one.

    Returns:
        None where it was compared with no point and nothing dangerous was detected.
    """
    if not points and dangerous is None:
        return None
    texts = PACKAGED.load(language if language in LANGUAGES else "en", "point_verdicts.yaml", _PointTexts)
    lines = [] if dangerous is None else [f"- {texts.dangerous.format(sentence=dangerous)}"]
    for point in points:
        if point.verdict == "met":
            continue
        denied = point.verdict == "contradicted"
        line = texts.contradicted if denied else texts.missed
        probability = f"{point.contradicted if denied else point.open:.2f}"
        lines.append(f"- {line.format(probability=probability, point=point.point)}")
    return "\n".join(lines) or texts.all_met.format(count=len(points))


class _PointTexts(Texts):
    dangerous: str
    all_met: str
    missed: str
    contradicted: str


def runs(counts: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Neighbouring answers whose pieces go through the reader together."""
    start = total = 0
    for at, count in enumerate(counts):
        if at > start and total + count > _PIECES:
            yield start, at
            start, total = at, 0
        total += count
    if start < len(counts):
        yield start, len(counts)
