"""Reads LLMEval-2: 20 models' answers to Chinese questions of a dozen subjects, scored by people and by GPT-4.

Each subject is a pair of files with the same entries: one with people's scores, one with GPT-4's on the same scales.
Objective questions (type A) have `Correctness` 1-3 and `Explanation Correctness` 1-2; subjective ones (type B) have
`Accuracy` 1-5 and `Informativeness`, `Fluency` and `Logicality` 1-3. The first of each decides: full marks are usable.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.benchmark.published import PublishedSet, answer_of, most_frequent, question_of, read_entries
from medjudge.errors import InputError
from medjudge.files import read_json, read_text
from medjudge.records import Answer, AnswerKey, Question
from medjudge.scheme import Category, Scheme

RATER = "llmeval2-person"
"""The name of the people, whom the files do not tell apart."""
LANGUAGE = "zh"
SUBJECTS = {
    "Biological_Science": "生命科学",
    "Chemistry": "化学",
    "Chinese_Language_and_Literature": "汉语言文学",
    "Computer_Science": "计算机",
    "Economics": "经济学",
    "Foreign_Languages": "外国语",
    "Law": "法学",
    "Mathematics": "数学",
    "Optics": "光学",
    "Physics": "物理学",
    "Social_Science": "社会科学",
}
"""The subjects whose titles are known; another one goes by the name of its file."""
_RUBRIC = Path(__file__).parent / "llmeval-2" / "rubric.zh.md"
_SUFFIX = "_data"
_NONE = "a score of 0, which is none"
_NO_SCORE = f"the file has {_NONE}"
_HIGHEST = {
    "A": {"Correctness": 3, "Explanation Correctness": 2},
    "B": {"Accuracy": 5, "Informativeness": 3, "Fluency": 3, "Logicality": 3},
}
_SECONDARY = {"A": ("Explanation Correctness",), "B": ("Informativeness", "Logicality")}
"""Scores that separate level 5 from 4 and level 2 from 1, in addition to the one that decides."""
_FIELDS = ("question_uuid", "llm_name", "dialog", "hint", "type", "stars")


class _Entry(NamedTuple):
    """One answer of a file: its level, and the fields that are no text, with their types."""

    question: Question
    answer: Answer
    level: int | None
    retyped: list[str]


def read_llmeval2(people: Path, gpt4: Path) -> PublishedSet:
    """Read subjects of LLMEval-2.

    A question's category is its subject, as the file is named; its reference is the entry's `hint`. Its text differs
    from model to model now and then, mostly in spaces; the most frequent one is kept. A score of 0 is a
    missing one: the person's is left out, GPT-4's is a judgment without a score, and each is an oddity.

    Args:
        people: The file of one subject with people's scores, or a folder with the files of several.
        gpt4: The same with GPT-4's scores; the files of two folders have the same names.

    Raises:
        InputError: A file has another layout, or the two sides do not hold the same answers.
    """
    read, subjects = PublishedSet(), []
    asked: list[Question] = []
    for files in _pairs(people, gpt4):
        subject = files[0].stem.removesuffix(_SUFFIX)
        subjects.append(subject)
        by_person, by_gpt4 = (_read(file, subject) for file in files)
        _require_same(files, by_person, by_gpt4)
        for number, (key, (question, answer, level, retyped)) in enumerate(by_person.items()):
            asked.append(question)
            read.answers.append(answer)
            for what in retyped:
                read.odd(f"{files[0]}, [{number}]", what)
            if level is None:
                read.odd(f"{files[0]}, [{number}]", _NONE, about_score=True)
            else:
                read.score(*key, RATER, level)
            read.judgment(AnswerKey(*key, 0), by_gpt4[key].level, _NO_SCORE)
            if by_gpt4[key].level is None:
                read.odd(f"{files[1]}, [{list(by_gpt4).index(key)}]", _NONE, about_score=True)
    most_frequent(read, asked, "models were asked in different wordings; the most frequent one is kept")
    read.scheme = scheme_of(subjects)
    return read


def scheme_of(subjects: Sequence[str]) -> Scheme:
    """LLMEval-2's scheme with these subjects, or with those whose titles are known."""
    names = list(subjects) or list(SUBJECTS)
    titles = {name: SUBJECTS.get(name, name.replace("_", " ")) for name in names}
    rubric = read_text(_RUBRIC)
    return Scheme(
        name="llmeval-2",
        title="LLMEval-2",
        languages=(LANGUAGE,),
        categories=tuple(
            Category(id=name, title={LANGUAGE: title, "en": name.replace("_", " ")}) for name, title in titles.items()
        ),
        rubrics={f"{name}.{LANGUAGE}": rubric.replace("{subject}", title) for name, title in titles.items()},
    )


def _pairs(people: Path, gpt4: Path) -> list[tuple[Path, Path]]:
    """The files of each subject."""
    if people.is_dir() != gpt4.is_dir():
        raise InputError(f"llmeval2: {people} and {gpt4}: give two files of one subject, or two folders of them")
    if not people.is_dir():
        return [(people, gpt4)]
    names = [{file.name for file in folder.glob("*.json")} for folder in (people, gpt4)]
    for folder, missing in ((gpt4, names[0] - names[1]), (people, names[1] - names[0])):
        if missing:
            raise InputError(f"{folder}: no {sorted(missing)[0]}, which the other folder has; both need every subject")
    if not names[0]:
        raise InputError(f"{people}: no .json file in it; a file for each subject is expected")
    return [(people / name, gpt4 / name) for name in sorted(names[0])]


def _read(file: Path, subject: str) -> dict[tuple[str, str], _Entry]:
    """The entries of a file, by question and model."""
    data = read_json(file)
    if not isinstance(data, list) or not data:
        raise InputError(f"{file}: a list of scored answers is expected, as in LLMEval-2's files")
    entries: dict[tuple[str, str], _Entry] = {}

    def add(fields: Any, place: str) -> None:
        entry = _entry(fields, subject)
        key = entry.question.id, entry.answer.model
        if key in entries:
            raise ValueError(f"{key[1]} answers {key[0]} a second time; remove one of the two")
        entries[key] = entry

    read_entries(file, ((f"[{number}]", fields) for number, fields in enumerate(data)), add)
    return entries


def _entry(fields: Any, subject: str) -> _Entry:
    if not isinstance(fields, dict):
        raise ValueError("an object is expected")
    if missing := [name for name in _FIELDS if name not in fields]:
        raise ValueError(f"{missing[0]} is missing; {', '.join(_FIELDS)} are expected")
    dialog = fields["dialog"] if isinstance(fields["dialog"], list) else []
    roles = [turn.get("role") if isinstance(turn, dict) else None for turn in dialog]
    if roles != ["user", "llm"] or any("content" not in turn for turn in dialog):
        raise ValueError("dialog needs two turns with role and content, first user, then llm")
    asked, replied = (turn["content"] for turn in dialog)
    texts = {"hint": fields["hint"], "content of user": asked, "content of llm": replied}
    name, kind = str(fields["question_uuid"]), fields["type"]
    level = _level(kind, fields["stars"])
    hint = str(fields["hint"]).strip() or None
    return _Entry(
        question_of(name, subject, str(asked), LANGUAGE, subcategory=f"type {kind}", reference=hint),
        answer_of(name, str(fields["llm_name"]), str(replied)),
        level,
        [
            f"{name} is a {type(value).__name__}; read as text"
            for name, value in texts.items()
            if type(value) is not str
        ],
    )


def _level(kind: Any, stars: Any) -> int | None:
    """The level of a set of scores; None where one of them is missing.

    | type | deciding score | level |
    |---|---|---|
    | A | Correctness 3 | 5, or 4 if the explanation is not correct |
    | A | Correctness 2 | 3 |
    | A | Correctness 1 | 1, or 2 if the explanation is correct |
    | B | Accuracy 5 | 5, or 4 unless Informativeness and Logicality are 3 |
    | B | Accuracy 3 or 4 | 3 |
    | B | Accuracy 2 | 2 |
    | B | Accuracy 1 | 1, or 2 if Informativeness and Logicality are 3 |
    """
    if kind not in _HIGHEST:
        raise ValueError(f"type is {kind!r}; A or B is expected")
    highest = _HIGHEST[kind]
    if not isinstance(stars, dict) or set(stars) != set(highest):
        raise ValueError(f"stars of type {kind} need exactly {', '.join(highest)}")
    for name, most in highest.items():
        if type(stars[name]) is not int or not 0 <= stars[name] <= most:
            raise ValueError(f"{name} is {stars[name]!r}; a whole number from 1 to {most} is expected, or 0 for none")
    (deciding, most), *_ = highest.items()
    if stars[deciding] == 0:
        return None
    rest = all(stars[name] == highest[name] for name in _SECONDARY[kind])
    if stars[deciding] == most:
        return 5 if rest else 4
    if stars[deciding] == 1:
        return 2 if rest else 1
    return 2 if kind == "B" and stars[deciding] == 2 else 3


def _require_same(
    files: tuple[Path, Path], people: dict[tuple[str, str], _Entry], gpt4: dict[tuple[str, str], _Entry]
) -> None:
    """Raises InputError where the two files of a subject do not score the same answers."""
    for here, there, file in ((people, gpt4, files[1]), (gpt4, people, files[0])):
        if missing := [key for key in here if key not in there]:
            name, model = missing[0]
            more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
            raise InputError(f"{file}: no score of {model}'s answer to {name}{more}, which the other file has")
    for key, entry in people.items():
        other = gpt4[key]
        if (entry.question, entry.answer) != (other.question, other.answer):
            raise InputError(f"{files[1]}: {key[1]}'s answer to {key[0]} has another text than in {files[0]}")
