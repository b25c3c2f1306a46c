"""Long texts are cut into rows in one pass."""

import random

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


def test_parts_fit_and_lose_nothing() -> None:
    chance = random.Random(0)
    for _ in range(50):
        text = "".join(chance.choices("ab药 \n", [9, 9, 6, chance.choice([0, 3]), 0.02], k=3000))
        parts = wrapping.parts_of(text, 30)
        assert "".join(parts) == text
        assert max(wrapping.lines_in(part, 30) for part in parts) <= wrapping.MOST_LINES
