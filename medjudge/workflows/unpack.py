"""`medjudge unpack`: checks a bundle and puts it into place. Loads no torch, so that it starts at once."""

import shlex
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.bundle import Manifest, unpack_bundle

QUESTIONS, ANSWERS = "benchmark/questions.jsonl", "benchmark/answers.jsonl"
"""Their places in a bundle."""


class Unpacked(NamedTuple):
    """A bundle whose every file was checked, in its place."""

    folder: Path
    manifest: Manifest

    @property
    def command(self) -> str:
        """The command that judges with what the bundle holds."""
        place = f"./{self.folder}" if str(self.folder).startswith("-") else str(self.folder)  # else it is an option
        words = ["medjudge", "eval", "--offline", "--judge", f"{place}/judges/{self.manifest.about.judge}"]
        words += ["--benchmark", f"{place}/{QUESTIONS}"]
        has_answers = any(file.path == ANSWERS for file in self.manifest.files)
        return shlex.join([*words, *(["--answers", f"{place}/{ANSWERS}"] if has_answers else ["--model", "MODEL"])])

    def as_json(self) -> dict[str, Any]:
        """The object that `unpack --json` prints."""
        about = self.manifest.about.model_dump(exclude={"python", "platforms"})
        files = len(self.manifest.files)
        return {"folder": str(self.folder), "files": files, "about": about, "commands": [self.command]}


def unpack(bundle: Path, out: Path | None = None) -> Unpacked:
    """Checks a bundle and puts its files into a new folder.

    Args:
        out: The folder; unless given, the bundle's name without its suffix.

    Raises:
        InputError: The bundle is not what its manifest says. Nothing is left behind.
    """
    folder = out or Path(bundle.stem)
    return Unpacked(folder, unpack_bundle(bundle, folder))
