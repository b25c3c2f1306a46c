"""What was made from files and holds until they change."""

from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Kept(Generic[Made]):
    """Things made from files, each kept with the state that the files had; one is made at a time.

    Args:
        most: How much is kept, by `size`; what was not used for longest goes first.
        size: How much a thing counts.
    """

    def __init__(self, most: int, size: Callable[[Made], int] = lambda _: 1) -> None:
        self._most = most
        self._size = size
        self._things: dict[Hashable, tuple[Hashable, Made]] = {}
        self._lock = Lock()

    def get(self, key: Hashable, state: Hashable, make: Callable[[], Made]) -> Made:
        """The thing of this key, made anew unless it was made of files in this state.

        Args:
            state: Read before; a change that happens meanwhile is then seen by the next call.
        """
        with self._lock:
            kept = self._things.pop(key, None)
            thing = kept[1] if kept is not None and kept[0] == state else make()
            self._things[key] = (state, thing)
            self._shrink()
            return thing

    def _shrink(self) -> None:
        total = sum(self._size(thing) for _, thing in self._things.values())
        while total > self._most and len(self._things) > 1:
            _, dropped = self._things.pop(next(iter(self._things)))
            total -= self._size(dropped)
