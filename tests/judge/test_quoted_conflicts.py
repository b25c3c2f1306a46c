"""Facts changed in a sentence that is otherwise taken word for word."""

import pytest

from medjudge.judge.quoted_conflicts import misquoted

ENGLISH = "Adults with a chronic cough may take 5 mg of it with a meal twice a day."
CHINESE = "慢性咳嗽的患者应在饭后服用布洛芬，每日两次，每次5毫克。"


def wrong(text: str, answer: str) -> list[str]:
    return [text[slice(*stretch)] for stretch in misquoted(text, answer)]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (ENGLISH, "5 mg", "50 mg"),
        (ENGLISH, "5 mg", "5 g"),
        (ENGLISH, "chronic", "acute"),
        (ENGLISH, "may", "may not"),
        (ENGLISH, "may", "should never"),
        (ENGLISH, "with a meal", "without a meal"),
        (ENGLISH, "Adults", "Children"),
        (CHINESE, "5毫克", "50毫克"),
        (CHINESE, "慢性", "急性"),
        (CHINESE, "应", "不应"),
        (CHINESE, "布洛芬", "依那普利"),
        (CHINESE, "饭后", "饭前"),
    ],
)
def test_another_fact_in_its_place_makes_a_sentence_wrong(text: str, old: str, new: str) -> None:
    assert old in text
    answer = text.replace(old, new)
    assert wrong(text, answer) == [text]
    # The fact that stands elsewhere, too, is no excuse.
    assert wrong(text, f"{answer}\n{old}") == [text]


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (ENGLISH, ENGLISH.replace("may take", "can have")),
        (ENGLISH, ENGLISH.replace("5 mg", "0.005 g")),
        (ENGLISH, ENGLISH.replace(" with a meal", "")),
        (CHINESE, CHINESE.replace("每次5毫克", "一次5毫克")),
        (CHINESE, CHINESE.replace("服用", "口服")),
        ("Whether it is of any use in children is not known.", "Whether it is of any use in children is unknown."),
        ("Pulse 98, oxygen saturation 95 %, weight not stated.", "Pulse 98, oxygen saturation 95 %."),
        ("Give paracetamol to adults with a fever at night.", "Give acetaminophen to adults with a fever at night."),
        ("也可采用泼尼松和喷昔洛韦等药品进行治疗。", "也可使用泼尼松和喷昔洛韦等药物进行治疗。"),
        ("Raise the left leg and then the right leg a little.", "Raise the right leg and then the left leg a little."),
    ],
)
def test_other_words_for_the_same_and_less_of_it_are_no_conflict(text: str, answer: str) -> None:
    assert not wrong(text, answer)


def test_part_of_a_drugs_name_is_enough() -> None:
    assert wrong("首选缬沙坦治疗该患者的高血压。", "首选氯沙坦治疗该患者的高血压。")


def test_only_the_changed_row_of_a_table_is_wrong() -> None:
    rows = ["| 13675 | 67 | 女 | 糖尿病 | 重度 | 阿莫西林 |", "| 59255 | 87 | 男 | 骨折 | 中度 | 阿莫西林 |"]
    assert wrong("\n".join(rows), "\n".join([rows[0], rows[1].replace("阿莫西林", "阿司匹林")])) == [rows[1]]
