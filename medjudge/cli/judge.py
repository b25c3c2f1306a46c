"""`medjudge judge`: signs judge folders, and checks signatures."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Optional

import typer

from medjudge.cli import options

app = typer.Typer(help="Sign a judge, or check a signature.", no_args_is_help=True, rich_markup_mode="rich")

_Folder = Annotated[str, typer.Argument(metavar="FOLDER", help="Judge folder.", show_default=False)]


@app.command("sign")
def sign(
    folder: _Folder,
    key: Annotated[Path, typer.Option(metavar="KEY", help="Secret key of minisign.")],
    as_json: options.AsJson = False,
) -> None:
    """Sign a judge: its files, its base model, and the validations in judge.json.

    Sign it again after each validation, which changes judge.json.
    """
    from medjudge.cli.output import console, print_json
    from medjudge.judge.identity import SIGNATURE_FILE
    from medjudge.workflows.sign_judge import sign_judge

    place, files = sign_judge(folder, key)
    if as_json:
        print_json({"judge": str(place), "files": files, "signature": str(place / SIGNATURE_FILE)})
    console(as_json).print(
        f"{place}: {files} files signed; check with: medjudge judge verify {quote(str(place))} --key KEY.pub"
    )


@app.command("verify")
def verify(
    folder: _Folder,
    key: Annotated[
        Optional[Path], typer.Option(metavar="KEY", help="Public key of minisign that must have signed it.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare a judge with its signature. Exits with 1 if it is unsigned or was changed."""
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.sign_judge import verify_judge

    verified = verify_judge(folder, key)
    if as_json:
        print_json(
            {
                "judge": str(verified.folder),
                "signed": verified.files.signed,
                "changed": list(verified.files.changed),
                "key": None if verified.key is None else str(verified.key),
                "comment": verified.comment,
            }
        )
    screen = console(as_json)
    screen.print(f"{verified.folder}: {verified.line}")
    for name in verified.files.changed:
        screen.print(f"  {name}: not as it was signed")
    if not verified.holds:
        raise typer.Exit(1)
