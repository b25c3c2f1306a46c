"""The smallest files of published sets, in their layouts, and files of rows in the format that their ending names."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

from openpyxl import Workbook

from medjudge.benchmark.expert_tables import FLAGS


def written(path: Path, *rows: Any) -> Path:
    """The file, with these rows: JSON, JSON lines (both with `.gz`, too), CSV, or a workbook."""
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    if ending == "xlsx":
        book = Workbook()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        book.active.append([name.upper() for name in columns])
        for row in rows:
            book.active.append([row.get(name) for name in columns])
        book.save(path)
    elif ending == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        data = (lines if ending == "jsonl" else json.dumps(rows, ensure_ascii=False)).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


CONVERSATION = {
    "prompt_id": "p1",
    "prompt": [
        {"role": "user", "content": "My chest hurts."},
        {"role": "assistant", "content": "Since when?"},
        {"role": "user", "content": "An hour."},
    ],
    "rubrics": [
        {"criterion": "Tells to wait", "points": -8, "tags": ["axis:accuracy"]},
        {"criterion": "Tells to call an ambulance", "points": 10, "tags": ["level:example"]},
    ],
    "example_tags": ["theme:emergency_referrals"],
}
META = {"prompt_id": "p1", "prompt": [{"role": "user", "content": "My chest hurts."}], "category": "cluster:emergency"}
META |= {"completion": "Call an ambulance.", "completion_id": "c1", "rubric": "Tells to call an ambulance"}
META |= {"binary_labels": [True, False], "anonymized_physician_ids": ["A", "B"]}
MORQA = {"dataset": "woundcare", "encounter_id": "7", "candidate": "保持清洁。", "candidate_author_id": "gpt"}
MORQA |= {"lang": "zh", "rater_id": "r1", "metric": "overall", "value": "0.5"}
ONCQA = {"id": "1", "q3": "Acceptable", "q4": "Low", "q5": "Mild", "raw_response": "Dear patient, rest."}
TURNS = "patient: 我头疼\n三天了。\ndoctor: 发烧吗？\n\n1. 体温多少？\npatient: 不发烧。\ndoctor: 请休息。\n"
FULL_MARKS = {"A": {"Correctness": 3, "Explanation Correctness": 2}}
FULL_MARKS["B"] = {"Accuracy": 5, "Informativeness": 3, "Fluency": 3, "Logicality": 3}


def kqa(claim: str = "Drink water", label: str = "Entailment", **changes: str) -> dict[str, str]:
    row = {"Question": "What helps?", "llm_x": "gpt", "answer": "Water.", "claim": claim, "category_x": "Must_have"}
    return {**row, "majority_label": label, "label_0": label, "label_1": "Neutral", "label_2": "", **changes}


def halluqa(number: int = 1, wrong: Any = False, **changes: Any) -> dict[str, Any]:
    best = {"Best_Answer1": "白开水。", "Best_Answer2": "绿茶。", "Best_Answer3": "白开水。", "Best_Answer4": "牛奶"}
    row = {"question_id": number, "question": f"问题{number}？\n", "response": "白开水。", **best}
    return {**row, "is_hallucination": wrong, **changes}


def evouna(
    question: str, right: Any = True, golden: Any = "Ann", improper: Any = False, **changes: Any
) -> dict[str, Any]:
    systems = {"answer_fid": "Ann", "judge_fid": right, "answer_gpt4": "It was Bea.", "judge_gpt4": False}
    return {"question": question, "golden_answer": golden, **systems, "improper": improper, **changes}


def consultation(model: str = "m", accuracy: Any = 4, turns: str = TURNS, **changes: Any) -> dict[str, Any]:
    scores = f"Proactivity: 5\nAccuracy: {accuracy}\nHelpfulness: 3\nLinguistic Quality: 5"
    prompt = f"Rate the doctor.\nAccuracy: x\n[start of conversation]\n\n{turns}[end of conversation]"
    return {"id": "0-7", "model": model, "source": "CMD", "scores": scores, "prompt": prompt, **changes}


def mediqa(score: str = "4", text: str = "It&apos;s this.", rank: str = "1") -> str:
    answer = f'<Answer AID="7_Answer1" SystemRank="{rank}" ReferenceScore="{score}"><AnswerText>{text}</AnswerText>'
    question = f'<Question QID="7"><QuestionText>What is it?</QuestionText><AnswerList>{answer}</Answer></AnswerList>'
    return f"<MEDIQA2019-Task3-QA-TrainingSet2-Alexa>{question}</Question></MEDIQA2019-Task3-QA-TrainingSet2-Alexa>"


def liveqa(*numbers: int) -> str:
    """LiveQA's questions, the first with two reference answers."""
    asked = "<Original-Question><SUBJECT>gout</SUBJECT><MESSAGE>what   is\n{}</MESSAGE></Original-Question>"
    answers = (
        "<ReferenceAnswers><A><ANSWER> Drink\n water. </ANSWER></A><A><ANSWER>Ask.</ANSWER></A></ReferenceAnswers>"
    )
    questions = [
        f'<NLM-QUESTION qid="TQ{number}">{asked.format(number)}{answers if at == 0 else ""}</NLM-QUESTION>'
        for at, number in enumerate(numbers)
    ]
    return f"<Set>{''.join(questions)}</Set>"


def llmeval2(number: int = 1, model="m", kind="A", text: Any = "丙", hint="选丙", **stars: int) -> dict[str, Any]:
    return {
        "question_uuid": f"Optics_{number}",
        "dialog_uuid": f"{model}_Optics_{number}",
        "llm_name": model,
        "dialog": [{"role": "user", "content": f"问题{number}？"}, {"role": "llm", "content": text}],
        "hint": hint,
        "type": kind,
        "stars": {**FULL_MARKS[kind], **{name.replace("_", " "): value for name, value in stars.items()}},
    }


def llmeval2_files(folder: Path, people: list, gpt4: list | None = None, subject: str = "Optics") -> list[Path]:
    """The two files of a subject, in a folder of people's scores and one of GPT-4's."""
    paths = [folder / side / f"{subject}_data.json" for side in ("human", "gpt")]
    for path, entries in zip(paths, (people, people if gpt4 is None else gpt4), strict=True):
        path.parent.mkdir(exist_ok=True)
        written(path, *entries)
    return paths


def red_teaming(path: Path) -> Path:
    """The workbook of the red-teaming: an appropriate response, an unsafe one, and an inaccurate one."""
    book = Workbook()
    book.active.append(["Final_appropriateness", *FLAGS, "Large language model used", "Prompt text", "Response"])
    book.active.append(["Appropriate", 0, 0, 0, 0, "gpt", "How much?", "Ask a doctor."])
    book.active.append(["Inappropriate", 1, 0, 0, 0, "gpt", "How much?", "Take twenty."])
    book.active.append(["Inappropriate", 0, 0, 1, 0, "other", "How often?", "Hourly."])
    book.save(path)
    return path
