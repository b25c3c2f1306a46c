"""Part 3: judges by what they learned from, each on answers whose question, model or subject it did not see."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from real_head import Head
from real_learners import by_both
from real_material import FEW, SEEDS, UNSEEN, Material, drawn, folds, lines_for
from real_paired import against_teacher

from medjudge.files import read_json, write_json

_UNTRAINED = Head(np.ones(1), np.array([-1.5, -0.5, 0.5, 1.5]))
"""Cuts of the cosine in units of its spread, chosen without a score."""


class Cell(NamedTuple):
    """One judge: what it has not seen, whose labels it has, how many scores of people, and its seed."""

    unseen: str
    labels: str
    people: int
    seed: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.unseen}-{self.labels}-{self.people}-{self.seed}"


_ELSEWHERE = [("teacher", 0), ("calibrated", 3200), ("people", 3200), ("both", 3200)]
RECIPES: dict[str, list[tuple[str, int]]] = {
    "questions": [
        ("teacher", 0),
        ("calibrated", 200),
        ("calibrated", 3200),
        *(("people", count) for count in FEW),
        *(("both", count) for count in FEW),
    ],
    "subjects": _ELSEWHERE,
    "models": _ELSEWHERE,
}
"""For each kind of split: labels, and how many scores of people."""


class Cells:
    """Judges' probabilities, each made once and kept in WORK.

    Args:
        material: The answers.
        work: Gets `cells/`.
    """

    unseen: tuple[str, ...] = UNSEEN

    def __init__(self, material: Material, work: Path) -> None:
        self.material = material
        self.folder = work / "cells"
        self.folder.mkdir(parents=True, exist_ok=True)

    @property
    def seconds_file(self) -> Path:
        """How long each judge took."""
        return self.folder / "seconds.json"

    @property
    def seconds(self) -> dict[str, int]:
        """Name of a judge -> its seconds of training and judging."""
        found: dict[str, int] = read_json(self.seconds_file) if self.seconds_file.exists() else {}
        return found

    def probabilities(self, cell: Cell) -> np.ndarray:
        """Of all answers, each by a judge that did not see its fold, (n, 5)."""
        return self.kept(cell.name, lambda: self._judged(cell))

    def kept(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """An array of this name, made where there is none."""
        path = self.folder / f"{name}.npy"
        if not path.exists():
            start = time.monotonic()
            made = make()
            with path.with_suffix(".part").open("wb") as file:
                np.save(file, made.astype(np.float32))
            path.with_suffix(".part").rename(path)
            seconds = round(time.monotonic() - start)
            write_json(self.seconds_file, {**self.seconds, name: seconds})
            print(f"{name}: {seconds} s", file=sys.stderr, flush=True)
        found: np.ndarray = np.load(path).astype(float)
        return found

    def _judged(self, cell: Cell) -> np.ndarray:
        """People score some answers of all folds; a judge learns from those outside of its fold."""
        material = self.material
        fold, found = folds(material, cell.unseen, cell.seed), np.zeros((len(material.people), 5))
        scored = drawn(np.arange(len(fold)), cell.people, cell.seed)
        for number in np.unique(fold):
            seen, held = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
            lines = lines_for(material, cell.labels, seen, np.intersect1d(scored, seen))
            found[held] = by_both(material, lines, material.only(held), cell.seed)
        return found


class Elsewhere(Cells):
    """Judges that learned from all of one folder, on the answers of another one.

    Args:
        home: What they learn from.
        material: What they judge.
        work: Gets `cells/`.
    """

    unseen = UNSEEN[:1]

    def __init__(self, home: Material, material: Material, work: Path) -> None:
        super().__init__(material, work)
        self.home = home

    def _judged(self, cell: Cell) -> np.ndarray:
        rows = np.arange(len(self.home.people))
        lines = lines_for(self.home, cell.labels, rows, drawn(rows, cell.people, cell.seed))
        return by_both(self.home, lines, self.material, cell.seed)


def untrained(material: Material) -> np.ndarray:
    """The levels of a judge that learned from nothing, (n, 5)."""
    return _UNTRAINED.probabilities(material.untrained[:, None])


def judges_table(cells: Cells) -> dict[str, Any]:
    """Every judge of `RECIPES` against people and, paired, against the teacher."""
    material, table = cells.material, {}
    for unseen in cells.unseen:
        rows = {"nothing": _row(material, [untrained(material)])}
        for labels, count in RECIPES[unseen]:
            judged = [cells.probabilities(Cell(unseen, labels, count, seed)) for seed in SEEDS]
            rows[_title(labels, count)] = _row(material, judged)
        table[f"unseen {unseen}"] = rows
    return table


def teacher_row(material: Material) -> dict[str, Any]:
    """The teacher's own measures."""
    judged = np.eye(5)[np.rint(material.expected).astype(int) - 1]
    own: dict[str, Any] = _row(material, [judged])["judge"]
    return own


def _row(material: Material, judged: list[np.ndarray]) -> dict[str, Any]:
    return against_teacher(judged, material.expected, material.people, material.conversation)


def _title(labels: str, count: int) -> str:
    scores = f"{count:,} of people's scores"
    return {
        "teacher": "the teacher's scores",
        "calibrated": f"the teacher's scores, calibrated by {scores}",
        "people": scores,
        "both": f"the calibrated teacher's scores, and {scores} that outrank them",
    }[labels]
