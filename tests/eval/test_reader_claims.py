"""Claims made by rule: their labels hold, their wording gives nothing away, and splits keep topics apart."""

import zlib
from collections import Counter
from random import Random

import pytest
import reader_claims
from reader_claim_documents import Document
from reader_claims import (
    CONTRADICTED,
    HELD_OUT_KINDS,
    OPEN,
    SUPPORTED,
    Claim,
    of_documents,
    overlap,
    split,
    thinned,
    unlearned,
)
from reader_rewording import Rewording

from medjudge.errors import InputError

SMALL = {"the", "people", "this", "most", "treatment", "children", "symptoms", "doctors"}
ENGLISH = [
    "{} is a chronic disease that affects about 5 percent of the adults in the country.",
    "The symptoms of {} include severe fever, cough, sore throat, and a painful rash on the arms.",
    "Doctors often give 500 mg of aspirin a day when the fever of {} lasts more than three days.",
    "{} usually occurs in children because of a virus that damages the left kidney.",
    "Treatment of {} can slowly increase blood pressure within several weeks.",
]
CHINESE = [
    "{}患者通常需要及时住院治疗，",
    "医生每天给予500毫克阿司匹林治疗{}，",
    "{}多见于儿童并且可能导致严重的左肾损害，",
    "{}的常见症状包括发热、咳嗽、咽痛、皮疹等表现。",
    "{}患者的血压会明显升高而且一般持续5天。",
]


def documents(language: str) -> list[Document]:
    names = [f"Hartmann{chr(97 + number)} syndrome" for number in range(20)]
    names = (
        [f"甲{'乙丙丁戊己庚辛壬癸子'[number % 10]}{'丑寅'[number // 10]}病" for number in range(20)]
        if language == "zh"
        else names
    )
    texts = CHINESE if language == "zh" else ENGLISH
    return [Document(name, [text.format(name) for text in texts]) for name in names]


@pytest.fixture(params=["en", "zh"])
def made(request) -> list[Claim]:
    return of_documents(documents(request.param), request.param, 90, seed=0)


def test_each_fact_gives_a_claim_with_each_label(made) -> None:
    assert Counter(claim.label for claim in made) == {SUPPORTED: 30, OPEN: 30, CONTRADICTED: 30}
    kinds = {label: {claim.kind for claim in made if claim.label == label} for label in (SUPPORTED, OPEN, CONTRADICTED)}
    assert kinds[SUPPORTED] == {"none"}
    assert kinds[OPEN] <= {"removed", "other", "added"}
    assert len(kinds[CONTRADICTED]) >= 4


def test_no_claim_is_verbatim_and_the_same_seed_gives_the_same_claims(made) -> None:
    parts = {part for document in documents(made[0].language) for part in document.parts}
    assert not [claim for claim in made if claim.claim in claim.passage or claim.claim in parts]
    assert made == of_documents(documents(made[0].language), made[0].language, 90, seed=0)


def test_a_contradicted_claim_differs_from_its_passage_and_altered_wording_stands_on_either_side() -> None:
    facts = [
        Document(name, [f"Doctors treat {name} with aspirin twice in most hospitals of the country."])
        for name in ("gout pain", "back pain", "joint pain", "tooth pain")
    ]
    facts = [
        Document(each.topic, [*each.parts, "The rest of the text is about the hospitals of the country."])
        for each in facts
    ]
    made = [claim for seed in range(6) for claim in of_documents(facts, "en", 12, seed) if claim.kind == "drug"]
    told = ["aspirin" in claim.passage for claim in made]
    assert made
    assert all(("aspirin" in claim.claim) != before for claim, before in zip(made, told, strict=True))
    assert 0 < sum(told) < len(told)


def test_a_held_out_topic_or_kind_is_never_trained_on(made) -> None:
    train, held_out = split(made)
    assert len(train) + len(held_out) == len(made)
    assert not {claim.document for claim in train} & {claim.document for claim in held_out}
    assert not {claim.kind for claim in train} & set(HELD_OUT_KINDS)
    assert {claim.kind for claim in held_out} & set(HELD_OUT_KINDS)


def test_too_few_facts_are_an_error() -> None:
    with pytest.raises(InputError, match="only 0 claims"):
        of_documents([Document("a", ["Nothing."])], "en", 30, seed=0)


@pytest.mark.parametrize(
    ("text", "forms"),
    [
        ("If the fever lasts, people should see the nurse.", {"People should see the nurse if the fever lasts."}),
        ("Take 1500 mg with food.", {"Take 1.5 g with food."}),
        ("It grew by 5 percent last year.", {"It grew by 5% last year."}),
    ],
)
def test_an_edit_keeps_the_meaning(text, forms) -> None:
    reworded = Rewording("en", SMALL)
    results = {reworded(text, Random(seed), framed=False).replace("individuals", "people") for seed in range(40)}
    assert forms & results


def test_what_says_less_is_grammatical() -> None:
    less = Rewording("en", SMALL).less("The pain is severe while severe pain, fever, cough, and rash last for 3 weeks.")
    assert "The pain is severe while pain, fever, cough, and rash last for 3 weeks." in less
    assert "The pain is severe while severe pain, fever, cough, and rash last for several weeks." in less
    assert not [text for text in less if "is while" in text]


def test_items_of_a_chinese_list_stay_whole() -> None:
    text = "治疗药物包括阿司匹林、布洛芬、对乙酰氨基酚等药物。"
    results = {Rewording("zh", set())(text, Random(seed), framed=False) for seed in range(30)}
    assert all(drug in result for result in results for drug in ("阿司匹林", "布洛芬", "对乙酰氨基酚"))


def test_overlap_is_the_share_of_the_claims_words() -> None:
    assert overlap(Claim("A b c.", "A b d e.", SUPPORTED, "none", "en", "x")) == 0.5


def test_what_leaves_a_claim_open_shares_many_of_its_words(made) -> None:
    language = made[0].language
    least = min(overlap(claim) for claim in made if claim.label == OPEN)
    assert least >= {"en": 0.65, "zh": 0.5}[language]


def test_thinning_keeps_all_claims_of_some_facts_of_each_kind(made) -> None:
    some = thinned(made, {"en": 3, "zh": 3}, seed=0)
    facts = [made[at : at + 3] for at in range(0, len(made), 3)]
    kept = [some[at : at + 3] for at in range(0, len(some), 3)]
    assert all(fact in facts for fact in kept)
    before = Counter(fact[CONTRADICTED].kind for fact in facts)
    assert Counter(fact[CONTRADICTED].kind for fact in kept) == {kind: min(3, count) for kind, count in before.items()}
    assert some == thinned(made, {"en": 3, "zh": 3}, seed=0)


def test_what_the_shipped_readers_learned_from_is_not_measured(made, monkeypatch) -> None:
    assert unlearned(made) == made
    topic = made[0].document
    monkeypatch.setattr(reader_claims, "_LEARNED", {zlib.crc32(topic.encode())})
    assert {claim.document for claim in made} - {claim.document for claim in unlearned(made)} == {topic}
