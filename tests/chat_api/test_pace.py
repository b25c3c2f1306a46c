import asyncio
from types import SimpleNamespace

import pytest

from medjudge.chat_api import spending as spending_module
from medjudge.chat_api.spending import Pace


class VirtualTime:
    """A clock that jumps to the next waking time once all that can run has run."""

    def __init__(self) -> None:
        self.now = 0.0
        self._waking: list[float] = []

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        self._waking.append(end)
        while self.now < end:
            await asyncio.sleep(0)
            if end == min(self._waking):
                self.now = max(self.now, end)
        self._waking.remove(end)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    clock = VirtualTime()
    monkeypatch.setattr(spending_module, "time", clock)
    monkeypatch.setattr(spending_module, "asyncio", SimpleNamespace(sleep=clock.sleep))
    return clock


def test_no_window_holds_more_than_the_limit_and_the_limit_is_used(clock: VirtualTime) -> None:
    async def sent(pace: Pace) -> list[tuple[float, int]]:
        log: list[tuple[float, int]] = []

        async def request(tokens: int) -> None:
            when, _ = await pace.take(tokens)
            log.append((when, tokens))

        await asyncio.gather(*[request(tokens) for tokens in [30, 40, 50] * 6])
        return log

    log = asyncio.run(sent(Pace(200, seconds=60.0)))
    assert len(log) == 18
    for start, _ in log:
        assert sum(tokens for when, tokens in log if start <= when < start + 60) <= 200
    # 720 tokens need four windows, and not one for each request.
    assert 180 <= log[-1][0] - log[0][0] < 60 * 15


def test_a_true_number_below_the_estimate_frees_room_and_a_giant_goes_alone(clock: VirtualTime) -> None:
    async def waits() -> list[float]:
        pace, marks = Pace(100, seconds=60.0), [clock.now]
        entry = await pace.take(90)
        pace.correct(entry, 20)
        for tokens in (80, 500):
            await pace.take(tokens)
            marks.append(clock.now)
        return marks

    start, at_once, later = asyncio.run(waits())
    assert at_once == start
    assert later - start == 60
