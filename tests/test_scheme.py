from pathlib import Path

import pytest

from medjudge.errors import InputError
from medjudge.scheme import LLMEVAL_MED, Scheme, open_scheme, read_scheme, scheme_beside


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
    assert LLMEVAL_MED.columns == ("OP", "MSE", "MK", "MLU", "MR", "MTG")  # safety first
    assert LLMEVAL_MED.reference_percent == {"MK": 94.0, "MLU": 86.62, "MR": 94.26, "MSE": 95.0, "MTG": 67.32}
    assert [category.id for category in LLMEVAL_MED.categories if category.scored_by == "dimensions"] == ["MTG"]
    assert [category.id for category in LLMEVAL_MED.categories if category.unusable_is_unsafe] == ["MSE"]
    assert len(LLMEVAL_MED.rubrics) == 10


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


def part_of(scheme: Scheme, *ids: str) -> Scheme:
    """A scheme with some of its categories only."""
    fields = scheme.model_dump()
    fields["categories"] = [category for name in ids for category in fields["categories"] if category["id"] == name]
    fields["rubrics"] = {name: text for name, text in scheme.rubrics.items() if name.partition(".")[0] in ids}
    for values in (fields["gate"]["usable_agreement"], fields["reference_agreement"]["percent"]):
        for name in set(values) - set(ids):
            del values[name]
    return Scheme.model_validate(fields)


def test_schemes_that_differ_in_their_categories_only_are_joined() -> None:
    first, second = part_of(LLMEVAL_MED, "MK", "MLU", "MR"), part_of(LLMEVAL_MED, "MTG", "MR", "MSE")
    joined = first.joined_with(second)
    assert joined.category_ids == ("MK", "MLU", "MR", "MTG", "MSE")
    assert joined == part_of(LLMEVAL_MED, "MK", "MLU", "MR", "MTG", "MSE")
    assert Scheme.model_validate(joined.model_dump()) == joined
    # A scheme that brings nothing new changes nothing, so that its copies keep their sha256.
    assert joined.joined_with(second).sha256 == joined.sha256
    assert LLMEVAL_MED.joined_with(second).sha256 == LLMEVAL_MED.sha256
    first, second = part_of(LLMEVAL_MED, "MK", "MR"), part_of(LLMEVAL_MED, "MR", "MSE")
    easier = second.gate.model_copy(update={"coverage": 0.5})
    easier_mr = second.gate.model_copy(update={"usable_agreement": {**second.gate.usable_agreement, "MR": 0.1}})
    for changed, field in (
        ({"rubrics": second.rubrics | {"MR.zh": "另一个标准"}}, "rubrics"),
        ({"languages": ("en",)}, "languages"),
        ({"reference_agreement": None}, "reference_agreement"),
        ({"gate": easier}, "gate"),
        ({"gate": easier_mr}, "gate"),
        ({"name": "other", "title": "Other"}, "name, title"),
    ):
        with pytest.raises(ValueError, match=f"^{field}$"):
            first.joined_with(second.model_copy(update=changed))


def test_what_is_no_scheme_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a scheme is consultations, .*, reference-qa, a folder with scheme\.yaml"):
        open_scheme("consumer")
    (tmp_path / "scheme.json").write_text("{}")
    with pytest.raises(InputError, match=r"scheme\.json: name: Field required"):
        read_scheme(tmp_path / "scheme.json")
    assert Scheme.model_validate_json(LLMEVAL_MED.model_dump_json()) == LLMEVAL_MED
