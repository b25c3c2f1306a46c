"""A sixth category and a third language, from a folder, through every station and without a line of code."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from calls import refused_with as refused
from calls import worked
from chat_server import completion

from medjudge.records import Answer, PhysicianScore, Question
from medjudge.scheme import LLMEVAL_MED, open_scheme
from medjudge.store import Run, read_records, write_records

SCHEME = """\
name: clinic
title: Questions of our clinic
extends: llmeval-med
languages: [fr]
categories:
  - {id: MK, title: {fr: Connaissances médicales}}
  - {id: MLU, title: {fr: Compréhension de textes}}
  - {id: MR, title: {fr: Raisonnement médical}}
  - {id: MSE, title: {fr: Sécurité et éthique}}
  - {id: MTG, title: {fr: Rédaction médicale}}
  - id: NUT
    title: {en: Nutrition, zh: 营养, fr: Nutrition}
    unusable_is_unsafe: true
gate:
  usable_agreement: {NUT: 0.75}
"""
FRENCH_STANDARD = "- 5: Tout est juste.\n- 4: L'essentiel est juste.\n- 3: Une erreur.\n- 2: Des erreurs.\n- 1: Faux."
TEXTS = {
    "judge_frame.md": "Vous êtes médecin et notez une réponse.\n\n# Critère : {{ title }}\n\n{{ standard }}\n\n"
    "Terminez par une ligne « Score: N ».",
    "judge_material.md": "# Question posée\n\n{{ question }}\n\n<<<ANSWER {{ code }}>>>\n{{ answer }}\n"
    "<<<END {{ code }}>>>",
    "judge_replies.yaml": 'score_line: "Score: "\nreminder: "Répondez encore une fois.\\nScore: N"\n',
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "clinic"
    (place / "rubrics").mkdir(parents=True)
    (place / "languages" / "fr").mkdir(parents=True)
    (place / "scheme.yaml").write_text(SCHEME, encoding="utf-8")
    for category in (*LLMEVAL_MED.category_ids, "NUT"):
        (place / "rubrics" / f"{category}.fr.md").write_text(f"Critère {category}\n\n{FRENCH_STANDARD}\n", "utf-8")
    for language in ("en", "zh"):
        text = f"Nutrition by diet tables ({language})\n\n- 5: right\n- 4: mostly\n- 3: partly\n- 2: bad\n- 1: wrong\n"
        (place / "rubrics" / f"NUT.{language}.md").write_text(text, encoding="utf-8")
    for name, text in TEXTS.items():
        (place / "languages" / "fr" / name).write_text(text, encoding="utf-8")
    return place


@pytest.fixture
def benchmark(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    ids = [(category, language, n) for category in ("NUT", "MK") for language in ("fr", "en") for n in range(3)]
    lines = [
        {"id": f"{category}-{language}-{n}", "category": category, "prompt": f"Question {n} ?", "language": language}
        for category, language, n in ids
    ]
    write_records(path, [Question(group=line["id"], **line) for line in lines])
    return path


def test_a_sixth_category_and_a_third_language_come_from_a_folder(
    medjudge: Callable, folder: Path, benchmark: Path, tiny_lm: Path, chat_server: Callable, tmp_path: Path
) -> None:
    options = ("--benchmark", benchmark, "--run", "run")
    known = "line 1: category: scheme llmeval-med has 'MK', 'MLU', 'MR', 'MSE', 'MTG'"
    refused(medjudge("answer", *options, "--model", tiny_lm), known)

    # ---- Answer: the run keeps the whole scheme, and needs its folder no longer
    scheme = open_scheme(str(folder))
    few = ("--samples", 1, "--max-new-tokens", 8, "--device", "cpu")
    done = worked(medjudge("answer", *options, "--scheme", folder, "--model", tiny_lm, *few))
    shutil.rmtree(folder)
    run = Run(tmp_path / "run")
    assert run.scheme() == scheme
    assert run.manifest()["scheme"] == {"name": "clinic", "sha256": scheme.sha256}
    assert len(run.answers()) == 12

    # ---- Judge: the prompt is the folder's, in its language
    server = chat_server(lambda body: completion("C'est juste.\nScore: 5"))
    judge = ("--judge", "openai:gpt", "--base-url", server.url)
    own = ("--scheme", "run/scheme.json", "--answers", "run/answers.jsonl")
    done = worked(medjudge("eval", *options, *own, *judge, OPENAI_API_KEY="k"))
    systems = {request["messages"][0]["content"] for request in server.asked}
    assert sum("# Critère : Critère NUT\n\n- 5: Tout est juste." in text for text in systems) == 1
    assert sum("Nutrition by diet tables (en)" in text for text in systems) == 1
    assert len(systems) == 4
    assert sum("# Question posée" in request["messages"][1]["content"] for request in server.asked) == 6
    scores = json.loads((run.path / "scores.json").read_text())
    (rates,) = scores["models"].values()
    assert rates["NUT"]["rate"] == 100.0
    assert rates["NUT"]["questions"] == 6
    assert "NUT" in done.stdout

    # ---- Validate: the scheme's gate asks for the new category
    answers = read_records(run.answers_file, Answer)
    scores = [
        PhysicianScore(**answer.key._asdict(), rater="dr", score=5 if number % 4 else 2)
        for number, answer in enumerate(answers)
    ]
    write_records(tmp_path / "scores.jsonl", scores)
    done = medjudge("validate", "run", *judge, "--physicians", "scores.jsonl", "--json", OPENAI_API_KEY="k")
    assert done.returncode in (0, 1), done.stderr
    study = json.loads(done.stdout)
    assert list(study["by_category"]) == ["MK", "NUT"]
    assert study["by_language"].keys() == {"en", "fr"}
    required = {check["check"]: check["required"] for check in study["gate"]["checks"]}
    assert required["usable agreement, NUT"] == 0.75
    assert required["usable agreement, MK"] == LLMEVAL_MED.gate.usable_agreement["MK"]

    # ---- Report
    done = worked(medjudge("report", "run", "--html", "report.html", "--json"))
    assert "NUT" in json.loads(done.stdout)["models"][answers[0].model]
    assert "Nutrition" in (tmp_path / "report.html").read_text(encoding="utf-8")
