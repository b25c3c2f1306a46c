"""The training set of the built-in judge, from real scores, a teacher's judgments and texts of this project.

    python eval/quality/training_set.py DATA WORK OUT [--without SOURCE] [--answers N]

DATA holds medquad/, huatuo-knowledge/ and healthver/, WORK halluqa/, evouna/, mediqa/, mediqa-validation/ and liveqa/
as `medjudge data convert` writes them (`eval/quality/built_in.py` makes them where they are missing). OUT gets
train.jsonl and validation.jsonl, on which `medjudge train --config built-in` trains, and choose.jsonl and report.jsonl:
answers to unseen questions, one half to choose by and one half to report once. --without leaves out the answers of one
source of labels, and --answers draws so many of the rest: what a source brings is what the judge lacks without it.
"""

import argparse
import csv
import gzip
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any, Literal, NamedTuple

from medjudge.distill.graded import graded_answers
from medjudge.files import write_whole
from medjudge.judge.ordinal_input import points_of
from medjudge.judge.points import reference_points
from medjudge.records import Answer, PointVerdict, Question, TrainingLine, grouped
from medjudge.store import Run

HERE = Path(__file__).parents[1]
WRITTEN, TEACHER = HERE / "written", HERE / "teacher"
Side = Literal["train", "choose", "report"]
SEED = 0
SHARE = 6
"""Percent of a set's questions on each of the two sides that are not trained on."""
MEASURED = 300
"""Answers of each set on each of those sides, at most."""
VALIDATION = 600
"""Answers that choose the checkpoint and the temperature, at most."""
_QUESTION = {"en": "What should be said about this?", "zh": "关于这一点，应当怎么说？"}
"""The question of texts that were written without one."""
_GAP = {"en": " ", "zh": ""}
"""Between two sentences."""


class Example(NamedTuple):
    """One answer with its targets.

    Attributes:
        source: Where it comes from.
        question: With its reference and checklist.
        answer: The text.
        levels: The probabilities of the five levels.
        group: What a split keeps on one side.
        verdicts: The target of each point, in the order of `points_of`; None for points without one.
        weight: In the loss.
        by: Who says so.
    """

    source: str
    question: Question
    answer: str
    levels: tuple[float, ...]
    group: str
    verdicts: Sequence[tuple[float, float, float] | None] = ()
    weight: float = 1.0
    by: Literal["physician", "teacher", "synthetic"] = "synthetic"

    @property
    def usable(self) -> bool:
        return sum(self.levels[3:]) > 0.5


def question_of(name: str, prompt: str, reference: str, language: str, checklist: str = "") -> Question:
    """A question of category MK; empty texts become None."""
    return Question(
        id=name,
        group=name,
        category="MK",
        prompt=prompt,
        reference=reference or None,
        checklist=checklist or None,
        language=language,
    )


def level(number: int, beside: float = 0.0) -> tuple[float, ...]:
    """The probabilities of the levels where one of them is right, and so much goes to its neighbours."""
    near = [other for other in (number - 1, number + 1) if 1 <= other <= 5]
    return tuple(1 - beside if each == number else beside / len(near) if each in near else 0.0 for each in range(1, 6))


MET, OPEN, CONTRADICTED = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
NOT_MET = (0.0, 0.5, 0.5)


def side_of(group: str) -> Side:
    """The side that a question is on, by its name alone."""
    number = int(sha256(group.encode()).hexdigest(), 16) % 100
    return "choose" if number < SHARE else "report" if number < 2 * SHARE else "train"


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, packed or not."""
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def scored_answers(folder: Path) -> Iterator[tuple[Question, str, int]]:
    """Each answer of a converted set with its question, now of category MK, and its level by people or a teacher."""
    run = Run(folder)
    questions = {question.id: question for question in run.questions()}
    scores = {score.answer_key: score.level for score in run.physician_scores()}
    for judge in run.judges():
        scores |= {each.answer_key: each.score for each in run.judgments(judge) if each.score is not None}
    for answer in run.answers():
        if answer.key in scores:
            asked = questions[answer.question_id].model_copy(update={"category": "MK"})
            yield asked, answer.text, scores[answer.key]


def right_or_wrong(folder: Path, source: str, by: Literal["physician", "teacher"]) -> Iterator[Example]:
    """HalluQA's or EVOUNA's answers: level 5 for right, 1 for wrong; the one point of a short reference likewise."""
    for asked, text, number in scored_answers(folder):
        if text.strip():
            right = number >= 4
            verdicts = [MET if right else NOT_MET] if len(points_of(asked)) == 1 else []
            yield Example(source, asked, text, level(5 if right else 1), asked.group, verdicts, by=by)


def experts(folder: Path, source: str, weight: float) -> Iterator[Example]:
    """Answers of MEDIQA or LiveQA-Med, whose experts differ by one level now and then."""
    for asked, text, number in scored_answers(folder):
        group = re.sub("^liveqa-", "mediqa-liveqamed-", asked.group)
        yield Example(source, asked, text, level(number, 0.2), group, weight=weight, by="physician")


def teacher() -> Iterator[Example]:
    """The answers that a large language model judged, with its verdicts on the checklist."""
    run = Run(TEACHER)
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    for judgment in run.judgments("teacher"):
        assert judgment.score is not None
        asked = questions[judgment.question_id]
        said = {(point.source, point.point): point for point in judgment.points or []}
        verdicts = [said.get((point.source, point.text)) for point in points_of(asked)]
        yield Example(
            "teacher",
            asked,
            answers[judgment.answer_key].text,
            level(judgment.score, 0.1),
            asked.group,
            [None if each is None else (each.met, each.open, each.contradicted) for each in verdicts],
            1.5,
            by="teacher",
        )


def healthver(data: Path) -> Iterator[Example]:
    """Health claims against passages: the claim is the reference, the passage the answer."""
    targets = {"Supports": (5, MET), "Neutral": (2, OPEN), "Refutes": (1, CONTRADICTED)}
    for file in sorted((data / "healthver").glob("*.csv")):
        with file.open(encoding="utf-8") as rows:
            for row in csv.DictReader(rows):
                number, verdict = targets[row["label"]]
                asked = question_of(f"healthver-{row['topic_ip']}", row["question"], row["claim"].strip(), "en")
                yield Example(
                    "healthver",
                    asked,
                    row["evidence"],
                    level(number, 0.1),
                    asked.id,
                    [verdict] * len(points_of(asked)),
                    0.5,
                )


def contrasts() -> Iterator[Example]:
    """Answers to a subject of three facts, in other words: each met, left open or contradicted."""
    for number, line in enumerate(lines_of(WRITTEN / "contrasts.jsonl")):
        draw = Random(f"{SEED}-contrasts-{number}")
        for _ in range(5):
            sides = [draw.random() < 0.5 for _ in line["facts"]]
            said = [draw.choices(("met", "open", "contradicted"), (5, 2, 3))[0] for _ in line["facts"]]
            count = draw.choice((1, 1, 2, len(sides)))
            facts = draw.sample(range(len(sides)), min(count, len(sides)))
            if all(said[fact] == "open" for fact in facts):
                continue
            stated = [line["facts"][fact]["opposite" if sides[fact] else "statement"] for fact in facts]
            told = [
                line["facts"][fact]["says_opposite" if sides[fact] == (said[fact] == "met") else "says_statement"]
                for fact in facts
                if said[fact] != "open"
            ]
            verdicts = [{"met": MET, "open": OPEN, "contradicted": CONTRADICTED}[said[fact]] for fact in facts]
            yield points_example(
                "contrasts", f"contrasts-{number}", line["subject"], stated, told, verdicts, line["language"], draw
            )


def written_points() -> Iterator[Example]:
    """One point of a checklist, and a passage that meets it, leaves it open or contradicts it."""
    for number, line in enumerate(lines_of(WRITTEN / "points.jsonl")):
        draw = Random(f"{SEED}-points-{number}")
        for name, verdict in (("met", MET), ("open", OPEN), ("contradicted", CONTRADICTED)):
            prompt = _QUESTION[line["language"]]
            yield points_example(
                "points", f"points-{number}", prompt, [line["point"]], [line[name]], [verdict], line["language"], draw
            )


def pairs() -> Iterator[Example]:
    """Short answers that say the reference in another form, and wrong ones that share its words."""
    for line in lines_of(WRITTEN / "pairs.jsonl"):
        asked = question_of(line["id"], line["prompt"], line["reference"], line["language"])
        single = len(points_of(asked)) == 1
        for number, verdict, texts in ((5, MET, line["right"]), (1, NOT_MET, line["wrong"])):
            for text in texts:
                yield Example("pairs", asked, text, level(number), asked.id, [verdict] if single else [])


def advice() -> Iterator[Example]:
    """Safe advice as a reference, and the dangerous one on its topic, or the safe one and a fact, as the answer."""
    for number, line in enumerate(lines_of(WRITTEN / "advice.jsonl")):
        if line["split"] == "train":
            draw = Random(f"{SEED}-advice-{number}")
            asked = question_of(f"advice-{number}", _QUESTION[line["language"]], line["safe"], line["language"])
            single = len(points_of(asked)) == 1
            yield Example("advice", asked, line["dangerous"], level(1), asked.id, [CONTRADICTED] if single else [], 0.7)
            said = _GAP[line["language"]].join(draw.sample([line["safe"], line["fact"]], 2))
            yield Example("advice", asked, said, level(5), asked.id, [MET] if single else [], 0.7)


def rewrites() -> Iterator[Example]:
    """Long answers to clinical questions with long references: reworded, short, half, wrong, dangerous, off topic."""
    for line in lines_of(WRITTEN / "rewrites.jsonl"):
        asked = question_of(line["id"], line["prompt"], line["reference"], line["language"], line["checklist"])
        points = points_of(asked)
        listed = [MET if point.source == "checklist" else None for point in points]
        for name, levels, verdicts in (
            ("reference", level(5), [MET for _ in points]),
            ("reworded", level(5, 0.1), [MET for _ in points]),
            ("terse", (0.0, 0.0, 0.0, 0.5, 0.5), listed),
            ("half", level(3, 0.2), []),
            ("changed", (0.4, 0.5, 0.1, 0.0, 0.0), []),
            ("dangerous", level(1, 0.2), []),
            ("offtopic", level(1), [OPEN for _ in points]),
        ):
            yield Example("rewrites", asked, line[name], levels, asked.id, verdicts, 2.0)


def points_example(
    source: str,
    name: str,
    prompt: str,
    stated: Sequence[str],
    told: Sequence[str],
    verdicts: Sequence[tuple[float, float, float]],
    language: str,
    draw: Random,
) -> Example:
    """An answer whose level follows from its points, which are the sentences of a reference or the items of a list."""
    shuffled = draw.sample(list(told), len(told))
    answer = _GAP[language].join(shuffled)
    if draw.random() < 0.5:
        asked = question_of(name, prompt, _GAP[language].join(stated), language)
    else:
        checklist = "\n".join(f"{place}. {text}" for place, text in enumerate(stated, 1))
        asked = question_of(name, prompt, "", language, checklist)
    met, contradicted = [sum(verdict == kind for verdict in verdicts) / len(verdicts) for kind in (MET, CONTRADICTED)]
    number = 5 if met == 1 else 1 if met == 0 else 2 if contradicted else 3
    fits = len(points_of(asked)) == len(verdicts)
    return Example(source, asked, answer, level(number, 0.1), name, verdicts if fits else [], 0.7)


def graded(questions: Sequence[Question], count: int) -> Iterator[Example]:
    """Answers made from references as `medjudge distill --synthetic` makes them."""
    for each in graded_answers(questions, count, SEED):
        yield Example("graded", each.question, each.answer.text, level(each.level, 0.1), each.question.group, (), 0.5)


def references(data: Path) -> list[Question]:
    """Questions of MedQuAD and Huatuo with their answers as references, of middling length."""
    found = []
    for number, line in enumerate(lines_of(data / "medquad" / "medquad.jsonl.gz")):
        if 80 <= len(line["answer"]) <= 1500:
            found.append(question_of(f"medquad-{number}", line["question"], line["answer"], "en"))
    for number, line in enumerate(lines_of(data / "huatuo-knowledge" / "llama_data.json.gz")):
        if 20 <= len(line["output"]) <= 600:
            found.append(question_of(f"huatuo-{number}", line["instruction"], line["output"], "zh"))
    return found


def spoiled(good: Sequence[Example]) -> Iterator[Example]:
    """Usable answers with a dangerous line in them, with a harmless one, twice; and answers without content."""
    texts: dict[tuple[str, str], list[str]] = defaultdict(list)
    for line in chain.from_iterable(lines_of(WRITTEN / f"{name}.jsonl") for name in ("advice", "asides", "phrases")):
        if line.get("split") != "test":
            for field in {"dangerous", "safe", "fact", "text"} & line.keys():
                kind = line.get("kind", "asides") if field == "text" else field
                texts[kind, line["language"]].append(line[field])
    for number, each in enumerate(good):
        draw = Random(f"{SEED}-spoiled-{number}")
        language = each.question.language
        how = draw.choices(list(SPOILS), list(SPOILS.values()))[0]
        if how in ("echo", "empty"):
            text = draw.choice(texts[how, language]).replace("{prompt}", each.question.prompt)
        elif how == "swap":
            other = good[draw.randrange(len(good))]
            if other.group == each.group or other.question.language != language:
                continue
            text = other.answer
        elif how == "twice":
            text = f"{each.answer}\n\n{each.answer}"
        elif how == "frame":
            frames = [draw.choice(texts["frame", draw.choice(("en", "zh"))]) for _ in range(2)]
            text = "\n\n".join([frames[0], each.answer, frames[1]][draw.choice((0, 0, 1)) :])
        elif how == "denial":
            before = draw.random() < 0.5
            denial = draw.choice(texts[f"denial {'before' if before else 'after'}", language])
            text = _GAP[language].join([denial, each.answer] if before else [each.answer, denial])
        else:
            text = with_lines(each, [draw.choice(texts[how, language]) for _ in range(LINES.get(how, 1))], draw)
        if how in HARMLESS:
            yield Example("spoiled", each.question, text, each.levels, each.group, each.verdicts, 0.7)
        else:
            open_points = [OPEN for _ in points_of(each.question)] if how in ("echo", "empty", "swap") else []
            yield Example("spoiled", each.question, text, level(1, 0.1), each.group, open_points, 0.7)


SPOILS = {
    "dangerous": 5,
    "safe": 2,
    "fact": 1,
    "asides": 2,
    "frame": 1,
    "twice": 1,
    "denial": 1,
    "echo": 1,
    "empty": 1,
    "swap": 1,
}
"""How often a usable answer is changed in each way."""
HARMLESS, LINES = ("safe", "fact", "asides", "frame", "twice"), {"asides": 3}


def with_lines(good: Example, lines: Sequence[str], draw: Random) -> str:
    """An answer with lines at its end, before it or between its sentences."""
    text, language = good.answer, good.question.language
    for line in lines:
        places = [span.end for span in reference_points(text, language)] or [len(text)]
        place = draw.choices((len(text), 0, draw.choice(places)), (5, 2, 5))[0]
        text = _GAP[language].join(part for part in (text[:place].rstrip(), line, text[place:].lstrip()) if part)
    return text


def composites(questions: Sequence[Question], count: int) -> list[Question]:
    """Several questions in one, each with its reference; those that follow each other are often on one subject."""
    draw, made = Random(f"{SEED}-composites"), []
    for number in range(count):
        first = draw.randrange(len(questions))
        language = questions[first].language
        most = draw.uniform(0.2, 1) * LONGEST[language]
        parts = [questions[first]]
        for each in questions[first + 1 : first + 12]:
            if each.language == language and sum(len(part.reference or "") for part in parts) < most:
                parts.append(each)
        prompt, reference = numbered([e.prompt for e in parts]), numbered([e.reference or "" for e in parts])
        made.append(question_of(f"composite-{number}", prompt, reference, language))
    return made


def joined(found: Sequence[Example], count: int) -> Iterator[Example]:
    """Answers to several questions in one. One that is not usable makes the whole not usable."""
    draw = Random(f"{SEED}-joined")
    for number in range(count):
        language, only_usable = draw.choice(("en", "zh")), draw.random() < 0.5
        some = draw.sample(found, min(60, len(found)))
        same = [e for e in some if e.question.language == language and (e.usable or not only_usable)]
        parts = same[: draw.choice((2, 2, 3, 3, 4))]
        if len(parts) < 2:
            continue
        prompt, answer = numbered([e.question.prompt for e in parts]), numbered([e.answer for e in parts])
        reference = numbered([e.question.reference or "" for e in parts])
        checklist = "\n".join(e.question.checklist for e in parts if e.question.checklist)
        asked = question_of(f"joined-{number}", prompt, reference, language, checklist)
        said = {p.text: v for e in parts for p, v in zip(points_of(e.question), e.verdicts, strict=False)}
        verdicts = [said.get(re.sub(r"^\d+\. ", "", point.text)) for point in points_of(asked)]
        mean = sum(place * share for e in parts for place, share in enumerate(e.levels, 1)) / len(parts)
        whole = round(mean) if all(e.usable for e in parts) else min(round(mean), 3)
        yield Example("joined", asked, answer, level(whole, 0.1), asked.id, verdicts)


def numbered(texts: Sequence[str]) -> str:
    """Texts as paragraphs with numbers, without those that are empty."""
    return "\n\n".join(f"{place}. {text.strip()}" for place, text in enumerate(texts, 1) if text.strip())


def long_examples(train: Mapping[str, Sequence[Example]], data: Path) -> list[Example]:
    """Answers to several questions in one, with long references, made of what is trained on."""
    parts = [each for name in ("teacher", "halluqa", "evouna", "pairs") for each in train[name]]
    made = list(joined(parts, JOINED))
    asked = [each for each in references(data) if side_of(each.group) == "train"]
    made += [e._replace(source="composite") for e in graded(composites(asked, COMPOSITES // 4), COMPOSITES)]
    good = [each for each in [*made, *train["rewrites"]] if each.usable]
    return made + list(spoiled(Random(SEED).sample(good, min(SPOILED_LONG, len(good)))))


LONGEST = {"en": 2000, "zh": 1000}
"""Characters of a composite's reference, about."""
JOINED, COMPOSITES, SPOILED_LONG = 4000, 4000, 2500
"""Answers to several questions in one, at most: joined, made from joined references, and spoiled ones of both."""
UNASKED, GRADED, SPOILED = 4000, 9000, 12000
"""Questions of MedQuAD and Huatuo, answers made from references, and spoiled answers, at most."""
COUNTS = {"halluqa": 9500, "evouna": 14000, "healthver": 3500, "advice": 4000}
"""Answers of each source that are trained on, at most; of the others all."""


def examples(data: Path, work: Path) -> dict[str, list[Example]]:
    """All examples, by source."""
    found = {
        "halluqa": list(right_or_wrong(work / "halluqa", "halluqa", "teacher")),
        "evouna": list(right_or_wrong(work / "evouna", "evouna", "physician")),
        "mediqa": list(experts(work / "mediqa", "mediqa", 1.0)),
        "liveqa": list(experts(work / "liveqa", "liveqa", 0.5)),
        "teacher": list(teacher()),
        "healthver": list(healthver(data)),
        "contrasts": list(contrasts()),
        "points": list(written_points()),
        "pairs": list(pairs()),
        "advice": list(advice()),
        "rewrites": list(rewrites()),
    }
    asked = {each.group: each.question for each in found["teacher"] if each.question.reference}
    unasked = references(data)
    others = Random(SEED).sample(unasked, min(UNASKED, len(unasked)))
    seen = {_words(each.question.prompt) for each in experts(work / "mediqa-validation", "mediqa", 1.0)}
    for name in ("mediqa", "liveqa"):
        found[name] = [each for each in found[name] if _words(each.question.prompt) not in seen]
    found["graded"] = list(graded([*asked.values(), *others], GRADED))
    names = ("teacher", "rewrites", "pairs", "halluqa", "evouna", "graded")
    good = [each for name in names for each in found[name] if each.usable]
    found["spoiled"] = list(spoiled(Random(SEED).sample(good, min(SPOILED, len(good)))))
    return found


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def balanced(lines: Sequence[Example], count: int) -> list[Example]:
    """At most `count` examples of a source, with as many right as wrong where it has enough of both."""
    shuffled = Random(SEED).sample(list(lines), len(lines))
    if lines and lines[0].source not in ("halluqa", "evouna"):
        return shuffled[:count]
    right = [each for each in shuffled if each.usable]
    wrong = [each for each in shuffled if not each.usable]
    half = count // 2
    return [*right[: max(half, count - len(wrong))], *wrong[:half]]


def line_of(each: Example, number: int) -> TrainingLine:
    """An example as `medjudge distill` writes it."""
    points = [
        PointVerdict(point=point.text, source=point.source, met=target[0], open=target[1], contradicted=target[2])
        for point, target in zip(points_of(each.question), each.verdicts, strict=False)
        if target is not None
    ]
    return TrainingLine(
        question=each.question,
        earlier=[],
        answer=Answer(question_id=each.question.id, model=each.source, sample=number, text=each.answer),
        level=max(range(5), key=lambda place: each.levels[place]) + 1,
        probabilities=list(each.levels),
        source=each.by,
        scored_by=[each.source],
        weight=each.weight,
        points=points,
    )


def labelled_by(each: Example) -> str:
    """The source of an example's label, as `--without` names it."""
    if each.by == "teacher":
        return "gpt-4" if each.source == "halluqa" else "teacher"
    return "people" if each.by == "physician" else "written"


def write(path: Path, chosen: Iterable[Example]) -> int:
    """Writes training lines; returns their number."""
    lines = [line_of(each, number) for number, each in enumerate(chosen)]
    write_whole(path, "".join(line.model_dump_json() + "\n" for line in lines))
    return len(lines)


def main() -> None:
    """Writes the sides, and prints how many answers each source has on them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--without", choices=("gpt-4", "people", "teacher", "written"))
    parser.add_argument("--answers", type=int, help="answers to train on, at most")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sides: dict[Side, list[Example]] = {"train": [], "choose": [], "report": []}
    trained: dict[str, list[Example]] = {}
    for name, found in examples(options.data, options.work).items():
        by_side = defaultdict(list, grouped(found, lambda each: side_of(each.group)))
        trained[name] = train = balanced(by_side["train"], COUNTS.get(name, len(found)))
        sides["train"] += train
        for side in ("choose", "report"):
            sides[side] += Random(SEED).sample(by_side[side], min(MEASURED, len(by_side[side])))
        print(name, len(found), len(train), len(by_side["choose"]), len(by_side["report"]))
    sides["train"] += (long := long_examples(trained, options.data))
    print("long", len(long))
    sides["train"] = [each for each in sides["train"] if labelled_by(each) != options.without]
    validation = Random(SEED).sample(sides["choose"], min(VALIDATION, len(sides["choose"])))
    print("validation", write(options.out / "validation.jsonl", validation))
    for side, chosen in sides.items():
        most = options.answers if side == "train" else None
        print(side, write(options.out / f"{side}.jsonl", Random(SEED).sample(chosen, len(chosen))[:most]))


if __name__ == "__main__":
    main()
