"""Clinical documents about two patients, each written twice: `reader_records.yaml`, by several authors.

Documents of one kind look alike whoever they are about: headings, stock phrases and normal findings are the same. Here
a document is compared with the other writer's about the same patient, and with both writers' about another patient, one
of which shares its template. The level head alone learns from them; no reader does.
"""

from pathlib import Path
from typing import Any

import yaml
from reader_examples import Example
from reader_parallel import ELSEWHERE, GOOD

_WRITERS = {"first": "second", "second": "first"}
_PATIENTS = {"a": "b", "b": "a"}


def records() -> list[Example]:
    """Each document as the reference of three answers; the group names the author and the kind of document."""
    authors = yaml.safe_load((Path(__file__).parent / "reader_records.yaml").read_text(encoding="utf-8"))
    return [
        example
        for number, author in enumerate(authors)
        for at, entry in enumerate(author["entries"])
        for example in _of_entry(entry, author["language"], f"records-{number}-{at}")
    ]


def _of_entry(entry: dict[str, Any], language: str, group: str) -> list[Example]:
    found = []
    for patient, other_patient in _PATIENTS.items():
        own, other = entry[patient], entry[other_patient]
        for writer, other_writer in _WRITERS.items():
            answers = [(own[other_writer], GOOD, "same")]
            answers += [(other[name], ELSEWHERE, "another") for name in (writer, other_writer)]
            found += [
                Example(
                    prompt=own["request"].strip(),
                    reference=own[writer].strip(),
                    checklist="",
                    answer=text.strip(),
                    language=language,
                    label=label,
                    verdict=None,
                    group=group,
                    source=f"records-{name}-patient",
                )
                for text, label, name in answers
            ]
    return found
