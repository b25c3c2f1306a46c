"""The messages that the page on troubleshooting quotes are those of the app."""

import ast
import re
from pathlib import Path

import pytest
from pages import ROOT

import medjudge

PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.findall(r"^`+ ?(.+?) ?`+\n\n: ", PAGE.read_text(encoding="utf-8"), re.M)
assert len(QUOTED) > 20
VARIABLE = "\0"


def literals() -> list[str]:
    """Every text in the package's code, with a mark where a value is put in."""
    texts = []
    for file in sorted(Path(medjudge.__file__).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else VARIABLE for part in node.values]
                texts.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return texts


TEXTS = literals()


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_one_of_the_app(message: str) -> None:
    pattern = re.compile(".*".join(map(re.escape, message.split("…"))), re.S)
    assert any(pattern.search(text) for text in TEXTS), f"no such message: {message}"
