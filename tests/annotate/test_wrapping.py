"""Long texts are cut into rows in one pass."""

import pytest

from medjudge.annotate import wrapping


@pytest.mark.parametrize("characters", ["a", "药", "a 药", "ab cd\n"])
def test_every_character_is_measured_a_few_times_however_long_the_text(
    characters: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = 0

    def counted(character: str, advance=wrapping._advance) -> int:
        nonlocal measured
        measured += 1
        return advance(character)

    monkeypatch.setattr(wrapping, "_advance", counted)
    text = (characters * 200_000)[:200_000]
    parts = wrapping.parts_of(text, 60)
    assert "".join(parts) == text
    assert measured < 8 * len(text)
