"""`medjudge annotate`: the physicians' side."""

import typer

from medjudge.cli import annotate_serve

app = typer.Typer(help="Let physicians score answers.", no_args_is_help=True, rich_markup_mode=None)
app.command("serve")(annotate_serve.serve)
