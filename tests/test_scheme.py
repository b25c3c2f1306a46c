from pathlib import Path

import pytest

from medjudge.errors import InputError
from medjudge.scheme import LLMEVAL_MED, Scheme, open_scheme, read_scheme, scheme_beside, scheme_names


def extension(folder: Path, definition: str, rubrics: dict[str, str]) -> Path:
    (folder / "rubrics").mkdir(parents=True)
    (folder / "scheme.yaml").write_text(definition, encoding="utf-8")
    for name, text in rubrics.items():
        (folder / "rubrics" / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


NUTRITION = """\
name: with-nutrition
title: LLMEval-Med and nutrition
extends: llmeval-med
categories:
  - id: NUT
    title: {en: Nutrition, zh: 营养}
gate:
  usable_agreement: {NUT: 0.7}
"""


def test_the_paper_s_scheme_holds_its_figures() -> None:
    assert LLMEVAL_MED.category_ids == ("MK", "MLU", "MR", "MSE", "MTG")
    assert LLMEVAL_MED.reference_percent == {"MK": 94.0, "MLU": 86.62, "MR": 94.26, "MSE": 95.0, "MTG": 67.32}
    assert [one.id for one in LLMEVAL_MED.categories if one.scored_by == "dimensions"] == ["MTG"]
    assert [one.id for one in LLMEVAL_MED.categories if one.unusable_is_unsafe] == ["MSE"]
    assert len(LLMEVAL_MED.rubrics) == 10


def test_consumer_questions_have_no_yardstick_of_their_own() -> None:
    scheme = open_scheme("consumer-health")
    assert scheme.category_ids == ("CHQ",)
    assert scheme.reference_agreement is None
    assert scheme.gate.usable_agreement == {}
    assert scheme_names() == ["consumer-health", "llmeval-med"]


def test_a_folder_adds_a_category_and_a_copy_is_complete(tmp_path: Path) -> None:
    rubrics = {f"NUT.{language}": f"Nutrition\n\n- 5: {language}" for language in ("en", "zh")}
    scheme = open_scheme(str(extension(tmp_path / "n", NUTRITION, rubrics)))
    assert scheme.category_ids == (*LLMEVAL_MED.category_ids, "NUT")
    assert scheme.gate.usable_agreement == {**LLMEVAL_MED.gate.usable_agreement, "NUT": 0.7}
    assert scheme.gate.cohen_kappa == LLMEVAL_MED.gate.cohen_kappa
    assert scheme.rubrics["NUT.zh"] == rubrics["NUT.zh"]
    assert scheme.rubrics["MK.en"] == LLMEVAL_MED.rubrics["MK.en"]
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "scheme.json").write_text(scheme.model_dump_json(), encoding="utf-8")
    copy = scheme_beside(tmp_path / "run" / "questions.jsonl")
    assert copy == scheme
    assert copy.sha256 == scheme.sha256 != LLMEVAL_MED.sha256
    assert scheme_beside(tmp_path / "questions.jsonl") is LLMEVAL_MED


def test_other_rubrics_make_another_hash() -> None:
    changed = LLMEVAL_MED.with_rubrics({"MK.en": "Knowledge\n\n- 5: right"})
    assert changed.sha256 != LLMEVAL_MED.sha256
    assert changed.rubrics["MK.zh"] == LLMEVAL_MED.rubrics["MK.zh"]


@pytest.mark.parametrize(
    ("definition", "message"),
    [
        (NUTRITION, "no rubric rubrics/NUT.en.md; every category needs one in every language"),
        (NUTRITION.replace(", zh: 营养", ""), "categories: NUT has no title in zh"),
        (NUTRITION.replace("NUT: 0.7", "NOT: 0.7"), "gate: no category NOT; the scheme has MK, MLU, MR, MSE, MTG, NUT"),
        (NUTRITION.replace("llmeval-med", "other"), "extends: 'other' is no scheme of the package"),
        (NUTRITION.replace("0.7", "7"), "gate.usable_agreement.NUT: Input should be less than or equal to 1"),
        (NUTRITION.replace("id: NUT", "id: []"), "categories.5.id: Input should be a valid string"),
        (NUTRITION + "languages: [[en]]", "languages.2: Input should be a valid string"),
        ("name: [", "not valid YAML"),
        ("- a", "a mapping with name, title, languages and categories is expected"),
        ("name: ../up\ntitle: x\nlanguages: [en]\ncategories: []", "name: String should match pattern"),
    ],
)
def test_what_breaks_a_scheme_is_named(tmp_path: Path, definition: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        open_scheme(str(extension(tmp_path / "n", definition, {})))
    assert str(error.value).startswith(f"{tmp_path / 'n' / 'scheme.yaml'}: {message}")


def test_what_is_no_scheme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a scheme is consumer-health or llmeval-med, a folder with scheme\.yaml"):
        open_scheme("consumer")
    (tmp_path / "scheme.json").write_text("{}")
    with pytest.raises(InputError, match=r"scheme\.json: name: Field required"):
        read_scheme(tmp_path / "scheme.json")
    assert Scheme.model_validate_json(LLMEVAL_MED.model_dump_json()) == LLMEVAL_MED
