import asyncio
import time

from medjudge.chat_api.pace import Pace


def test_no_window_holds_more_than_the_limit_and_the_limit_is_used() -> None:
    async def sent(pace: Pace) -> list[tuple[float, int]]:
        log: list[tuple[float, int]] = []

        async def one(tokens: int) -> None:
            when, _ = await pace.take(tokens)
            log.append((when, tokens))

        await asyncio.gather(*[one(tokens) for tokens in [30, 40, 50] * 6])
        return log

    log = asyncio.run(sent(Pace(200, seconds=0.3)))
    assert len(log) == 18
    for start, _ in log:
        assert sum(tokens for when, tokens in log if start <= when < start + 0.3) <= 200
    # 720 tokens need four windows, and not one for each request.
    assert 0.9 <= log[-1][0] - log[0][0] < 0.3 * 15


def test_a_true_number_below_the_estimate_frees_room_and_a_giant_goes_alone() -> None:
    async def waits() -> list[float]:
        pace, marks = Pace(100, seconds=3.0), [time.monotonic()]
        entry = await pace.take(90)
        pace.correct(entry, 20)
        for tokens in (80, 500):
            await pace.take(tokens)
            marks.append(time.monotonic())
        return marks

    start, at_once, later = asyncio.run(waits())
    assert at_once - start < 1.5
    assert later - start >= 3.0
