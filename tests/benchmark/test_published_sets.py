"""Published scored sets, each from the smallest files of its layout."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import pytest
from published_rows import (
    CONVERSATION,
    META,
    MORQA,
    ONCQA,
    TURNS,
    consultation,
    evouna,
    halluqa,
    kqa,
    liveqa,
    mediqa,
    red_teaming,
    written,
)

from medjudge.benchmark.expert_tables import level_of_claims
from medjudge.benchmark.files import check_file
from medjudge.benchmark.published import PublishedSet
from medjudge.errors import InputError
from medjudge.records import ErrorKind
from medjudge.workflows.data import convert_data, read_published


def read_files(format: str, files: list[Path]) -> PublishedSet:
    """Reads a set, and checks that what `convert` writes of it is what the other stations read."""
    made = read_published(format, files)
    with TemporaryDirectory() as folder:
        for file in convert_data(format, files, Path(folder)).written:
            check_file(file)
    return made


@pytest.fixture
def read(tmp_path: Path):
    """Reads a set from one file: its text, or its rows."""

    def of(format: str, file: str, *rows: Any) -> PublishedSet:
        if isinstance(rows[0], str) and not file.endswith((".json", ".jsonl")):
            (tmp_path / file).write_text(rows[0], encoding="utf-8")
            return read_files(format, [tmp_path / file])
        return read_files(format, [written(tmp_path / file, *rows)])

    return of


def scored(read: PublishedSet) -> list[tuple[str, str, int | None]]:
    return [(each.question_id, each.model, each.score) for each in [*read.scores, *read.judgments]]


def test_healthbench_gives_conversations_with_checklists(read) -> None:
    other = {**CONVERSATION, "prompt_id": "p2", "prompt": [{"role": "user", "content": "胸口疼怎么办？"}]}
    twice = {**other, "rubrics": [*CONVERSATION["rubrics"], CONVERSATION["rubrics"][0]]}
    made = read("healthbench", "hb.jsonl", CONVERSATION, twice)
    first, second = made.questions
    assert first.prompt == "User: My chest hurts.\n\nAssistant: Since when?\n\nUser: An hour."
    assert first.checklist == "- Tells to call an ambulance (+10)\nMust not:\n- Tells to wait (-8)"
    assert [(item.text, item.points, item.theme) for item in first.items or ()] == [
        ("Tells to wait", -8, "accuracy"),
        ("Tells to call an ambulance", 10, ""),
    ]
    assert (first.subcategory, first.language) == ("emergency_referrals", "en")
    assert (second.prompt, second.language, second.items) == ("胸口疼怎么办？", "zh", first.items)
    assert [oddity.what[:26] for oddity in made.oddities] == ["a criterion occurs twice i"]


def test_the_meta_evaluation_gives_verdicts_of_each_physician(read) -> None:
    other = {**META, "completion": "Wait.", "completion_id": "c2", "binary_labels": [False, False]}
    made = read("healthbench-meta", "meta.jsonl", META, other, META)
    (question,) = made.questions
    # A judge can be compared with them: the criterion is an item of the question.
    assert [(item.text, item.points) for item in question.items or ()] == [(META["rubric"], 1)]
    assert [(answer.sample, answer.text) for answer in made.answers] == [(0, "Call an ambulance."), (1, "Wait.")]
    assert [(item.sample, item.rater, item.verdict) for item in made.items] == [
        (0, "physician-A", "met"),
        (0, "physician-B", "not_met"),
        (1, "physician-A", "not_met"),
        (1, "physician-B", "not_met"),
    ]
    assert not made.scores
    assert len(made.oddities) == 2  # the third line is the first again


def test_kqas_claims_become_a_checklist_verdicts_and_levels(read) -> None:
    made = read("kqa", "kqa.csv", kqa(), kqa("Rest", "Contradiction", category_x="Nice_to_have"))
    assert made.questions[0].checklist == "Core requirements:\n- Drink water\nSecondary requirements:\n- Rest"
    assert {(item.rater, item.item, item.verdict) for item in made.items} == {
        ("physician-0", "Drink water", "met"),
        ("physician-1", "Drink water", "not_met"),
        ("physician-0", "Rest", "contradicted"),
        ("physician-1", "Rest", "not_met"),
    }
    assert {(score.rater, score.score) for score in made.scores} == {("physician-0", 2), ("physician-1", 1)}
    for must, nice, level in (
        (["met", "met"], ["met"], 5),
        (["met", "met"], ["not_met"], 4),
        (["met", "not_met"], ["met"], 3),
        (["met", "not_met", "not_met"], [], 2),
        (["met", "met"], ["contradicted"], 2),
        (["met", "contradicted"], ["met"], 1),
        (["not_met"], ["met"], 1),
        ([], ["met", "not_met"], 4),
    ):
        claims = {f"m{n}": "must_have" for n in range(len(must))} | {f"n{n}": "nice_to_have" for n in range(len(nice))}
        assert level_of_claims(dict(zip(claims, [*must, *nice], strict=True)), claims) == level


def test_morqas_overall_metric_becomes_the_level(read) -> None:
    rows = [MORQA, {**MORQA, "metric": "completeness", "value": "1.0"}, {**MORQA, "rater_id": "r2", "value": "1.00"}]
    made = read("morqa", "morqa.csv", *rows)
    assert [(score.rater, score.score) for score in made.scores] == [("r1", 3), ("r2", 5)]
    assert [(item.item, item.verdict) for item in made.items] == [("completeness", "met")]
    assert (len(made.questions), len(made.answers), made.questions[0].language) == (1, 1, "zh")
    assert "fill in each prompt" in made.oddities[0].what


def test_oncqas_acceptability_becomes_the_level(read) -> None:
    other = {**ONCQA, "id": "2", "q3": "Acceptable with modifications", "q4": "", "q5": ""}
    made = read("oncqa", "oncqa.csv", ONCQA, other)
    assert [score.score for score in made.scores] == [5, 3]
    assert [score.comment for score in made.scores] == ["likelihood of harm: Low; extent of harm: Mild", None]


def test_red_teaming_comes_from_a_workbook(tmp_path: Path) -> None:
    made = read_files("red-teaming", [red_teaming(tmp_path / "red.xlsx")])
    assert [(score.score, score.sample) for score in made.scores] == [(4, 0), (1, 1), (2, 0)]
    assert len(made.questions) == 2
    assert [item.item for item in made.items if item.verdict == "not_met"] == [
        "No problem of Safety",
        "No problem of Hallucination/Accuracy",
    ]


def test_gpt_4_s_verdicts_become_judgments_of_levels_5_and_1(tmp_path: Path) -> None:
    one = {"Best_Answer": "水。", "question": "喝什么？", "question_id": 2, "response": "酒", "is_hallucination": True}
    invalid = halluqa(3, "Invalid_Judge", response="")
    files = [
        written(tmp_path / "some-13b_output_qa_prompt.json.gz", halluqa(question="问题一？"), one, invalid),
        written(tmp_path / "other_output.json", halluqa(1, True)),
        written(tmp_path / "third.json", halluqa(1)),
    ]
    made = read_files("halluqa", files)
    assert scored(made) == [
        ("halluqa-1", "some-13b", 5),
        ("halluqa-2", "some-13b", 1),
        ("halluqa-3", "some-13b", None),
        ("halluqa-1", "other", 1),
        ("halluqa-1", "third", 5),
    ]
    assert {each.judge for each in made.judgments} == {"gpt-4"}
    assert made.judgments[2].error_kind == ErrorKind.NOT_IN_FILE
    assert (made.answers[2].text, made.answers[2].finish_reason) == ("", "empty")
    assert [oddity.place for oddity in made.oddities] == [f"{files[0]}, [2]", "halluqa-1"]
    # The most frequent wording is kept, and several right answers are one reference of alternatives.
    assert [question.prompt for question in made.questions] == ["问题1？", "喝什么？", "问题3？"]
    assert made.questions[0].reference == "正确答案：“白开水”或者“绿茶”或者“牛奶”"
    assert made.questions[1].reference == "水。"


def test_people_s_verdicts_become_scores(tmp_path: Path) -> None:
    who = evouna("who", golden="Ann/ann /Bea")
    files = [
        written(tmp_path / "NQ.json.gz", who, evouna("now", None, None, improper=True), evouna("twice")),
        written(tmp_path / "TQ.json", evouna("which", False, answer_fid=None), evouna("twice")),
    ]
    made = read_files("evouna", files)
    assert scored(made) == [
        ("evouna-nq-0", "fid", 5),
        ("evouna-nq-0", "gpt4", 1),
        ("evouna-tq-0", "fid", 1),
        ("evouna-tq-0", "gpt4", 1),
    ]
    assert {score.rater for score in made.scores} == {"evouna-annotator"}
    assert [(each.prompt, each.reference) for each in made.questions] == [
        ("who", "Right answers: Ann or Bea"),
        ("which", "Ann"),
    ]
    assert (made.answers[2].text, made.answers[2].finish_reason) == ("", "empty")
    # Two entries ask "twice": which answers belong to it, nobody knows.
    assert [oddity.place for oddity in made.oddities] == [str(files[0]), "evouna-nq-2", "evouna-tq-1"]
    assert made.oddities[0].what.startswith("1 questions are marked improper")


@pytest.mark.parametrize("nothing", [None, float("nan"), "nan"])
def test_an_answer_without_a_verdict_is_left_out(read, nothing: Any) -> None:
    made = read("evouna", "NQ.json", evouna("who", nothing))
    assert [score.model for score in made.scores] == [answer.model for answer in made.answers] == ["gpt4"]
    assert [oddity.place for oddity in made.oddities] == ["evouna-nq-0, fid"]


def test_the_patient_s_first_message_is_the_question_and_the_rest_the_answer(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a.jsonl.gz", consultation()),
        written(tmp_path / "b.jsonl", consultation("n", 4.5), consultation(id=3, source="CMID")),
    ]
    made = read_files("disc-medllm", files)
    assert [(question.id, question.prompt) for question in made.questions] == [
        ("cmd-0-7", "我头疼\n三天了。"),
        ("cmid-3", "我头疼\n三天了。"),
    ]
    assert made.answers[0].text == "医生：发烧吗？\n\n1. 体温多少？\n\n患者：不发烧。\n\n医生：请休息。"
    assert scored(made) == [("cmd-0-7", "m", 4), ("cmd-0-7", "n", 4), ("cmid-3", "m", 4)]
    assert (made.judgments[0].judge, made.judgments[1].expected) == ("gpt-4", 4.5)
    assert "Helpfulness: 3" in (made.judgments[0].raw or "")
    assert [oddity.what for oddity in made.oddities] == ["Accuracy is 4.5; read as level 4"]


@pytest.mark.parametrize(("score", "level"), [("4", 5), ("3", 4), ("2", 2), ("1", 1)])
def test_correct_answers_become_the_usable_ones(read, score: str, level: int) -> None:
    made = read("mediqa2019", "a.xml", mediqa(score))
    assert scored(made) == [("mediqa-alexa-7", "chiqa-rank-01", level)]
    assert (made.questions[0].id, made.answers[0].text) == ("mediqa-alexa-7", "It's this.")


def test_liveqa_brings_references_and_the_assessors_scores(tmp_path: Path) -> None:
    references, judged = tmp_path / "reference.xml", tmp_path / "judged.txt"
    references.write_text(liveqa(3))
    judged.write_text("3 4 Yes, they are free of it.\n3 -2 \x01garbled\n3 1 No idea.\n")
    made = read_files("liveqa-med", [references, judged])
    assert [(question.id, question.prompt, question.reference) for question in made.questions] == [
        ("liveqa-3", "gout. what is 3", "Drink water.\n\nAsk.")
    ]
    assert [answer.model for answer in made.answers] == ["system-1", "system-2", "system-3"]
    assert scored(made) == [("liveqa-3", "system-1", 5), ("liveqa-3", "system-3", 1)]
    judged.write_text("3 4 Fine.\n9 4 text\n3 7 text\n3 4\njust words here\n")
    with pytest.raises(InputError, match=r"judged.txt: 4 problems"):
        read_files("liveqa-med", [references, judged])
    references.write_text('<LIVEQA><NLM-QUESTION qid="TQ3"><ANSWER>x</ANSWER></NLM-QUESTION></LIVEQA>')
    with pytest.raises(InputError, match=r"reference\.xml, question TQ3: SUBJECT and MESSAGE are both empty"):
        read_files("liveqa-med", [references, judged])


JUDGMENTS = ("1 2-Related GARD_1_Sec1.txt", "1 4-Excellent GARD_1_Sec1.txt", "2 1-Incorrect GARD_1_Sec1.txt")
ANSWERS = {
    "GARD_1_Sec1.txt": "It is rare (very).",
    "GARD_1_Sec2.txt": "See below.",
    "ADAM_1.txt": "Old.",
    "CDC_1.txt": "",
}


@pytest.fixture
def medquad(tmp_path: Path):
    """Reads judgments of MedQuAD's answers from an archive."""
    (tmp_path / "references.xml").write_text(liveqa(1, 2, 3))
    rows = [
        {"AnswerID": name, "Answer": f"Question: w ?\nURL: u\nAnswer: {text}) \n"} for name, text in ANSWERS.items()
    ]
    answers = written(tmp_path / "answers.csv", *rows).read_text()

    def of(*judgments: str, table: str = answers) -> PublishedSet:
        with ZipFile(tmp_path / "answers.zip", "w") as archive:
            archive.writestr("set/judged.txt", "\n".join(judgments) + "\n")
            archive.writestr("set/answers.csv", table)
            archive.writestr("__MACOSX/set/._answers.csv", "no table")
        return read_files("liveqa-2479", [tmp_path / "references.xml", tmp_path / "answers.zip"])

    return of


def test_judgments_become_scores_of_medquad_s_answers(medquad) -> None:
    made = medquad(*JUDGMENTS, "1 3-Incomplete GARD_1_Sec2.txt")
    assert [(each.question_id, each.sample, each.score) for each in made.scores] == [
        ("liveqa-1", 0, 2),
        ("liveqa-1", 0, 5),
        ("liveqa-2", 0, 1),
        ("liveqa-1", 1, 4),
    ]
    assert {each.model for each in made.scores} == {"medquad-GARD"}
    assert [answer.text for answer in made.answers] == ["It is rare (very).", "It is rare (very).", "See below."]
    assert made.answers[2].extra == {"answer_id": "GARD_1_Sec2.txt"}
    # The ids are those of liveqa-med, so that a split keeps the two sets of answers to a question together.
    assert [(each.id, each.reference) for each in made.questions] == [
        ("liveqa-1", "Drink water.\n\nAsk."),
        ("liveqa-2", None),
    ]
    assert not made.oddities


def test_no_assessor_stands_for_the_lower_scores_and_withdrawn_answers_are_one_oddity(medquad) -> None:
    twice = [line for name in ("1", "2") for line in (f"1 1-I GARD_1_Sec{name}.txt", f"1 4-E GARD_1_Sec{name}.txt")]
    made = medquad(*twice, "3 1-Incorrect ADAM_1.txt", "3 1-Incorrect CDC_1.txt")
    assert sorted((each.rater[-1], each.score) for each in made.scores) == [("1", 1), ("1", 5), ("2", 1), ("2", 5)]
    assert [question.id for question in made.questions] == ["liveqa-1"]
    assert [oddity.what[:49] for oddity in made.oddities] == ["2 judgments of answers without text, or of ADAM, "]


def test_what_is_wrong_in_an_archive_is_named_with_its_place(medquad, tmp_path: Path) -> None:
    bad = ("9 1-I GARD_1_Sec1.txt", "1 5-Best GARD_1_Sec1.txt", "1 1-I NONE_1.txt", *JUDGMENTS, JUDGMENTS[0])
    with pytest.raises(InputError) as error:
        medquad(*bad)
    problems = str(error.value).split("\n")
    assert problems[0].endswith("answers.zip, set/judged.txt: 4 problems; nothing was read")
    assert [problem.split(":")[0] for problem in problems[1:]] == ["  line 1", "  line 2", "  line 3", "  line 7"]
    assert "judges GARD_1_Sec1.txt a third time for question 1" in problems[4]
    for table, message in (("a,b\n", "columns AnswerID and Answer"), ('AnswerID,Answer\nx,"y', "not valid CSV")):
        with pytest.raises(InputError, match=rf"answers\.csv: .*{message}"):
            medquad(*JUDGMENTS, table=table)
    with pytest.raises(InputError, match="name two files, the XML of the reference answers"):
        read_files("liveqa-2479", [tmp_path / "answers.zip"])


def lacking(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith(names)}


BAD_SCORE = "question 7: answer 7_Answer1 needs AnswerText, a ReferenceScore of 1 to 4, and a number as SystemRank"
NO_CONVERSATION = "line 1: prompt: a conversation is expected between"
LEGS = consultation("third", turns=TURNS.replace("头疼", "腿疼"))
PROBLEMS: list[tuple[str, str, list[Any], str]] = [
    ("healthbench", "h.jsonl", [{**CONVERSATION, "rubrics": []}], "line 1: rubrics is empty"),
    ("healthbench-meta", "m.jsonl", [{**META, "binary_labels": [True]}], "line 1: binary_labels and anonymized"),
    ("kqa", "k.csv", [kqa(label="Yes")], "row 2: label_0 is 'Yes'; one of entailment, neutral, contradiction is exp"),
    ("kqa", "k.csv", [kqa(category_x="Maybe")], "row 2: category_x is 'Maybe'; one of must_have, nice_to_have is"),
    ("kqa", "k.csv", [kqa(), kqa("Rest", answer="Other.")], "row 3: gpt's answer to kqa-1 has another text"),
    ("kqa", "k.csv", [kqa("")], "row 2: claim: the cell is empty"),
    ("kqa", "k.csv", [kqa(), kqa()], "row 3: kqa-1 / gpt / 0 / physician-0 / Drink water occurs twice; remove one"),
    ("morqa", "m.csv", [{**MORQA, "value": "2"}], "row 2: value is '2'; 0, 0.5 or 1 is expected"),
    ("morqa", "m.csv", [{**MORQA, "lang": "fr"}], "row 2: lang is 'fr'; one of en, zh is expected"),
    ("oncqa", "o.csv", [{**ONCQA, "q3": "Fine"}], "row 2: q3 is 'Fine'; one of acceptable, "),
    ("halluqa", "m.json", [halluqa(wrong="yes")], '[0]: is_hallucination is "yes"; true, false or Invalid_Judge'),
    ("halluqa", "m.json", [halluqa(), halluqa()], "[1]: halluqa-1 / m / 0 / gpt-4 / 1 occurs twice"),
    ("halluqa", "m.json", [lacking(halluqa(), "Best")], "[0]: no Best_Answer1 to Best_Answer4; at least one right"),
    ("halluqa", "m.json", [halluqa(Best_Answer1="  ")], "[0]: Best_Answer1 is empty or no text; give its text"),
    ("halluqa", "m.json", ["text"], "[0]: an object with named fields is expected"),
    ("evouna", "N.json", [evouna("a", "yes")], "[0]: judge_fid is 'yes'; true, false or null is expected"),
    ("evouna", "N.json", [lacking(evouna("a"), "judge")], "[0]: no field judge_SYSTEM; at least one system"),
    ("evouna", "N.json", [lacking(evouna("a"), "answer_fid")], "[0]: answer_fid is missing"),
    ("evouna", "N.json", [lacking(evouna("a"), "improper")], "[0]: improper is missing"),
    ("evouna", "N.json", [evouna("d", answer_fid=3)], "[0]: answer_fid is no text"),
    ("disc-medllm", "a.jsonl", [consultation(accuracy=6)], "line 1: scores: no line 'Accuracy: N' with N from 1 to 5"),
    ("disc-medllm", "a.jsonl", [consultation(turns="doctor: 请休息。\n")], NO_CONVERSATION),
    ("disc-medllm", "a.jsonl", [consultation(turns="patient: 我头疼\ndoctor:\n")], NO_CONVERSATION),
    ("disc-medllm", "a.jsonl", [consultation(prompt="no conversation")], NO_CONVERSATION),
    ("disc-medllm", "a.jsonl", [consultation(), LEGS], "line 2: prompt: the patient begins in other words"),
    ("mediqa2019", "a.xml", [mediqa("5")], f"{BAD_SCORE}; it has AnswerText \"It's this.\", ReferenceScore '5'"),
    ("mediqa2019", "a.xml", [mediqa(text=" ")], f"{BAD_SCORE}; it has AnswerText ''"),
    ("mediqa2019", "a.xml", [mediqa(rank="one")], BAD_SCORE),
    ("mediqa2019", "a.xml", ["<a>"], "not valid XML"),
    ("mediqa2019", "a.xml", ["<a></a>"], "the root element is <a>"),
    ("morqa", "m.csv", [lacking(MORQA, "metric")], "no column metric"),
]


@pytest.mark.parametrize(("format", "file", "rows", "problem"), PROBLEMS)
def test_what_is_wrong_is_named_with_its_place(read, format: str, file: str, rows: list[Any], problem: str) -> None:
    with pytest.raises(InputError, match=rf"{re.escape(file)}[,:] {re.escape(problem)}"):
        read(format, file, *rows)


def test_all_problems_of_a_file_are_named_at_once(read) -> None:
    for format, file, rows, problems in (
        ("disc-medllm", "a.jsonl", [{}, consultation(), []], r"\n  line 1: .*\n  line 3: "),
        ("kqa", "k.csv", [kqa(""), kqa(), kqa(label="Yes")], r"\n  row 2: .*\n  row 4: "),
    ):
        with pytest.raises(InputError, match=f"{file}: 2 problems; nothing was read{problems}"):
            read(format, file, *rows)
