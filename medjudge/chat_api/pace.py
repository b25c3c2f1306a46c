"""Keeps requests under a limit of tokens a minute."""

import asyncio
import time
from collections import deque


class Pace:
    """Lets through at most so many tokens in any minute.

    A request larger than the whole limit goes alone, since it could otherwise never go.

    Args:
        tokens: The most in any `seconds`; None for no limit.
        seconds: The length of the window.
    """

    def __init__(self, tokens: int | None, seconds: float = 60.0) -> None:
        self.tokens = tokens
        self.seconds = seconds
        self._sent: deque[list[float]] = deque()  # [when, tokens], oldest first

    async def take(self, tokens: int) -> list[float]:
        """Waits until the tokens fit; returns the entry, for `correct`."""
        while True:
            now = time.monotonic()
            while self._sent and self._sent[0][0] <= now - self.seconds:
                self._sent.popleft()
            if self.tokens is None or not self._sent or sum(one[1] for one in self._sent) + tokens <= self.tokens:
                entry = [now, float(tokens)]
                self._sent.append(entry)
                return entry
            await asyncio.sleep(self._sent[0][0] + self.seconds - now)

    @staticmethod
    def correct(entry: list[float], tokens: int) -> None:
        """Puts the true number in place of the estimate."""
        entry[1] = float(tokens)
