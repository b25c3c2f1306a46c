"""The training lines of the built-in judge, and what its ablations leave out."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from medjudge.benchmark.expert_sets import SCHEME
from medjudge.distill.graded import graded_answers
from medjudge.distill.matching import Pair, message
from medjudge.files import write_whole
from medjudge.records import Answer, Question, TrainingLine
from medjudge.scheme import open_scheme
from medjudge.store import Run, write_scheme

SCALE = (1, 2, 4, 5)
"""The levels that MEDIQA's and LiveQA's four scores become."""
REFERENCE_AS_ANSWER = "liveqa-reference"
_SOFT = 0.2
"""The share of a soft label that goes to the neighbouring levels of the scale: experts differ by one now and then."""
_LIVEQA_WEIGHT = 0.5
"""Of LiveQA's answers, which other assessors scored, against MEDIQA's."""
_SYNTHETIC_WEIGHT = 0.3


class Ablation(NamedTuple):
    """What a training set is made of."""

    references: bool = True
    liveqa: bool = True
    synthetic: int = 200
    soft: bool = True
    messages: bool = False


class Sets(NamedTuple):
    """What the built-in judge is trained and measured on."""

    scored: list[TrainingLine]
    liveqa: list[TrainingLine]
    validation: list[TrainingLine]


def read_sets(work: Path) -> Sets:
    """Reads the converted sets; a question of the validation file is left out of the others (one is in both)."""
    scored, liveqa = scored_lines(work / "mediqa"), liveqa_lines(work / "liveqa")
    validation = scored_lines(work / "mediqa-validation")
    measured = {_words(line.question.prompt) for line in validation}
    left_out = {line.question.group for line in (*scored, *liveqa) if _words(line.question.prompt) in measured}
    mediqa, other = ([line for line in lines if line.question.group not in left_out] for lines in (scored, liveqa))
    return Sets(mediqa, other, validation)


def scored_lines(folder: Path) -> list[TrainingLine]:
    """The scored answers of a folder of records as training lines, one-hot, weight 1."""
    run = Run(folder)
    by_id = {question.id: question for question in run.questions()}
    levels = {score.answer_key: (score.level, score.rater) for score in run.physician_scores()}
    return [
        _line(by_id[answer.question_id], answer, *levels[answer.key], 1.0)
        for answer in run.answers()
        if answer.key in levels
    ]


def liveqa_lines(folder: Path) -> list[TrainingLine]:
    """LiveQA's answers with their references, and its references as answers.

    They belong to the same questions as MEDIQA's `liveqamed` ones, by number, and take those ids: the same question
    is never on two sides of a split.
    """
    lines = []
    for line in scored_lines(folder):
        question = _as_mediqa(line.question)
        answer = line.answer.model_copy(update={"question_id": question.id, "model": f"liveqa-{line.answer.model}"})
        lines.append(_line(question, answer, line.level, line.scored_by[0], _LIVEQA_WEIGHT))
    for question in Run(folder).questions():
        same = _as_mediqa(question)
        answer = Answer(question_id=same.id, model=REFERENCE_AS_ANSWER, text=question.reference or "")
        bare = same.model_copy(update={"reference": None})
        lines.append(_line(bare, answer, 5, REFERENCE_AS_ANSWER, _LIVEQA_WEIGHT))
    return lines


def from_systems(liveqa: Sequence[TrainingLine], fold_of: dict[str, int], fold: int) -> list[TrainingLine]:
    """LiveQA's answers by systems, of a fold's questions, each with its question's reference if there is one."""
    return [
        line for line in liveqa if fold_of[line.question.group] == fold and line.answer.model != REFERENCE_AS_ANSWER
    ]


def without_references(lines: Sequence[TrainingLine]) -> list[TrainingLine]:
    """The same lines, their questions bare."""
    return [
        line.model_copy(update={"question": line.question.model_copy(update={"reference": None})}) for line in lines
    ]


def _as_mediqa(question: Question) -> Question:
    name = question.id.replace("liveqa-", "mediqa-liveqamed-")
    return question.model_copy(update={"id": name, "group": name})


def training_lines(
    scored: Sequence[TrainingLine], liveqa: Sequence[TrainingLine], what: Ablation, seed: int
) -> list[TrainingLine]:
    """The training set of one run, from the questions that it may see.

    Args:
        scored: MEDIQA's lines of those questions.
        liveqa: LiveQA's lines of those questions.
        what: What of it all to take.
        seed: Of the synthetic answers.
    """
    lines = [*(as_messages(scored, seed) if what.messages else scored), *(liveqa if what.liveqa else [])]
    if what.synthetic:
        questions = {line.question.id: line.question for line in liveqa if line.question.reference}
        for graded in graded_answers(list(questions.values()), what.synthetic, seed, open_scheme(SCHEME)):
            line = _line(graded.question, graded.answer, graded.level, f"synthetic: {graded.how}", _SYNTHETIC_WEIGHT)
            lines.append(line.model_copy(update={"source": "synthetic", "made_from": graded.made_from}))
    if not what.references:
        lines = without_references(lines)
    return [softened(line) for line in lines] if what.soft else lines


def as_messages(lines: Sequence[TrainingLine], seed: int) -> list[TrainingLine]:
    """The same lines, half of the Alexa questions inside a message, as the intermediate stage has them.

    Those are short, and LiveQA's are messages with fewer usable answers: a judge could take length for a bad sign.
    """
    generator = np.random.default_rng(seed)
    alexa = {line.question.id: line.question for line in lines if "-alexa-" in line.question.id}
    longer = {
        name: question.model_copy(update={"prompt": message(Pair(name, question.prompt, "", "", ""), generator)})
        for name, question in alexa.items()
        if generator.random() < 0.5
    }
    return [line.model_copy(update={"question": longer.get(line.question.id, line.question)}) for line in lines]


def softened(line: TrainingLine) -> TrainingLine:
    """The same line with a share of its label on the neighbouring levels of the scale."""
    if line.level not in SCALE:
        return line
    index = SCALE.index(line.level)
    near = [SCALE[neighbour] for neighbour in (index - 1, index + 1) if 0 <= neighbour < len(SCALE)]
    label = np.eye(5)[line.level - 1] * (1 - _SOFT)
    label[np.array(near) - 1] += _SOFT / len(near)
    return line.model_copy(update={"probabilities": [round(float(value), 6) for value in label]})


def folds(lines: Sequence[TrainingLine], count: int, seed: int) -> dict[str, int]:
    """The fold of each question, by conversation: the same share of each set in each."""
    generator = np.random.default_rng(seed)
    fold_of: dict[str, int] = {}
    groups = sorted({line.question.group for line in lines})
    for name in sorted({group.rsplit("-", 1)[0] for group in groups}):
        members = [group for group in groups if group.rsplit("-", 1)[0] == name]
        fold_of |= {members[index]: number % count for number, index in enumerate(generator.permutation(len(members)))}
    return fold_of


def unseen(lines: Sequence[TrainingLine], trained: Sequence[TrainingLine]) -> list[TrainingLine]:
    """The lines whose question and whose answer occur in none of the trained ones, word for word.

    MEDIQA's questions share retrieved answers, a third of them across any split by question, mostly with the same
    score.
    """
    prompts = {_words(line.question.prompt) for line in trained}
    answers = {_words(line.answer.text) for line in trained}
    return [
        line
        for line in lines
        if _words(line.question.prompt) not in prompts and _words(line.answer.text) not in answers
    ]


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def write_lines(path: Path, lines: Iterable[TrainingLine]) -> None:
    """Writes training lines as `medjudge distill` does."""
    write_scheme(path.parent, open_scheme(SCHEME))
    write_whole(path, "".join(line.model_dump_json() + "\n" for line in lines))


def _line(question: Question, answer: Answer, level: int, rater: str, weight: float) -> TrainingLine:
    return TrainingLine(
        question=question,
        earlier=[],
        answer=answer,
        level=level,
        probabilities=[float(level == each) for each in range(1, 6)],
        source="physician",
        scored_by=[rater],
        weight=weight,
    )
