"""`medjudge unpack`: checks a bundle and puts it into place."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from medjudge.cli import options


def unpack(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `medjudge pack` wrote.", show_default=False)],
    out: Annotated[
        Optional[Path], typer.Option(metavar="FOLDER", help="Folder to write. Default: the bundle's name.")
    ] = None,
    key: Annotated[
        Optional[Path],
        typer.Option(metavar="KEY", help="Public key of minisign; refuse what is not signed by it."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a bundle and unpack it.

    Every byte is compared with the manifest before anything is put into place. A bundle that differs is refused, and
    nothing is left behind. Prints the commands that install and run.
    """
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.unpack import unpack as read

    unpacked = read(bundle, out, key)
    if as_json:
        print_json(unpacked.as_json())
    screen = console(as_json)
    about = unpacked.manifest.about
    screen.print(
        f"{unpacked.folder}: {len(unpacked.manifest.files)} files, each as the manifest says; {unpacked.signature}\n"
        f"judge {about.judge}, {about.questions} questions and {about.answers} answers of scheme {about.scheme}\n"
    )
    for command in unpacked.commands:
        screen.print(command)
