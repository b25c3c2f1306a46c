"""The content of the documentation's pages: fenced blocks, and what a comment above a block says about it."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NEEDS = {"gpu", "key", "network", "browser", "cluster", "minutes"}
_FENCE = re.compile(
    r"^(?:<!-- (?P<mark>[^\n]*?) -->\n)?(?P<indent> *)```(?P<language>[^\n]*)\n(?P<body>.*?)^(?P=indent)```$",
    re.M | re.S,
)


class Block(NamedTuple):
    """A fenced block: its page and line, its language, its text, and the comment right above it."""

    page: Path
    line: int
    language: str
    text: str
    mark: str

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def needs(self) -> str | None:
        """The thing that the block cannot run without: such a block is only parsed."""
        return self.mark.removeprefix("needs: ") if self.mark.startswith("needs: ") else None

    @property
    def run_by_ci(self) -> bool:
        """`.ci/run` runs these as they are written."""
        return self.mark in ("quickstart", "tests", "main example")

    @property
    def run_in(self) -> Path | None:
        """The page that has the same commands and runs them, so that they run only once."""
        return ROOT / self.mark.removeprefix("run in: ") if self.mark.startswith("run in: ") else None

    @property
    def is_run(self) -> bool:
        """True if the test of the block's own page runs it."""
        return self.needs is None and self.run_in is None and not self.run_by_ci

    @property
    def statuses(self) -> set[int]:
        """Exit statuses that the page tells the reader to expect."""
        return {0, 1} if self.mark == "exits: 1" else {0}

    @property
    def commands(self) -> list[str]:
        """One line per command: continued lines are joined, comments are dropped."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [line.strip() for line in lines if words_of(line)]


def words_of(line: str) -> list[str]:
    """The words of a command, without the comment behind it."""
    return shlex.split(line, comments=True)


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    collected = []
    for match in _FENCE.finditer(text):
        indent = match["indent"]
        body = re.sub(rf"^{indent}", "", match["body"], flags=re.M)
        line = text.count("\n", 0, match.start("language")) + 1
        collected.append(Block(page, line, match["language"].strip(), body, match["mark"] or ""))
    return collected


def continues(page: Path) -> Path | None:
    """The page whose folder this page goes on with."""
    match = re.search(r"^<!-- continues: (\S+) -->$", page.read_text(encoding="utf-8"), re.M)
    return None if match is None else page.parent / match[1]
