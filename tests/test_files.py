import pytest
from pydantic import BaseModel, Field, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, read_json


class _Inner(BaseModel):
    level: int = Field(ge=1, le=5)
    name: str


class _Outer(BaseModel):
    inner: list[_Inner]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"inner": [{"level": 7, "name": "x"}]},
            "inner.0.level: Input should be less than or equal to 5 (found 7)",
        ),
        ({"inner": [{"level": 1}]}, "inner.0.name: Field required"),
        (
            {"inner": [{"level": "x" * 90, "name": ""}, {"level": 0, "name": ""}]},
            'inner.0.level: Input should be a valid integer, unable to parse string as an integer (found "'
            + "x" * 56
            + "...); and 1 more problem",
        ),
        (
            {"inner": [{"level": 0, "name": ""}] * 3},
            "inner.0.level: Input should be greater than or equal to 1 (found 0); and 2 more problems",
        ),
    ],
)
def test_the_first_problem_names_field_reason_and_value(value: dict, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Outer.model_validate(value)
    assert first_problem(caught.value) == message


def test_what_is_not_json_is_explained_without_the_whole_text() -> None:
    with pytest.raises(ValidationError) as caught:
        _Outer.model_validate_json("{" + "x" * 1000)
    assert first_problem(caught.value).startswith("Invalid JSON: ")
    assert "xxxx" not in first_problem(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1', "Expecting ',' delimiter"),
        ('{"a": 1, "a": 2}', "'a' occurs twice in one object"),
        ('["\\ud800"]', "surrogate"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_document_names_the_file_and_the_fix(tmp_path, text: str, reason: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=reason) as caught:
        read_json(path, "restore it")
    assert str(caught.value).startswith(f"{path}: not valid JSON (")
    assert str(caught.value).endswith("; restore it")
