import asyncio

from medjudge.chat_api.spending import Pace

WINDOW = 0.1


def test_no_window_holds_more_than_the_limit_and_the_limit_is_used() -> None:
    async def sent(pace: Pace) -> list[tuple[float, int]]:
        async def request(tokens: int) -> tuple[float, int]:
            when, _ = await pace.take(tokens)
            return when, tokens

        return await asyncio.gather(*[request(tokens) for tokens in [30, 40, 50] * 6])

    log = asyncio.run(sent(Pace(200, WINDOW)))
    for start, _ in log:
        assert sum(tokens for when, tokens in log if start <= when < start + WINDOW) <= 200
    # 720 tokens need four windows, and not one for each request.
    times = sorted(when for when, _ in log)
    assert 3 * WINDOW <= times[-1] - times[0] < 15 * WINDOW


def test_a_true_number_below_the_estimate_frees_room_and_a_giant_goes_alone() -> None:
    async def times() -> list[float]:
        pace = Pace(100, WINDOW)
        entry = await pace.take(90)
        pace.correct(entry, 20)
        return [entry[0], *[(await pace.take(tokens))[0] for tokens in (80, 500)]]

    start, at_once, later = asyncio.run(times())
    assert at_once - start < WINDOW <= later - start
