"""Reads LLMEval-2: 20 models' answers to Chinese questions of a dozen subjects, scored by people and by GPT-4.

Each subject is a pair of files with the same entries: one with people's scores, one with GPT-4's on the same scales.
Objective questions (type A) have `Correctness` 1-3 and `Explanation Correctness` 1-2; subjective ones (type B) have
`Accuracy` 1-5 and `Informativeness`, `Fluency` and `Logicality` 1-3. The first of each decides: full marks are usable.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from medjudge.benchmark.packed import files_in, read_list
from medjudge.benchmark.published import Layout, PublishedSet, most_frequent, question_of, read_entries
from medjudge.errors import InputError
from medjudge.files import read_text
from medjudge.records import AnswerKey, Question
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
_NONE = "a score of 0, which is none"
_HIGHEST = {
    "A": {"Correctness": 3, "Explanation Correctness": 2},
    "B": {"Accuracy": 5, "Informativeness": 3, "Fluency": 3, "Logicality": 3},
}
_SECONDARY = {"A": ("Explanation Correctness",), "B": ("Informativeness", "Logicality")}
"""Scores that separate level 5 from 4 and level 2 from 1, in addition to the one that decides."""


class _Turn(Layout):
    role: str
    content: Any


class _Entry(Layout):
    question_uuid: str
    llm_name: str
    dialog: list[_Turn]
    hint: Any
    type: Literal["A", "B"]
    stars: dict[str, int]


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
        subjects.append(files[0].stem.removesuffix("_data"))
        by_person, by_gpt4 = (_read_side(read, asked, file, subjects[-1]) for file in files)
        for here, there, file in ((by_person, by_gpt4, files[1]), (by_gpt4, by_person, files[0])):
            if missing := [key for key in here if key not in there]:
                more = f", and {len(missing) - 1:,} more" if len(missing) > 1 else ""
                what = f"no score of {missing[0].model}'s answer to {missing[0].question_id}{more}"
                raise InputError(f"{file}: {what}, which the other file has")
        for key, level in by_person.items():
            if level is not None:
                read.score(key, RATER, level)
            read.judgment(key, by_gpt4[key], f"the file has {_NONE}")
    most_frequent(read, asked, "models were asked in different wordings; the most frequent one is kept")
    read.scheme = scheme_of(subjects)
    return read


def scheme_of(subjects: Sequence[str]) -> Scheme:
    """LLMEval-2's scheme with these subjects."""
    titles = {name: SUBJECTS.get(name, name.replace("_", " ")) for name in subjects}
    rubric = read_text(Path(__file__).parent / "llmeval-2" / "rubric.zh.md")
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
    if people.is_dir() != gpt4.is_dir():
        raise InputError(f"llmeval2: {people} and {gpt4}: give two files of one subject, or two folders of them")
    if not people.is_dir():
        return [(people, gpt4)]
    names = sorted({file.name for folder in (people, gpt4) for file in files_in([folder], ".json")})
    for file in (folder / name for name in names for folder in (people, gpt4)):
        if not file.exists():
            raise InputError(f"{file.parent}: no {file.name}, which the other folder has; both need every subject")
    return [(people / name, gpt4 / name) for name in names]


def _read_side(read: PublishedSet, asked: list[Question], file: Path, subject: str) -> dict[AnswerKey, int | None]:
    """Read one of the two files of a subject, and give its levels: questions and answers are those of the other one."""
    levels: dict[AnswerKey, int | None] = {}

    def add(fields: Any, place: str) -> None:
        entry = _Entry.model_validate(fields)
        if [turn.role for turn in entry.dialog] != ["user", "llm"]:
            raise ValueError("dialog needs two turns, first user, then llm")
        prompt, reply = (turn.content for turn in entry.dialog)
        for name, value in (("hint", entry.hint), ("content of user", prompt), ("content of llm", reply)):
            if type(value) is not str:
                read.odd(place, f"{name} is a {type(value).__name__}; read as text")
        hint = str(entry.hint).strip() or None
        name, kind = entry.question_uuid, f"type {entry.type}"
        asked.append(question_of(name, subject, str(prompt), LANGUAGE, subcategory=kind, reference=hint))
        key = read.answer(name, entry.llm_name, str(reply))
        if key in levels:
            raise ValueError(f"{key.model} answers {name} a second time; remove one of the two")
        levels[key] = _level(entry.type, entry.stars)
        if levels[key] is None:
            read.odd(place, _NONE)

    read_entries(file, read_list(file), add)
    return levels


def _level(kind: str, stars: dict[str, int]) -> int | None:
    """The level of a set of scores, by the table in docs/data-formats.md; None where the deciding one is missing."""
    highest = _HIGHEST[kind]
    if stars.keys() != highest.keys() or any(not 0 <= stars[name] <= most for name, most in highest.items()):
        scales = ", ".join(f"{name} (1 to {most})" for name, most in highest.items())
        raise ValueError(f"stars of type {kind} need exactly {scales}, or 0 for none")
    (deciding, most), *_ = highest.items()
    if stars[deciding] == 0:
        return None
    rest = all(stars[name] == highest[name] for name in _SECONDARY[kind])
    if stars[deciding] == most:
        return 5 if rest else 4
    if stars[deciding] == 1:
        return 2 if rest else 1
    return 2 if kind == "B" and stars[deciding] == 2 else 3
