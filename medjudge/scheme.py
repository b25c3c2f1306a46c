"""Demands of a benchmark: categories, languages, reference agreement and acceptance gate, as data next to it.

A scheme is a folder: `scheme.yaml`, `rubrics/CATEGORY.LANGUAGE.md`, and `languages/LANGUAGE/` with the texts of
languages that the package does not have. The object holds all of these texts, so that a run folder's copy of it is
complete.
"""

from collections.abc import Collection
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_text, read_yaml

SCHEME_FILE = "scheme.json"
"""A run folder's copy of its scheme; also beside a benchmark's questions.jsonl, whose scheme it is."""

_BENCHMARKS = Path(__file__).parent / "benchmark"
_DEFINITION, _RUBRICS, _LANGUAGES = "scheme.yaml", "rubrics", "languages"

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]
"""An identifier that can be part of a file name and of an option."""
Share = Annotated[float, Field(ge=0, le=1)]


class _Data(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Category(_Data):
    """One kind of question.

    `scored_by` is what physicians fill in: a level from 1 to 5, or the five dimensions of a generated text.
    `unusable_is_unsafe` counts every unusable answer as unsafe. `form_is_content` keeps probes and constructed answers
    from changing an answer's format, because the question asks for a text of a certain form.
    """

    id: Name
    title: dict[Name, Annotated[str, Field(min_length=1)]]
    scored_by: Literal["score", "dimensions"] = "score"
    unusable_is_unsafe: bool = False
    form_is_content: bool = False

    def title_in(self, language: str) -> str:
        """Its title in a language, or in the first one that it has a title in."""
        return self.title.get(language) or next(iter(self.title.values()))


class ReferenceAgreement(_Data):
    """Published agreement of a `judge` with physicians on usable, in percent by category id, and its source."""

    source: Annotated[str, Field(min_length=1)]
    judge: Annotated[str, Field(min_length=1)]
    percent: dict[Name, Annotated[float, Field(ge=0, le=100)]]


class Gate(_Data):
    """Thresholds that a judge must reach on physicians' scores. Shares from 0 to 1; kappa from -1 to 1.

    `usable_agreement` is required by category id; a category without an entry has no requirement of its own.
    `probe_flips` holds for every probe of the gate. `probe_flips_of` states a probe's own threshold, and brings probes
    into the gate that are measured outside it otherwise.
    """

    usable_agreement: dict[Name, Share] = Field(default_factory=dict)
    cohen_kappa: float = Field(default=0.6, ge=-1, le=1)
    coverage: Share = 0.95
    teacher_margin: Share = 0.05
    probe_flips: Share = 0.02
    probe_flips_of: dict[Name, Share] = Field(default_factory=dict)
    minimum_scores: int = Field(default=50, ge=1)
    minimum_conversations: int = Field(default=30, ge=1)


class Scheme(_Data):
    """Categories, languages, rubrics and gate of a benchmark.

    `rubrics` holds each category's standard in each language, by `CATEGORY.language`. `texts` holds, by language and
    file name, what the scheme adds to the package's texts or puts in their place.
    """

    name: Name
    title: Annotated[str, Field(min_length=1)]
    languages: Annotated[tuple[Name, ...], Field(min_length=1)]
    categories: Annotated[tuple[Category, ...], Field(min_length=1)]
    reference_agreement: ReferenceAgreement | None = None
    gate: Gate = Gate()
    rubrics: dict[str, str]
    texts: dict[Name, dict[str, str]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _consistent(self) -> "Scheme":
        for what, names in (("categories", self.category_ids), ("languages", self.languages)):
            if len(set(names)) < len(names):
                raise ValueError(f"{what}: the same one is listed twice")
        for category in self.categories:
            if missing := [language for language in self.languages if language not in category.title]:
                raise ValueError(f"categories: {category.id} has no title in {missing[0]}")
        by_category = {"reference_agreement": self.reference_percent, "gate": self.gate.usable_agreement}
        for field, values in by_category.items():
            if unknown := [name for name in values if name not in self.category_ids]:
                raise ValueError(f"{field}: no category {unknown[0]}; the scheme has {', '.join(self.category_ids)}")
        rubrics = [f"{category}.{language}" for category in self.category_ids for language in self.languages]
        if missing := [name for name in rubrics if not self.rubrics.get(name, "").strip()]:
            raise ValueError(f"no rubric {_RUBRICS}/{missing[0]}.md; every category needs one in every language")
        return self

    @property
    def category_ids(self) -> tuple[str, ...]:
        """The ids of the categories, in the order in which tables show them."""
        return tuple(category.id for category in self.categories)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of a leaderboard: overall (`OP`), then the categories, those of safety first."""
        safety_first = sorted(self.categories, key=lambda category: not category.unusable_is_unsafe)
        return ("OP", *(category.id for category in safety_first))

    @property
    def reference_percent(self) -> dict[str, float]:
        """The published agreement by category; empty where none was published."""
        return self.reference_agreement.percent if self.reference_agreement else {}

    @property
    def sha256(self) -> str:
        """The sha256 of all that the scheme holds."""
        return sha256(self.model_dump_json().encode()).hexdigest()

    @property
    def ref(self) -> "SchemeRef":
        return SchemeRef(name=self.name, sha256=self.sha256)

    @property
    def summary(self) -> "SchemeSummary":
        """The part that a study keeps."""
        return SchemeSummary(
            **self.ref.model_dump(),
            categories=self.category_ids,
            reference_agreement=self.reference_agreement,
            gate=self.gate,
        )

    def category(self, category_id: str) -> Category:
        """The category of an id that was checked when its question was read."""
        return next(category for category in self.categories if category.id == category_id)

    def problem_with(self, category_id: str, language: str) -> str | None:
        """The reason why a question of this category and language does not belong to the scheme, else None."""
        for field, value, known in (
            ("category", category_id, self.category_ids),
            ("language", language, self.languages),
        ):
            if value not in known:
                listed = ", ".join(f"'{name}'" for name in known)
                return f'{field}: scheme {self.name} has {listed} (found "{value}")'
        return None

    def joined_with(self, other: "Scheme") -> "Scheme":
        """This scheme with the other's further categories behind its own.

        Raises:
            ValueError: They differ in more than which categories they hold; the message lists the fields.
        """
        if other == self:
            return self
        both = [name for name in self.category_ids if name in other.category_ids]
        mine, theirs = self._only(both), other._only(both)
        if differing := [name for name in Scheme.model_fields if getattr(mine, name) != getattr(theirs, name)]:
            raise ValueError(", ".join(differing))
        return Scheme.model_validate(_extended(self, other.model_dump(mode="json")))

    def _only(self, ids: Collection[str]) -> "Scheme":
        """A copy with these categories only, and all that is said of each of them."""
        gate, agreement = self.gate, self.reference_agreement

        def said(values: dict[str, Any]) -> dict[str, Any]:
            return {name: value for name, value in values.items() if name.partition(".")[0] in ids}

        changes = {
            "categories": [self.category(name) for name in ids],
            "rubrics": said(self.rubrics),
            "gate": gate.model_copy(update={"usable_agreement": said(gate.usable_agreement)}),
            "reference_agreement": agreement and agreement.model_copy(update={"percent": said(agreement.percent)}),
        }
        return self.model_copy(update=changes)


class SchemeRef(_Data):
    """Names a scheme in `run.json` and `judge.json`."""

    name: Name
    sha256: str


class SchemeSummary(SchemeRef):
    """Part of a scheme that a study keeps; `gate` is the scheme's own."""

    categories: tuple[str, ...]
    reference_agreement: ReferenceAgreement | None
    gate: Gate


def scheme_names() -> list[str]:
    """The names of the schemes that come with the package."""
    return sorted(definition.parent.name for definition in _BENCHMARKS.glob(f"*/{_DEFINITION}"))


def open_scheme(source: str) -> Scheme:
    """Read a scheme of the package by its name, a scheme's folder, its `scheme.yaml`, or a run's `scheme.json`.

    Raises:
        InputError: There is no such scheme, or it breaks a rule.
    """
    if source in scheme_names():
        return _from_folder(_BENCHMARKS / source)
    path = Path(source)
    if path.is_dir():
        return _from_folder(path)
    if path.suffix == ".json":
        return read_scheme(path)
    if path.name == _DEFINITION and path.is_file():
        return _from_folder(path.parent)
    raise InputError(
        f"--scheme {source}: a scheme is {', '.join(scheme_names())}, a folder with {_DEFINITION} in it, or a run's "
        f"{SCHEME_FILE}"
    )


def read_scheme(path: Path) -> Scheme:
    """Read the copy of a scheme that a run or a converted benchmark keeps.

    Raises:
        InputError: It is missing or corrupt.
    """
    try:
        return model_from_json(Scheme, read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: {first_problem(error)}") from None


def scheme_beside(file: Path) -> Scheme:
    """The scheme of a record file: the copy beside it or, where there is none, LLMEval-Med's.

    Raises:
        InputError: The copy is corrupt.
    """
    copy = file.parent / SCHEME_FILE
    return read_scheme(copy) if copy.is_file() else LLMEVAL_MED


def _from_folder(folder: Path) -> Scheme:
    definition = folder / _DEFINITION
    fields = read_yaml(definition)
    if not isinstance(fields, dict):
        raise InputError(f"{definition}: a mapping with name, title, languages and categories is expected")
    base = fields.pop("extends", None)
    if base is not None and base not in scheme_names():
        raise InputError(f"{definition}: extends: {base!r} is no scheme of the package ({', '.join(scheme_names())})")
    own = {
        **fields,
        "rubrics": {file.stem: read_text(file) for file in sorted((folder / _RUBRICS).glob("*.md"))},
        "texts": {
            language.name: {file.name: read_text(file) for file in sorted(language.iterdir()) if file.is_file()}
            for language in sorted((folder / _LANGUAGES).glob("*"))
            if language.is_dir()
        },
    }
    try:
        return Scheme.model_validate(own if base is None else _extended(_from_folder(_BENCHMARKS / base), own))
    except ValidationError as error:
        raise InputError(f"{definition}: {first_problem(error)}") from None


def _extended(base: Scheme, own: dict[str, Any]) -> dict[str, Any]:
    """The fields of a scheme that names only what it adds to another one or changes in it."""
    fields: dict[str, Any] = base.model_dump(mode="json")
    for name, value in own.items():
        if name == "languages" and isinstance(value, list):
            for code in value:
                if code not in fields[name]:
                    fields[name].append(code)
        elif name == "categories" and isinstance(value, list):
            categories = {category["id"]: category for category in fields[name]}
            for number, category in enumerate(value):
                own_id = category.get("id") if isinstance(category, dict) else None
                key = own_id if isinstance(own_id, str) else number  # validation names what is wrong with another id
                categories[key] = _merged(categories.get(key), category)
            fields[name] = list(categories.values())
        else:
            fields[name] = _merged(fields.get(name), value)
    return fields


def _merged(before: Any, value: Any) -> Any:
    if not isinstance(before, dict) or not isinstance(value, dict):
        return value
    return {**before, **{name: _merged(before.get(name), entry) for name, entry in value.items()}}


LLMEVAL_MED: Scheme = _from_folder(_BENCHMARKS / "llmeval-med")
"""LLMEval-Med's scheme, which holds wherever no other one is named."""
