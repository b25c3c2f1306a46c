"""Keeps requests under a limit of tokens per minute."""

import asyncio
import time
from collections import deque


class Pace:
    """Limits the tokens in any window of time.

    A request larger than the limit is sent alone, as it could otherwise never be sent.

    Args:
        tokens: The most tokens in a window; None for no limit.
        seconds: The length of the window.
    """

    def __init__(self, tokens: int | None, seconds: float = 60.0) -> None:
        self.tokens = tokens
        self.seconds = seconds
        self._sent: deque[list[float]] = deque()  # [time, tokens], oldest first

    async def take(self, tokens: int) -> list[float]:
        """Waits until the tokens fit; returns the entry that `correct` takes."""
        while True:
            now = time.monotonic()
            while self._sent and self._sent[0][0] <= now - self.seconds:
                self._sent.popleft()
            if self.tokens is None or not self._sent or sum(sent for _, sent in self._sent) + tokens <= self.tokens:
                entry = [now, float(tokens)]
                self._sent.append(entry)
                return entry
            await asyncio.sleep(self._sent[0][0] + self.seconds - now)

    @staticmethod
    def correct(entry: list[float], tokens: int) -> None:
        """Replaces the estimate by the true number."""
        entry[1] = float(tokens)
