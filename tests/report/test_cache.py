import pytest

from medjudge.report.site_app import Cache


def test_a_cached_value_is_made_again_for_another_state_only() -> None:
    made: list[str] = []
    cache: Cache[str] = Cache(10)

    def get(state: str) -> str:
        return cache.get("page", state, lambda: made.append(state) or f"page of {state}")

    assert [get("a"), get("a"), get("b"), get("a")] == ["page of a", "page of a", "page of b", "page of a"]
    assert made == ["a", "b", "a"]


def test_what_was_not_used_for_longest_goes_first_and_one_value_always_stays() -> None:
    cache: Cache[bytes] = Cache(5, len)
    made: list[str] = []

    def get(key: str, size: int) -> int:
        return len(cache.get(key, 0, lambda: made.append(key) or bytes(size)))

    for key, size in (("a", 2), ("b", 2), ("a", 2), ("c", 2), ("a", 2), ("b", 2), ("huge", 9), ("huge", 9)):
        assert get(key, size) == size
    assert made == ["a", "b", "c", "b", "huge"]


def test_what_failed_is_tried_again() -> None:
    cache: Cache[int] = Cache(5)

    def fails() -> int:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        cache.get("a", 0, fails)
    assert cache.get("a", 0, lambda: 3) == 3
