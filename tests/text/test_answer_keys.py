"""References that are keys or notes, and whether an answer states the key."""

import pytest

from medjudge.text.answer_keys import in_words, is_no_reference, stated, stated_truth

CHOICE = "首选的降压药是？ A. 硝苯地平 B. 氯沙坦 C. 普萘洛尔"
SEVERAL = "Which are loop diuretics? A. furosemide B. amiloride C. torasemide"


@pytest.mark.parametrize(
    ("question", "reference", "answer", "expected"),
    [
        (CHOICE, "B", "选B", "right"),
        (CHOICE, "答案：B", "应选择氯沙坦。", "right"),
        (CHOICE, "B. 氯沙坦", "A", "wrong"),
        (CHOICE, "B", "无法回答这个问题。", None),
        (CHOICE, "B", "氯沙坦，而不是硝苯地平。", None),
        (CHOICE, "B", "应选B，而不选A。", "right"),
        ("布洛芬可用于妊娠晚期。 A. 对 B. 错", "B", "错误", "right"),
        (SEVERAL, "B", "The answer is B, C is not enough.", "right"),
        (SEVERAL, "B", "The answer is B. Do not choose A.", "right"),
        (SEVERAL, "B", "A. Too slow.\nC. Not enough.\nTherefore B is correct.", "right"),
        (
            "All are loop diuretics EXCEPT: A. furosemide B. amiloride C. torasemide",
            "B",
            "A is correct. B is incorrect. C is correct.",
            "right",
        ),
        # It names the right one, and others too: only a reader can say what it means.
        (CHOICE, "B", "氯沙坦和普萘洛尔都可以考虑，要看患者的情况。", None),
        (CHOICE, "B", "有人用B，也有人用别的，需要结合病情来看，没有定论，也要看患者能不能耐受各种副作用。", None),
        (CHOICE, "B", f"您问的是：{CHOICE}", "wrong"),
        (SEVERAL, "A, C", "A and C", "right"),
        (SEVERAL, "AC", "A", "wrong"),
        ("布洛芬可用于妊娠晚期。", "错误", "错误，妊娠晚期禁用。", "right"),
        ("布洛芬可用于妊娠晚期。", "错", "该说法正确。", "wrong"),
        ("True or false: insulin lowers glucose.", "T", "True.", "right"),
        ("True or false: insulin lowers glucose.", "True", "False, it raises it.", "wrong"),
        ("True or false: insulin lowers glucose.", "True", "Insulin is a hormone.", None),
        ("Which drug reverses heparin?", "protamine", "Give protamine sulfate slowly.", "term"),
        ("Which drug reverses heparin?", "protamine", "It is not protamine.", None),
        ("Which drug reverses heparin?", "protamine", "Protamine is not used here; give vitamin K.", None),
        ("Which drug?", "protamine", "——", None),
        ("Which vitamin?", "vitamin K", "Vitamin K1 or B12.", None),
        ("How much?", "5-10 mg", "510 mg", None),
        ("How much?", "1,000 mg", "Give 1,000 mg.", "term"),
        ("How many lobes has the left lung?", "3", "It has 2 lobes, not 3.", None),
        ("Which drug reverses heparin?", "protamine", "Vitamin K.", None),
        ("最可能的诊断是？", "最可能的诊断是中暑或热衰竭", "考虑热衰竭。", "term"),
        ("最可能的诊断是？", "回答“胆道梗阻”或“梗阻性黄疸”均可", "梗阻性黄疸", "term"),
        ("最可能的诊断是？", "提到“克氏综合征”即可", "克氏综合征（47,XXY）", "term"),
        ("负荷剂量是多少？", "31.5mg/kg", "负荷剂量为31.5 mg/kg。", "term"),
        ("负荷剂量是多少？", "31.5mg/kg", "负荷剂量为21.5 mg/kg。", None),
        ("What is it?", "The most likely diagnosis is gout or pseudogout", "Gout.", "term"),
        ("What helps a sprain?", "rest", "Restless legs are something else.", None),
        ("What helps a sprain?", "splint", "Splints help.", "term"),
        ("病史中有什么病？", "高血压", "否认高血压、糖尿病。", None),
        ("三联疗法包括哪些药？", "阿莫西林、克拉霉素和奥美拉唑", "奥美拉唑，加阿莫西林及克拉霉素", "term"),
        ("三联疗法包括哪些药？", "阿莫西林、克拉霉素和奥美拉唑", "阿莫西林和克拉霉素", None),
        ("How many lobes has the left lung?", "2", "It has 2 lobes. The right one has 3.", "term"),
        ("How many lobes has the left lung?", "2", "It has 12 lobes.", None),
        ("What is the dose?", "5 mg", "15 mg", None),
        ("What is the dose?", "2.5 mg", "25 mg", None),
        ("What is the dose?", "2.5 mg", "2.5mg daily", "term"),
        # The question offers both words, so repeating one says nothing here; nor is a sentence a key.
        ("Warm or cold?", "warm", "Warm or cold, both work.", None),
        ("How is it treated?", "Rest first. Then see a doctor.", "Rest first. Then see a doctor.", None),
    ],
)
def test_an_answer_states_the_key_or_does_not(question: str, reference: str, answer: str, expected: str | None) -> None:
    assert stated(question, reference, answer) == expected


@pytest.mark.parametrize(
    ("answer", "truth"),
    [
        ("对的，可以。", True),
        ("不一定。", False),
        ("不仅如此", None),
        ("这个说法是不正确的。", False),
        ("Not necessarily.", False),
        ("No doubt it helps.", None),
        ("Correct answer: False", False),
        ("**Answer:** True", True),
        ("正确答案：错误", False),
        ("不知道。", None),
        ("没有错。", True),
        ("Right ventricular failure.", None),
        ("Yes and no.", None),
        ("No idea.", None),
        ("In short, this statement is correct.", True),
        ("This statement is false, although many think this claim is true.", None),
    ],
)
def test_what_an_answer_affirms(answer: str, truth: bool | None) -> None:
    assert stated_truth(answer) is truth


@pytest.mark.parametrize(
    "note", ["主观题", "（主观题，无）", "略", "开放题无标准答案", "Subjective question", "N/A", "（  ）"]
)
def test_a_note_that_there_is_no_reference_is_none(note: str) -> None:
    assert is_no_reference(note)
    assert in_words("How are you?", note) == ""


@pytest.mark.parametrize(
    "reference",
    [
        "略微升高",
        "无",
        "Subjective complaints are headache, nausea, stiff neck and fever for several days by now.",
    ],
)
def test_a_reference_that_begins_like_a_note_is_one(reference: str) -> None:
    assert not is_no_reference(reference)
    assert in_words("How are you?", reference) == reference


def test_letters_are_put_into_words_for_the_reader() -> None:
    assert in_words(SEVERAL, "C、A") == "A. furosemide\nC. torasemide"
    assert in_words("Which blood group?", "A") == "A"
