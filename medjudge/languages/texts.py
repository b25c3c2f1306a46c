"""Looks up the texts of a language: the files in `languages/LANGUAGE/`, and what a scheme adds to them."""

from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, parse_yaml
from medjudge.scheme import Scheme

_FOLDER = Path(__file__).parent


class Texts(BaseModel):
    """The base of the models that describe a YAML file of texts: frozen, and unknown fields are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


_Texts = TypeVar("_Texts", bound=Texts)


class Languages(NamedTuple):
    """Look-up of the texts of languages: among those added (language, name of the file, text), then in the package.

    A language of which all files are added needs no code; it lacks what its missing files are for.
    """

    added: tuple[tuple[str, str, str], ...] = ()

    def codes(self, name: str = "") -> tuple[str, ...]:
        """The languages that have texts, in alphabetical order; with `name`, those that have this file."""
        packaged = {path.name for path in _FOLDER.iterdir() if path.is_dir() and (path / name).exists()}
        return tuple(sorted(packaged | {code for code, file, _ in self.added if name in ("", file)}))

    def text(self, language: str, name: str) -> str:
        """The text of a language's file.

        Raises:
            InputError: The language has no such file.
        """
        added = {(code, file): text for code, file, text in self.added}
        text = added[language, name] if (language, name) in added else _packaged(language, name)
        if text is None:
            add = f"add languages/{language}/{name}, modelled on {_FOLDER / 'en' / name}"
            raise InputError(f"language {language} has no {name}; {add}")
        return text

    def load(self, language: str, name: str, model: type[_Texts]) -> _Texts:
        """A language's YAML file as an object of `model`.

        Raises:
            InputError: As for `text`; or the file is not YAML, lacks a field, or has an unknown one.
        """
        return _loaded(self.text(language, name), f"languages/{language}/{name}", model)


PACKAGED = Languages()
"""English and Chinese, as the package brings them."""


def languages_of(scheme: Scheme) -> Languages:
    """The package's texts, and those that a scheme adds."""
    added = ((code, name, text) for code, by_name in scheme.texts.items() for name, text in by_name.items())
    return Languages(tuple(added))


@cache
def _packaged(language: str, name: str) -> str | None:
    path = _FOLDER / language / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def _loaded(text: str, place: str, model: type[Any]) -> Any:
    try:
        return model.model_validate(parse_yaml(text, place))
    except ValidationError as error:
        raise InputError(f"{place}: {first_problem(error)}") from None
