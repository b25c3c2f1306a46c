"""`medjudge pack` and `unpack`: a judge and a benchmark in one file."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.cli.options import REQUIRED, flags, option


@dataclass(kw_only=True)
class Pack:
    """The options of `medjudge pack`."""

    judge: options.Judge
    benchmark: options.Benchmark
    out: Path = option(REQUIRED, "FILE", "Bundle to write, such as bundle.tar.")
    answers: Optional[Path] = option(None, "FILE", "Answers to judge there. Default: none, or the sample's.")
    scheme: options.Scheme = None
    encoding: options.Encoding = None
    gate: Optional[Path] = option(None, "FILE", "Acceptance gate. Default: the scheme's.")
    as_json: options.AsJson = False


@flags
def pack(options: Pack) -> None:
    """Pack a judge and a benchmark for a machine without a network.

    The bundle holds the judge, its base model, questions, answers, scheme, rubrics and gate, and a manifest with the
    sha256 of every file.
    """
    from medjudge.cli.output import console
    from medjudge.workflows.pack import pack as write

    packed = write(options.judge, options.benchmark, options.out, options.scheme, options.answers, options.gate)
    screen = console(options.as_json, packed.as_json())
    if packed.left_out:
        screen.print(f"left out of the judge folder: {', '.join(packed.left_out)}")
    screen.print(
        f"{packed.out}: {len(packed.manifest.files)} files, {packed.out.stat().st_size / 1e6:.1f} MB; "
        f"sha256 of the manifest: {packed.manifest_sha256}"
    )
    screen.print(f"\non the other machine: medjudge unpack {quote(packed.out.name)}")


def unpack(
    bundle: Annotated[Path, typer.Argument(metavar="BUNDLE", help="What `medjudge pack` wrote.", show_default=False)],
    out: Annotated[
        Optional[Path], typer.Option(metavar="FOLDER", help="Folder to write. Default: the bundle's name.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Check a bundle and unpack it.

    Every file is compared with the manifest before anything is put into place. A bundle that differs is refused, and
    nothing is left behind. Prints the command that judges with it.
    """
    from medjudge.cli.output import console
    from medjudge.workflows.unpack import unpack as read

    unpacked = read(bundle, out)
    screen = console(as_json, unpacked.as_json())
    about = unpacked.manifest.about
    screen.print(
        f"{unpacked.folder}: {len(unpacked.manifest.files)} files, each as the manifest says\n"
        f"judge {about.judge}, {about.questions} questions and {about.answers} answers of scheme {about.scheme}\n"
    )
    screen.print(unpacked.command)
