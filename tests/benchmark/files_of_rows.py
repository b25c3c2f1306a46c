"""Files of rows, in the format that their ending names."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

from openpyxl import Workbook


def written(path: Path, *rows: Any) -> Path:
    """The file, with these rows: JSON, JSON lines (both with `.gz`, too), CSV, or a workbook."""
    ending = path.name.removesuffix(".gz").rpartition(".")[2]
    if ending == "xlsx":
        book = Workbook()
        columns = list(dict.fromkeys(name for row in rows for name in row))
        book.active.append([name.upper() for name in columns])
        for row in rows:
            book.active.append([row.get(name) for name in columns])
        book.save(path)
    elif ending == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
        data = (lines if ending == "jsonl" else json.dumps(rows, ensure_ascii=False)).encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path
