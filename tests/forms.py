"""The physician's part between `annotate export` and `annotate import`."""

import json
from collections.abc import Callable
from pathlib import Path

from openpyxl import load_workbook


def fill_in(form: Path, run: Path, level_of: Callable[[str, str], int]) -> None:
    """Gives each answer of a workbook the level that its question's id and its model say."""
    plans = [json.loads(file.read_text()) for file in (run / "annotation").glob("*.json")]
    key_of = {item["id"]: (item["question_id"], item["model"]) for plan in plans for item in plan["items"]}
    workbook = load_workbook(form)
    for sheet in workbook.worksheets[1:]:  # the first one is the instructions
        headings = [str(cell.value) for cell in sheet[1]]
        for row in sheet.iter_rows(min_row=2):
            if row[0].value in key_of:
                level = level_of(*key_of[row[0].value])
                for cell, heading in zip(row, headings, strict=True):
                    if heading.endswith(("1–5", "0–5")):
                        cell.value = level
                    elif heading.endswith("0–1"):
                        cell.value = int(level > 1)
    workbook.save(form)
