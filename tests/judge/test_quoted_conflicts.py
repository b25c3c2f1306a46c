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
        ("建议口服泼尼松治疗该病的急性发作。", "建议给予泼尼松治疗该病的急性发作。"),
        ("静脉滴注紫杉醇治疗晚期卵巢癌患者。", "静脉使用紫杉醇治疗晚期卵巢癌患者。"),
        ("高脂血症的患者可长期服用他汀类药物。", "高脂血症的患者可长期使用他汀类药物。"),
        ("对此类感染可选用第三代头孢类抗生素。", "对此类感染可选用第三代头孢菌素抗生素。"),
        ("Fast for a night before performing the test at home.", "Fast for a night before preparing the test at home."),
        ("The cholesterol of most of these patients is too high.", "The sterol of most of these patients is too high."),
        (
            "Take the aspirin with a glass of water every day.",
            "Take the aspirin and ibuprofen with a glass of water every day.",
        ),
        (
            "It is as common in the boys as in the girls of a class.",
            "It is as common in the girls as in the boys of a class.",
        ),
        ("Those children are likely not to be ill for long.", "Those children are not likely to be ill for long."),
        ("先用布洛芬退热，再用阿司匹林预防血栓", "先用阿司匹林退热，再用布洛芬预防血栓"),
        ("Raise the left leg and then the right leg a little.", "Raise the right leg and then the left leg a little."),
    ],
)
def test_other_words_for_the_same_and_less_of_it_are_no_conflict(text: str, answer: str) -> None:
    assert not wrong(text, answer)


@pytest.mark.parametrize(
    ("old", "new"),
    [("缬沙坦", "氯沙坦"), ("肾上腺素", "去甲肾上腺素"), ("泼尼松", "泼尼松龙"), ("头孢曲松", "头孢克肟")],
)
def test_part_of_a_drugs_name_is_enough(old: str, new: str) -> None:
    text = "首选{}治疗该患者的急性发作。"
    assert wrong(text.format(old), text.format(new))
    assert wrong(text.format(new), text.format(old))


def test_only_the_changed_row_of_a_table_is_wrong() -> None:
    rows = ["| 13675 | 67 | 女 | 糖尿病 | 重度 | 阿莫西林 |", "| 59255 | 87 | 男 | 骨折 | 中度 | 阿莫西林 |"]
    assert wrong("\n".join(rows), "\n".join([rows[0], rows[1].replace("阿莫西林", "阿司匹林")])) == [rows[1]]
