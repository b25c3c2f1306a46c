"""A judge in memory, for single answers: what a notebook or another program uses."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypedDict, overload

from typing_extensions import Unpack

from medjudge.chat_api.client import Server
from medjudge.errors import InputError
from medjudge.judge.language import language_of
from medjudge.judge.open import ApiRef, JudgeOptions, JudgeRef, check_servers, resolve_judge
from medjudge.judge.protocol import Assignment, Judge
from medjudge.records import Answer, ErrorKind, Judgment, PointVerdict, Question
from medjudge.scale import USABLE_FROM
from medjudge.scheme import LLMEVAL_MED, Scheme, open_scheme


@dataclass(frozen=True)
class Score:
    """A judge's score of one answer; the fields of a `Judgment` without its key.

    Attributes:
        judge: The judge's name.
        score: 1 to 5, or None where the judge could not score; then `error_kind` and `error` say why.
        expected: The mean of the probabilities, 1 to 5.
        probabilities: Of the five levels, level 1 first; None of a judge that gives none.
        rationale: Why, where the judge says so.
        error_kind: Why there is no score.
        error: The same for people.
        points: What the judge says of each point of reference and checklist; None of a judge that reads none.
    """

    judge: str
    score: int | None
    expected: float | None = None
    probabilities: list[float] | None = None
    rationale: str | None = None
    error_kind: ErrorKind | None = None
    error: str | None = None
    points: list[PointVerdict] | None = None

    @classmethod
    def from_judgment(cls, judgment: Judgment) -> "Score":
        """The score in a judgment."""
        return cls(**{field.name: getattr(judgment, field.name) for field in fields(cls)})

    @property
    def usable(self) -> bool | None:
        """True if the answer is usable, which is level 4 or 5; None where there is no score."""
        return None if self.score is None else self.score >= USABLE_FROM

    @property
    def usable_probability(self) -> float | None:
        """The probability that the answer is usable; None of a judge that gives no probabilities."""
        return None if self.probabilities is None else sum(self.probabilities[USABLE_FROM - 1 :])

    def __repr__(self) -> str:
        if self.score is None:
            return f"unscored by {self.judge}: {self.error}"
        expected = "" if self.expected is None else f", expected {self.expected:.2f}"
        return f"{self.score} of 5 by {self.judge} ({'usable' if self.usable else 'not usable'}{expected})"


class About(TypedDict, total=False):
    """The parts of a question, see `LoadedJudge.score`."""

    reference: str | None
    checklist: str | None
    category: str | None
    language: str | None


class LoadedJudge:
    """A judge in memory, ready to score answers. `load_judge` makes one.

    Attributes:
        name: The judge's name.
        judge_ref: Where it comes from, with its card.
    """

    def __init__(self, judge: Judge, judge_ref: JudgeRef, scheme: Scheme) -> None:
        self.name = judge.name
        self.judge_ref = judge_ref
        self._judge = judge
        self._scheme = scheme

    @overload
    def score(self, question: str, answer: str, **about: Unpack[About]) -> Score: ...

    @overload
    def score(self, question: str, answer: list[str], **about: Unpack[About]) -> list[Score]: ...

    def score(self, question: str, answer: str | list[str], **about: Unpack[About]) -> Score | list[Score]:
        """Scores one answer to a question, or several.

        Args:
            question: The question.
            answer: The answer, or a list of answers.
            about: Keywords for what else is known of the question, as follows.
            reference: A correct answer to compare with; a similarity judge needs one.
            checklist: What a good answer must hold.
            category: The category of the scheme whose rubric applies; its first one unless given.
            language: The question's language; recognized by its script unless given.

        Returns:
            A score, or a list of scores in the order of the answers.

        Raises:
            InputError: The question is empty, or the scheme has no such category or language.
        """
        if not question.strip():
            raise InputError("question: is empty")
        category = about.get("category") or self._scheme.category_ids[0]
        language = about.get("language") or language_of(question, self._scheme.languages)
        if problem := self._scheme.problem_with(category, language):
            raise InputError(problem)
        record = Question(
            id="question",
            category=category,
            group="question",
            prompt=question,
            reference=about.get("reference"),
            checklist=about.get("checklist"),
            language=language,
        )
        texts = [answer] if isinstance(answer, str) else answer
        work = [
            Assignment(
                record,
                (),
                # An empty answer is a finding about a model, which an answer record has to explain.
                Answer(question_id=record.id, model="answer", sample=position, text=text, finish_reason="stop"),
                scheme=self._scheme,
            )
            for position, text in enumerate(texts)
        ]
        # Judges yield their judgments in any order.
        judgments = {judgment.sample: judgment for judgment in self._judge.judge(work)}
        scores = [Score.from_judgment(judgments[position]) for position in range(len(texts))]
        return scores[0] if isinstance(answer, str) else scores

    def __repr__(self) -> str:
        ref = self.judge_ref
        kind = f"openai:{ref.model}" if isinstance(ref, ApiRef) else f"{ref.kind}, {ref.card.base_model}"
        return f"judge {self.name} ({kind})"


def load_judge(
    judge: Path | str = "local",
    *,
    device: str = "auto",
    rationale_tokens: int = 0,
    scheme: Scheme | str | None = None,
    server: Server = Server(),
    offline: bool = False,
) -> LoadedJudge:
    """Loads a judge into memory.

    Args:
        judge: `local`, `built-in`, `similarity`, a judge folder, or `openai:MODEL`.
        device: `auto`, `cpu` or `cuda`.
        rationale_tokens: Tokens of rationale from a generative judge; 0 for none.
        scheme: What the questions belong to, whose rubrics the judge reads; LLMEval-Med's unless given.
        server: Where an `openai:` judge is, and how patiently it is asked.
        offline: Refuses an `openai:` judge of a server that is not this machine.

    Raises:
        InputError: There is no such judge, its files cannot be loaded, or its server's key is missing.
    """
    judge_ref = resolve_judge(str(judge))
    known = open_scheme(scheme) if isinstance(scheme, str) else scheme or LLMEVAL_MED
    options = JudgeOptions(device, rationale_tokens=rationale_tokens, server=server)
    check_servers(judge_ref, options, offline)
    return LoadedJudge(judge_ref.load(options, known), judge_ref, known)
