"""Tables as spreadsheet programs and people leave them: what would change a text is refused, with its cell."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from medjudge.annotate.scores import read_physician_scores
from medjudge.benchmark.expert_tables import read_morqa
from medjudge.benchmark.files import check_file
from medjudge.benchmark.own_files import read_own_answers, read_own_questions
from medjudge.errors import InputError
from medjudge.scheme import LLMEVAL_MED
from medjudge.tables.encodings import read_as
from medjudge.tables.spreadsheets import artefact

QUESTIONS, ANSWERS = "id,category,prompt,reference", "question_id,model,text"
SCORES = "question_id,model,rater,score,comment"


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes lines in an encoding."""

    def write(*lines: str, encoding: str = "utf-8", name: str = "own.csv") -> Path:
        path = tmp_path / name
        path.write_bytes("".join(line + "\r\n" for line in lines).encode(encoding))
        return path

    return write


@pytest.fixture
def book(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows into a workbook; a pair is a value and its number format."""

    def write(*rows: list[Any], name: str = "own.xlsx") -> Path:
        workbook = Workbook()
        for number, row in enumerate(rows, 1):
            for column, value in enumerate(row, 1):
                value, code = value if isinstance(value, tuple) else (value, None)
                cell = workbook.active.cell(number, column, value)
                if code:
                    cell.number_format = code
        workbook.save(tmp_path / name)
        return tmp_path / name

    return write


def questions(path: Path) -> list[Any]:
    return read_own_questions(path, LLMEVAL_MED)


def refused(read: Callable[[Path], Any], path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value)


# --- A separator without quotes --------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_row_of_more_cells_than_headings_is_refused_by_every_reader(table, separator: str) -> None:
    def written(heading: str, *rows: str) -> Path:
        return table(*(line.replace(",", separator) for line in (heading, *rows)))

    answers = written(ANSWERS, "q1,m,At most 4 g", "q2,m,At most 4 g, less in liver disease", "q3,m,No, never, ever")
    message = refused(read_own_answers, answers)
    assert message.startswith(f"{answers}: 2 problems; nothing was read")
    assert "row 3: 4 cells under 3 headings; quote texts that contain a separator" in message
    assert "row 4: 5 cells under 3 headings" in message
    assert "row 3" in refused(check_file, answers)
    assert "row 2: 5 cells under 4" in refused(questions, written(QUESTIONS, "q1,MK,Fever, and rash?,See a doctor"))
    assert "row 2: 6 cells under 5" in refused(read_physician_scores, written(SCORES, "q1,m,dr,4,safe, but short"))
    columns = "dataset,encounter_id,candidate,candidate_author_id,lang,rater_id,metric,value"
    assert "row 2: 9 cells under 8" in refused(read_morqa, written(columns, "d,e1,Rest, and drink,a,en,r,overall,1"))


def test_a_text_behind_a_blank_heading_is_not_lost_but_row_numbers_need_none(table) -> None:
    path = table("id,category,prompt,,reference", "q1,MK,Fever?,and rash?,See a doctor", "q2,MK,Dose?,,4 g")
    assert "row 2: 5 cells under 4 headings" in refused(questions, path)
    assert "row 2: 4 cells under 3 headings" in refused(read_own_answers, table(f"{ANSWERS},", "q1,m,No, never"))
    numbered = table(f",{ANSWERS}", "0,q1,m,4 g", "1,q2,m,5 g")  # as pandas writes it
    assert [answer.text for answer in read_own_answers(numbered)] == ["4 g", "5 g"]
    assert len(read_own_answers(table(ANSWERS, "q1,m,4 g,,", '"q2",m,"No, never"'))) == 2


def test_a_workbook_that_was_made_of_such_a_file_is_refused_and_a_note_beside_a_table_is_not(book) -> None:
    shifted = book(ANSWERS.split(","), ["q1", "m", "At most 4 g", "less in liver disease"])
    assert "row 2: 4 cells under 3 headings, D2 under none" in refused(read_own_answers, shifted)
    (answer,) = read_own_answers(book(ANSWERS.split(","), ["q1", "m", "4 g", None, "to be checked"]))
    assert answer.text == "4 g"


def test_a_line_break_without_quotes_cuts_no_text(table, question) -> None:
    answers = table("question_id,prompt,model,text", "q1,Dose?,m,At most 4 g", "less, in liver disease", "q2,Why?,,")
    known = [question(id="q1"), question(id="q2")]
    message = refused(lambda path: read_own_answers(path, known), answers)
    assert 'row 3: "less" is no question of the benchmark, and model and text are blank; quote texts' in message
    answers = table("question_id,prompt,model,text", "q1,Dose?,m,At most 4 g", "less in liver disease", "q2,Why?,,")
    assert "row 3: 1 cell under 4 headings; quote texts that contain a line break" in refused(check_file, answers)
    scores = table("question_id,model,rater,score,comment", "q1,m,dr,4,safe", "but short")
    assert "row 3: 1 cell under 5 headings" in refused(read_physician_scores, scores)
    answers = table("question_id,prompt,model,text", 'q1,Dose?,m,"At most 4 g', 'less in liver disease"', "q2,Why?,,")
    assert [answer.text for answer in read_own_answers(answers, known)] == ["At most 4 g\r\nless in liver disease"]


def test_a_shift_that_leaves_the_number_of_cells_right_is_named(table, capsys) -> None:
    questions(table(f"{QUESTIONS},checklist", "q1,MK,Fever, and rash?,See a doctor", "q2,MK,Dose?,4 g,Names it"))
    assert "own.csv, row 2: reference begins with a space; if it belongs to the text" in capsys.readouterr().err
    answers = table(f"{ANSWERS},finish_reason", "q1,m,At most 4 g, never more", "q2,m,4 g,stop")
    assert 'row 2: finish_reason is "never more", and one word such as stop' in refused(read_own_answers, answers)


# --- Encodings -------------------------------------------------------------------------------------------------------

WESTERN = [
    "What is a patient’s daily dose?,10 µg",
    "How high is a fever?,38 °C",
    "Höchstdosis für Erwachsene täglich?,größere Mengen schädigen",
    "Quelle est la dose de paracétamol?,moins si hépatite",
    "¿Cuánto al año?,máximo cuatro gramos",
]
JAPANESE = "大人は一日に何グラム飲んでよいですか。,四グラム"
KOREAN = "환자는 하루에 아세트아미노펜을 얼마나 복용할 수 있습니까? 간 질환이 있으면 의사와 상의하십시오,사 그램"
OTHERS = [(encoding, text) for encoding in ("cp1252", "mac_roman", "cp850") for text in WESTERN]
OTHERS += [("big5", "成人一天最多可以服用多少普拿疼？,四克"), ("shift_jis", JAPANESE), ("euc_jp", JAPANESE)]
OTHERS += [("euc_kr", KOREAN)]


@pytest.mark.parametrize(("encoding", "text"), OTHERS)
def test_another_encoding_is_never_read_as_chinese_until_it_is_named(table, encoding: str, text: str) -> None:
    text = text.encode(encoding, "ignore").decode(encoding)
    path = table(QUESTIONS, f"q1,MK,{text}", encoding=encoding)
    message = refused(questions, path)
    assert "not UTF-8, and read as GB18030 it would hold '" in message or "neither UTF-8 nor GB18030" in message
    assert "--encoding" in message
    token = read_as.set(encoding)
    try:
        (question,) = questions(path)
    finally:
        read_as.reset(token)
    assert f"{question.prompt},{question.reference}" == text


@pytest.mark.parametrize(
    "text",
    [
        "CT和MRI哪个更准确？,两者都可以",
        "维生素A或B的剂量？,β受体阻滞剂",
        "黄疸的原因？,肝病",
        "射干麻黄汤由什么组成？,射干、麻黄、五味子、半夏、细辛、紫菀、款冬花、生姜、大枣",
        "王喆医生怎么说？,喆",
    ],
)
def test_chinese_of_excel_is_read_and_its_encoding_is_said_once(table, text: str, capsys) -> None:
    path = table(QUESTIONS, f"q1,MK,{text}", encoding="gb18030")
    assert check_file(path).counts["languages"] == {"zh": 1}
    assert questions(path)[0].prompt == text.partition(",")[0]
    assert capsys.readouterr().err == f"{path}: not UTF-8; read as GB18030 (--encoding names another)\n"


def test_an_encoding_is_named_on_the_command_line(medjudge, table) -> None:
    path = table(SCORES.replace(",", ";"), "q1;m;Dr. Müller;4;10 µg are enough", encoding="cp1252")
    done = medjudge("data", "check", path, "--encoding", "cp1252")
    assert (done.returncode, "raters: {'Dr. Müller': 1}" in done.stdout) == (0, True), done.stderr
    assert "read as CP1252" in done.stderr
    assert medjudge("data", "check", path).returncode == 2
    unknown = medjudge("data", "check", path, "--encoding", "rot13")
    assert unknown.returncode == 2
    assert "--encoding rot13: is not known; cp1252, gb18030, big5" in unknown.stderr
    wide = table(ANSWERS.replace(",", "\t"), "q1\tm\t10 µg", encoding="utf-16", name="own.tsv")
    assert "byte 0 is 0xff" in medjudge("data", "check", wide).stderr
    assert medjudge("data", "check", wide, "--encoding", "utf-16").returncode == 0


# --- Headings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["reference", "Reference", " REFERENCE ", "Ｒeference", "参考答案"])
def test_two_columns_of_one_name_are_refused(table, book, again: str) -> None:
    path = table(f"{QUESTIONS},{again}", "q1,MK,Dose?,4 g,")
    assert f"reference in D1 and {again.strip()} in E1 are one column; rename or remove" in refused(questions, path)
    path = book([*QUESTIONS.split(","), again], ["q1", "MK", "Dose?", "4 g", "8 g"])
    assert "in D1 and " in refused(check_file, path)


def test_two_spellings_of_a_field_in_json_are_refused(jsonl) -> None:
    row = {"id": "q1", "category": "MK", "prompt": "Dose?", "reference": "4 g"}
    message = refused(questions, jsonl("q.jsonl", {**row, "Reference": "8 g"}, {**row, "id": "q2", "参考答案": "8 g"}))
    assert "line 1: field 'Reference' is reference a second time; remove one of the two" in message
    assert "line 2: reference occurs twice, in Chinese" in message


def test_chinese_headings_are_understood(table, book, jsonl, capsys) -> None:
    rows = ["题号,类别,问题,参考答案,打分要点", "q1,MK,一天多少？,4克,说明剂量"]
    (question,) = questions(table(*rows, encoding="gb18030"))
    assert (question.id, question.reference, question.checklist) == ("q1", "4克", "说明剂量")
    assert questions(table("问题编号,类别,问题,答案", "q1,MK,一天多少？,4克"))[0].reference == "4克"
    fields = ["问题编号", "模型", "回答（全文）"]
    (answer,) = read_own_answers(book(fields, ["q1", "m", "4克"]))
    assert (answer.question_id, answer.model, answer.text) == ("q1", "m", "4克")
    assert read_own_answers(table("编号,模型,答案", "q1,m,4克")) == [answer]
    assert read_own_answers(jsonl("a.jsonl", {"问题编号": "q1", "模型": "m", "回答": "4克"})) == [answer]
    (score,) = read_physician_scores(table("问题编号,模型,评分人,评分,备注", "q1,m,王医生,4,偏高"))
    assert (score.question_id, score.rater, score.score, score.comment) == ("q1", "王医生", 4, "偏高")
    dimensions = "指令遵循,正确性,有效性,可读性,安全性"
    (score,) = read_physician_scores(table(f"问题编号,模型,医生,{dimensions}", "q1,m,王医生,5,4,5,5,1"))
    assert score.dimensions is not None
    assert (score.dimensions.correctness, score.dimensions.safety) == (4, 1)
    (wide,) = read_physician_scores(table("问题编号,模型,评分", "q1,m,4"), ["评分"])  # a rater of this name
    assert (wide.rater, wide.score) == ("评分", 4)


def test_unknown_chinese_headings_are_answered_with_the_known_ones(table) -> None:
    known = "问题编号 = question_id"
    assert known in refused(questions, table("题号,类别,我的问题", "q1,MK,一天多少？"))
    assert known in refused(read_physician_scores, table("问题号码,模型,评分人,评分", "q1,m,dr,4"))
    assert known in refused(read_physician_scores, table("问题编号,模型,评分员,评分", "q1,m,dr,4"))
    assert known not in refused(read_physician_scores, table("question_id,model,score", "q1,m,4"))


# --- What spreadsheet programs make of texts -------------------------------------------------------------------------


def test_dates_errors_and_percentages_are_refused_with_their_cells(book) -> None:
    path = book(
        ["id", "category", "prompt", "reference", "seen"],
        ["q1", "MK", "When?", datetime.date(2024, 1, 2), datetime.date(2024, 1, 2)],
        [(datetime.date(2024, 3, 1), "mmm-yy"), "MK", "When?", "x"],
        ["q3", "MK", "Which share?", (0.3, "0%")],
        ["q4", "MK", "Blood pressure?", "#NAME?"],
        ["q5", "MK", "At what time?", datetime.time(8, 30)],
        ["q6", "MK", "Which dose?", (5, '0" mg"')],
        ["q7", "MK", "Which ratio?", (0.5, "# ?/?")],
        ["q8", "MK", "Which code?", (17, "0000")],
        [12345678901234567, "MK", "Which number?", "x"],
        [True, "MK", "Which number?", "x"],
        ["q11", "MK", "=1+1", "x"],
        ["q12", "MK", "How much?", (4.0, "0.00"), datetime.date(2024, 1, 2)],
        ["q13", "MK", "Is it safe?", True],
    )
    message = refused(questions, path)
    for part in (
        "own.xlsx: 11 problems; nothing was read",
        "row 2: reference in D2 is 2024-01-02 00:00:00, which the spreadsheet program converted to a date",
        "row 3: id in A3 is 2024-03-01 00:00:00",
        "row 4: reference in D4 is the number 0.3, shown in the format 0%; format the column as text",
        "row 5: reference in D5 is #NAME?",
        "row 6: reference in D6 is 08:30:00",
        'row 7: reference in D7 is the number 5, shown in the format 0" mg"',
        "row 8: reference in D8 is the number 0.5, shown in the format # ?/?",
        "row 9: reference in D9 is the number 17, shown in the format 0000",
        "row 10: id in A10 is 1.234567890123457e+16, a number of which",
        "row 11: id in A11 is True",
        "row 12: prompt in C12 holds a formula without a value",
    ):
        assert part in message, message
    assert "E2" not in message  # a column that nothing reads


def test_numbers_are_the_texts_that_were_typed(book) -> None:
    read = questions(book(QUESTIONS.split(","), [17.0, "MK", "How much?", (4.0, "0.00_ ")], [18, "MK", "?", 0.5]))
    assert [(question.id, question.reference) for question in read] == [("17", "4"), ("18", "0.5")]


@pytest.mark.parametrize(
    "text",
    ["#NAME?", "#DIV/0!", "#N/A", "#REF!", "#WERT!", "#¿NOMBRE?", "#NV", "########", "Err:508", "2-Jan", "3月4日"],
)
def test_artefacts_in_a_csv_file_are_refused_in_every_table(table, text: str) -> None:
    assert f"row 2: text in C2 is {text}, which" in refused(read_own_answers, table(ANSWERS, f"q1,m,{text}"))
    for cells, cell in ((f"{text},m,dr,4,", "question_id in A2"), (f"q1,m,dr,4,{text}", "comment in E2")):
        assert f"{cell} is {text}, which" in refused(read_physician_scores, table(SCORES, cells))
    assert "score in D2 is" in refused(read_physician_scores, table(SCORES, f"q1,m,dr,{text},"))


@pytest.mark.parametrize("text", ["#1 is right!", "# Fever", "C#", "Number 2!", "2024-01-02", "1-2", "30%", "Jan", "#"])
def test_texts_that_people_write_are_no_artefacts(text: str) -> None:
    assert artefact(text) is None


def test_an_id_in_scientific_notation_is_refused_and_a_reference_is_not(table) -> None:
    assert "id in A2 is 1.23E+11" in refused(questions, table(QUESTIONS, "1.23E+11,MK,How many?,1.0E+05"))
    assert questions(table(QUESTIONS, "q1,MK,How many?,1.0E+05"))[0].reference == "1.0E+05"


def test_a_percentage_is_no_score(book) -> None:
    path = book(SCORES.split(","), ["q1", "m", "dr", (1, "0%"), None], ["q2", "m", "dr", (4, '0"分"'), "fine"])
    message = refused(read_physician_scores, path)
    assert "row 2: score in D2 is the number 1, shown in the format 0%; a whole number from 1 to 5" in message
    assert "row 3" not in message
