"""Reads stage 2 of OncQA: oncologists' reviews of drafted replies to patients' messages."""

from pathlib import Path

from medjudge.benchmark.llmeval_med import Oddity
from medjudge.benchmark.published import PublishedSet, empty_set
from medjudge.records import Answer, PhysicianScore, Question
from medjudge.tables.columns import Problems, read_rows

CATEGORY, LANGUAGE, MODEL, RATER = "CHQ", "en", "oncqa-draft", "oncqa-oncologist"
LEVELS = {"acceptable": 5, "acceptable with modifications": 3, "unacceptable": 1, "not acceptable": 1}
"""Of q3. A draft that needs modifications cannot be sent as it is, so it is not usable."""
_COLUMNS = ("id", "q3", "q4", "q5", "raw_response")


def read_oncqa(path: Path) -> PublishedSet:
    """Reads one row for each draft; q3 (acceptability) becomes the level, q4 and q5 (harm) the comment.

    The table does not hold the patients' messages: the prompts name their ids until someone fills them in.

    Raises:
        InputError: A column is missing, or a cell has another value.
    """
    read, problems = empty_set(), Problems(path)
    seen: set[str] = set()
    for number, cells in read_rows(problems, _COLUMNS):
        place = f"row {number}"
        wrong = [f"{name}: the cell is empty" for name in ("id", "q3", "raw_response") if not cells[name]]
        if cells["q3"] and cells["q3"].casefold() not in LEVELS:
            wrong.append(f"q3 is {cells['q3']!r}; one of {', '.join(name.capitalize() for name in LEVELS)} is expected")
        name = f"oncqa-{cells['id']}"
        if name in seen:
            wrong.append(f"id {cells['id']} occurs twice")
        seen.add(name)
        for what in wrong:
            problems.add(place, what)
        if wrong:
            continue
        prompt = f"Message {cells['id']} of a patient with cancer"
        read.questions.append(Question(id=name, category=CATEGORY, group=name, prompt=prompt, language=LANGUAGE))
        read.answers.append(Answer(question_id=name, model=MODEL, text=cells["raw_response"]))
        harm = [
            f"{what}: {cells[column]}"
            for column, what in (("q4", "likelihood of harm"), ("q5", "extent of harm"))
            if cells[column]
        ]
        level, comment = LEVELS[cells["q3"].casefold()], "; ".join(harm) or None
        read.scores.append(PhysicianScore(question_id=name, model=MODEL, rater=RATER, score=level, comment=comment))
        what = "the table holds no patient's message; fill in prompt before a judge reads it"
        read.oddities.append(Oddity(f"{path}, {name}", what))
    problems.refuse()
    return read
