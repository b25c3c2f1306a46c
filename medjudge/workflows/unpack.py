"""`medjudge unpack`: checks a bundle and puts it into place. Loads no torch, so that it starts at once."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medjudge.bundle import Manifest, unpack_bundle

QUESTIONS, ANSWERS, REQUIREMENTS = "benchmark/questions.jsonl", "benchmark/answers.jsonl", "requirements.txt"
"""Their places in a bundle; the requirements are among its wheels."""


@dataclass(frozen=True)
class Unpacked:
    """A bundle whose every file was checked, in its place."""

    folder: Path
    manifest: Manifest

    @property
    def commands(self) -> list[str]:
        """The commands that install and run: two where the bundle has wheels, else one."""
        about = self.manifest.about
        place = f"./{self.folder}" if str(self.folder).startswith("-") else str(self.folder)  # else it is an option
        paths = {file.path for file in self.manifest.files}
        run = ["medjudge", "eval", "--offline", "--judge", f"{place}/judges/{about.judge}"]
        run += ["--benchmark", f"{place}/{QUESTIONS}"]
        run += ["--answers", f"{place}/{ANSWERS}"] if ANSWERS in paths else ["--model", "MODEL"]
        if f"wheels/{REQUIREMENTS}" not in paths:
            return [shlex.join(run)]
        python = f"python{about.python}" if about.python else "python3"
        pip = [f"{place}/venv/bin/pip", "install", "--no-index", "--find-links", f"{place}/wheels"]
        pip += ["--require-hashes", "-r", f"{place}/wheels/{REQUIREMENTS}"]
        install = f"{shlex.join([python, '-m', 'venv', f'{place}/venv'])} && {shlex.join(pip)}"
        return [install, shlex.join([f"{place}/venv/bin/{run[0]}", *run[1:]])]

    def as_json(self) -> dict[str, Any]:
        """The object that `unpack --json` prints."""
        return {
            "folder": str(self.folder),
            "files": len(self.manifest.files),
            "about": self.manifest.about.model_dump(),
            "commands": self.commands,
        }


def unpack(bundle: Path, out: Path | None = None) -> Unpacked:
    """Checks a bundle and puts its files into a new folder.

    Args:
        out: The folder; unless given, the bundle's name without its suffix.

    Raises:
        InputError: The bundle is not what its manifest says. Nothing is left behind.
    """
    folder = out or Path(bundle.stem)
    return Unpacked(folder, unpack_bundle(bundle, folder))
