"""The options of a multiple choice, and which of them an answer chooses."""

import pytest

from medjudge.text.options import chosen_options, options_of

EN = "What comes first in anaphylaxis?\nA. oral cetirizine\nB. intramuscular adrenaline\nC. rest in bed\nD. an X-ray"
ZH = "下列哪项不属于高血压的危险因素？ A 吸烟 B 肥胖 C 低盐饮食 D 饮酒"
LOWER = "Which vessel carries oxygenated blood? a) pulmonary artery b) pulmonary vein c) vena cava"


@pytest.mark.parametrize(
    ("question", "options"),
    [
        (EN, {"A": "oral cetirizine", "B": "intramuscular adrenaline", "C": "rest in bed", "D": "an X-ray"}),
        (ZH, {"A": "吸烟", "B": "肥胖", "C": "低盐饮食", "D": "饮酒"}),
        (LOWER, {"A": "pulmonary artery", "B": "pulmonary vein", "C": "vena cava"}),
        ("剂量为：A.5mg，B.10mg，C.20mg", {"A": "5mg", "B": "10mg", "C": "20mg"}),
        ("Is hepatitis A or B worse, and is vitamin C of use?", {}),
        ("How is asthma treated?", {}),
        ("是否可以服用 A 药和 B 药？", {}),
        ("A 60-year-old man is ill.\nA. aspirin\nB. codeine\nExplain why.", {"A": "aspirin", "B": "codeine"}),
    ],
)
def test_options_are_read_with_their_texts(question: str, options: dict[str, str]) -> None:
    assert dict(options_of(question)) == options


@pytest.mark.parametrize(
    ("question", "answer", "chosen"),
    [
        (EN, "B", "B"),
        (EN, "(b)", "B"),
        (EN, "B. intramuscular adrenaline", "B"),
        (EN, "**B. intramuscular adrenaline**\nbecause A acts too slowly", "B"),
        (EN, "A acts too slowly. The correct answer is (B).", "B"),
        (EN, "I would say A, but on reflection the answer is B, because it acts at once.", "B"),
        (EN, "Intramuscular adrenaline comes first.", "B"),
        (EN, "Option A is incorrect. Option B is correct.", "B"),
        (EN, "A, C and D", "ACD"),
        (EN, "The correct answers are:\nA. oral cetirizine\nC. rest in bed", "AC"),
        # The article is no label, and an answer that lists or names them all chooses none.
        (EN, "A common mistake is to wait.", ""),
        (EN, "A. oral cetirizine\nB. intramuscular adrenaline\nC. rest in bed\nD. an X-ray", ""),
        (EN, "It depends on the patient.", ""),
        (ZH, "C", "C"),
        (ZH, "选C。", "C"),
        (ZH, "C、低盐饮食", "C"),
        (ZH, "A吸烟、B肥胖、D饮酒均为危险因素，故正确答案是C。", "C"),
        (ZH, "A正确，B正确，C不属于，D正确", "C"),
        (ZH, "低盐饮食", "C"),
        (LOWER, "The answer is b) pulmonary vein.", "B"),
        (LOWER, "Option b is correct.", "B"),
        ("How is asthma treated?", "B", ""),
    ],
)
def test_the_chosen_options_are_recognized(question: str, answer: str, chosen: str) -> None:
    assert "".join(sorted(chosen_options(question, answer))) == chosen


def test_a_long_list_of_labels_is_read_at_once() -> None:
    """Labels behind each other must not take time that doubles with each."""
    assert chosen_options(EN, "A        " * 60 + "x") == frozenset()
