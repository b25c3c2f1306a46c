"""Label Studio: writes projects for raters, and reads exports as JSON (tasks with annotations) or JSON-MIN."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from medjudge.annotate.cells import DIMENSIONS, Problem, Row, physician_scores
from medjudge.annotate.tasks import LEVELS, Task
from medjudge.annotate.units import Unit, printable
from medjudge.annotate.wording import DIMENSION_MEANING
from medjudge.annotate.workbook import Form, FormRow
from medjudge.errors import InputError
from medjudge.files import read_json, write_json, write_whole
from medjudge.records import PhysicianScore
from medjudge.scheme import Scheme

_SCORES = ("score", *DIMENSIONS)
_KINDS = ("rating", "choices", "number", "text")
_OF_THE_DATA = object()  # in place of a value


class Annotation(NamedTuple):
    """One annotator's work on one task; `results` are the controls with their values."""

    place: str
    data: Mapping[str, Any]
    annotator: Any
    results: list[tuple[str, Any]]


def read_label_studio(path: Path, labels: Mapping[str, int] | None) -> list[PhysicianScore]:
    """Reads an export whose tasks carry `question_id`, `model` and perhaps `sample`.

    Controls are recognised by name: `score` is the level, the five dimensions have their own names, `comment` is a
    text. Cancelled annotations, predictions and other controls are ignored. The rater is the annotator's e-mail
    address where the export has it, otherwise `rater-ID`.

    Args:
        path: The .json file.
        labels: Casefolded label -> level, for choices that are not a level; None where labels are not allowed.

    Raises:
        InputError: The file is not an export, has no score, or annotations are invalid; each problem names
            task and field.
    """
    rows: list[Row] = []
    problems: list[Problem] = []
    controls: set[str] = set()
    for annotation in annotations(path):
        controls.update(control for control, _ in annotation.results)
        cells, wrong = _cells(annotation, (*_SCORES, "comment"))
        if not wrong and not any(name in cells for name in _SCORES):
            continue  # submitted without a score
        wrong += _missing_keys(annotation)
        cells |= {name: annotation.data.get(name) for name in ("question_id", "model", "sample")}
        cells["rater"] = _rater(annotation.annotator)
        problems += [Problem(annotation.place, what) for what in wrong]
        if not wrong:
            rows.append(Row(annotation.place, cells))
    if not rows and not problems:
        names = ", ".join(sorted(controls)) or "none"
        raise InputError(f"{path}: has no score; a control named score is needed, and its controls are: {names}")
    return physician_scores(path, rows, labels, problems)


def write_label_studio(folder: Path, rater: str, listed: Sequence[Unit], task: Task = LEVELS) -> list[Path]:
    """Writes the tasks of one rater, and the labelling configurations that show them.

    A Label Studio project has one configuration, so answers scored by the five dimensions form a project of their own:
    `RATER.json` goes with `label-studio.xml`, `RATER-MTG.json` with `label-studio-MTG.xml`. Every rater has separate
    tasks, because only paid editions assign tasks.

    Args:
        folder: Where the files go.
        rater: Written into every task, so that scores count as this rater's, whoever was signed in.
        listed: Units in the rater's order.

    Returns:
        The files with tasks.
    """
    files = []
    for suffix, by_dimensions in project_suffixes(task, listed[0].scheme).items():
        units = [unit for unit in listed if task is not LEVELS or unit.by_dimensions == by_dimensions]
        if units:
            write_whole(folder / f"label-studio{suffix}.xml", labelling_config(task, by_dimensions))
            data = [_data(unit, row, rater, task) for unit in units for row in range(len(unit.rows))]
            write_json(folder / f"{rater}{suffix}.json", [{"data": fields} for fields in data])
            files.append(folder / f"{rater}{suffix}.json")
    return files


def project_suffixes(task: Task, scheme: Scheme) -> dict[str, bool]:
    """The ends of the names of a task's projects ("" and `-MTG`; `-pairs`), each with whether it is for dimensions."""
    if task is not LEVELS:
        return {f"-{task.name}": False}
    by_dimensions = [category.id for category in scheme.categories if category.scored_by == "dimensions"]
    return {"": False, **({f"-{'-'.join(by_dimensions)}": True} if by_dimensions else {})}


def labelling_config(task: Task, by_dimensions: bool) -> str:
    """The labelling configuration: the texts, and choices with the keys 1, 2 and so on, or the five dimensions."""
    view = Element("View")
    parent_of = view
    for field in (*task.shown, *(("item",) if task.name == "items" else ())):
        if field == "first":
            parent_of = SubElement(view, "View", style="display: flex; gap: 2em")
        parent = SubElement(parent_of, "View", style="flex: 1") if parent_of is not view else view
        SubElement(parent, "Header", value=task.headings[field], size="5")
        SubElement(parent, "Text", name=field, value=f"${field}", valueType="text")
    to = {"levels": "answer", "pairs": "first", "items": "item"}[task.name]
    for field in task.fields(by_dimensions):
        SubElement(view, "Header", value=task.headings[field], size="5")
        if by_dimensions:
            meaning = DIMENSION_MEANING[field]
            SubElement(view, "Header", value=f"{meaning.en} {meaning.zh}", size="6")
        choices = SubElement(view, "Choices", name=field, toName=to, choice="single-radio", showInline="true")
        for number, value in enumerate(task.offered(field), 1):
            # Five dimensions cannot share one set of keys.
            keys = {} if by_dimensions else {"hotkey": str(number)}
            SubElement(choices, "Choice", {"value": value, **keys})
    for field in task.comments:
        SubElement(view, "Header", value=task.headings[field], size="5")
        SubElement(view, "TextArea", name=field, toName=to, rows="3", maxSubmissions="1", editable="true")
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def _data(unit: Unit, row: int, rater: str, task: Task) -> dict[str, str]:
    texts = unit.texts
    item = {"item": printable(unit.points[row])} if unit.points else {}
    category = {"category": unit.question.category} if task is LEVELS else {}
    return {
        task.id_field: unit.rows[row],
        "rater": rater,
        **category,
        **{field: texts[field] for field in task.shown},
        **item,
    }


def read_project(path: Path, task: Task = LEVELS) -> Form:
    """Reads the export of a project that `write_label_studio` made, JSON or JSON-MIN.

    Raises:
        InputError: The file is not a Label Studio export, or not of such a project.
    """
    rows = []
    shown = ("item",) if task.name == "items" else task.shown
    for annotation in annotations(path):
        data = annotation.data
        if not {task.id_field, "rater"} <= data.keys():
            also = (
                "; `medjudge validate --physicians` reads scores with question_id and model" if task is LEVELS else ""
            )
            raise InputError(
                f"{path}, {annotation.place}: data has no {task.id_field} and rater, so this is not a form of "
                f"`medjudge {task.command} export`{also}"
            )
        cells, wrong = _cells(annotation, (*task.fields(False), *task.fields(True), *task.comments))
        texts = {field: str(data[field]) for field in shown if field in data}
        rater, account = str(data["rater"]).strip(), _rater(annotation.annotator)
        row_id = str(data[task.id_field]).strip()
        rows.append(FormRow(annotation.place, rater, row_id, texts, cells, tuple(wrong), account))
    return Form(path, rows, [])


def some_tasks(path: Path, items: Collection[str]) -> list[dict[str, Any]]:
    """The tasks of an export that belong to some items, unchanged, to fix and import again."""
    tasks = read_json(path)
    return [task for task in tasks if str(task.get("data", task).get("item", "")).strip() in items]


def annotations(path: Path) -> Iterator[Annotation]:
    """The annotations of an export, JSON or JSON-MIN, without cancelled ones.

    Raises:
        InputError: The file is not an export.
    """
    tasks = read_json(path, "a Label Studio export is expected")
    if isinstance(tasks, list) and tasks and all(map(_is_task, tasks)):
        yield from _from_tasks(tasks)
    elif isinstance(tasks, list) and tasks and all(isinstance(task, dict) and "annotator" in task for task in tasks):
        yield from _from_flat(tasks)
    else:
        raise InputError(
            f"{path}: not a Label Studio export; a list of tasks with 'data' and 'annotations' (JSON) or of objects "
            "with 'annotator' (JSON-MIN) is expected"
        )


def _is_task(task: Any) -> bool:
    """True if a JSON value has the shape of a task, down to its results."""
    if not (
        isinstance(task, dict) and isinstance(task.get("data"), dict) and isinstance(task.get("annotations"), list)
    ):
        return False
    return all(
        isinstance(annotation, dict)
        and isinstance(annotation.get("result") or [], list)
        and all(isinstance(result, dict) for result in annotation.get("result") or [])
        for annotation in task["annotations"]
    )


def _from_tasks(tasks: list[dict[str, Any]]) -> Iterator[Annotation]:
    for number, task in enumerate(tasks, 1):
        for annotation in task["annotations"]:
            if annotation.get("was_cancelled"):
                continue
            place = f"task {task.get('id', f'number {number}')}, annotation {annotation.get('id', 'without id')}"
            # A relation between two regions has no from_name, and is not read.
            results = [
                (str(result["from_name"]), result.get("value"))
                for result in annotation.get("result") or []
                if "from_name" in result
            ]
            yield Annotation(place, task["data"], annotation.get("completed_by"), results)


def _from_flat(objects: list[dict[str, Any]]) -> Iterator[Annotation]:
    # A task that nobody worked on has its data only.
    of_the_data = {name for task in objects if task["annotator"] is None for name in task}
    for number, task in enumerate(objects, 1):
        if task.get("was_cancelled"):
            continue
        place = f"task {task.get('id', f'number {number}')}"
        if task.get("annotation_id") is not None:
            place += f", annotation {task['annotation_id']}"
        unclear = of_the_data | _before_the_id(task)
        # Ratings and numbers are in a list even if there is only one.
        results = [
            (name, _OF_THE_DATA if name in unclear else value)
            for name, values in task.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        yield Annotation(place, task, task["annotator"], results)


def _before_the_id(task: Mapping[str, Any]) -> set[str]:
    """The fields of the data in an object of JSON-MIN: Label Studio writes data, id, what was filled in, annotator."""
    names = list(task)
    before = set(names[: names.index("id")]) if "id" in task else set()
    return before if before & {"question_id", "item", "pair", "marked"} else set()


class _Cells(NamedTuple):
    """The values by the names of the controls, and the problems with them."""

    values: dict[str, object]
    problems: list[str]


def _cells(annotation: Annotation, fields: Collection[str]) -> _Cells:
    cells: dict[str, object] = {}
    wrong = []
    for name, value in annotation.results:
        if name not in fields:
            continue
        try:
            cell = _cell(value)
        except ValueError as error:
            wrong.append(f"{name} {error}")
            continue
        if name in cells:
            wrong.append(f"{name} appears twice")
        elif cell is not None:
            cells[name] = cell
    return _Cells(cells, wrong)


def _cell(value: Any) -> object:
    """The one rating, choice, number or text in a value; None where there is none."""
    if value is _OF_THE_DATA:
        raise ValueError(
            "may be a field of the task's data and not what the rater filled in; export as JSON instead of JSON-MIN"
        )
    if isinstance(value, dict):
        kinds = [kind for kind in _KINDS if kind in value]
        if not kinds:
            raise ValueError("is not a rating, choice, number or text")
        if others := sorted(value.keys() - {kinds[0]}):
            raise ValueError(f"is about a part of the task ({', '.join(others)[:60]}); ask for it once for the whole")
        value = value[kinds[0]]
        if kinds[0] == "text" and isinstance(value, list):
            value = "\n".join(map(str, value))
    if isinstance(value, list):
        if len(value) > 1:
            raise ValueError(f"has {len(value)} choices ({', '.join(map(str, value))}), one is expected")
        value = value[0] if value else None
    if isinstance(value, dict | list):
        raise ValueError("is not a rating, choice, number or text")
    return None if value is None or value == "" else value


def _rater(annotator: Any) -> str | None:
    if isinstance(annotator, dict):
        annotator = annotator.get("email") or annotator.get("id")
    if annotator is None or not str(annotator).strip():
        return None
    name = str(annotator).strip()
    return f"rater-{name}" if name.isdecimal() else name


def _missing_keys(annotation: Annotation) -> list[str]:
    """The reasons why a score cannot be attributed: the task's data lacks a key, or no annotator is named."""
    data = annotation.data
    wrong = []
    if missing := [name for name in ("question_id", "model") if data.get(name) in (None, "")]:
        form = "; `medjudge annotate import` reads forms of `medjudge annotate export`" if "item" in data else ""
        wrong.append(f"data has no {' and no '.join(missing)}; its fields are: {', '.join(data)}{form}")
    if _rater(annotation.annotator) is None:
        wrong.append("no annotator is named (completed_by; annotator in JSON-MIN)")
    return wrong
