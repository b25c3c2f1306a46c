"""`medjudge annotate serve`: the pages on which physicians score answers."""

import sys
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Optional

from medjudge.cli import options
from medjudge.cli.groups import Address
from medjudge.cli.options import flags, option
from medjudge.errors import notify

if TYPE_CHECKING:
    from medjudge.workflows.annotation_pages import AnnotationPages
    from medjudge.workflows.network import Network


@dataclass(kw_only=True)
class PagesOptions(Address):
    """The options of the pages of a plan's raters."""

    run: options.RunFolder
    rater: Optional[list[str]] = option(None, "NAME", "A rater of the plan. Repeatable. Default: all of them.")
    port: Optional[int] = option(
        None,
        "N",
        "0 uses a free port. Default: 8443; where only this machine can connect, a free one if that is taken.",
        min=0,
        max=65535,
    )
    open_page: bool = option(True, None, "Open the page of a single rater in the browser.", name="--open/--no-open")
    as_json: options.AsJson = False

    def stable_network(self) -> "Network":
        """The address of the pages; their links need a port that stays."""
        network = self.network(8443 if self.port is None else self.port)
        return network._replace(or_free=self.port is None and network.for_this_machine)


@dataclass(kw_only=True)
class ServeOptions(PagesOptions):
    """The options of `medjudge annotate serve`."""

    adjudicate: bool = option(
        False,
        None,
        "Where physicians differ by two levels or across usable: --rater sees their scores without names and records "
        "the agreed one.",
    )


def serve_links(pages: "AnnotationPages", open_page: bool, as_json: bool) -> None:
    """Prints the raters' links, serves the pages until Ctrl-C, and says what is left to do."""
    import webbrowser

    from medjudge.cli.output import print_json

    task, what = pages.task, pages.task.work
    single = next(iter(pages.links.items())) if len(pages.links) == 1 else None
    if as_json:
        each = {name: {"link": link, what: count} for name, (link, count) in pages.links.items()}
        one = {"link": single[1].link, "rater": single[0], what: single[1].answers} if single else {}
        print_json({**one, "links": each})
    else:
        for name, (link, count) in pages.links.items():
            print(f"{name}, {count} {what}: {link}")
        print(f"Every {task.verdict} is saved at once. Press Ctrl-C to stop.")
    sys.stdout.flush()
    if open_page and single and pages.listener.network.for_this_machine:
        webbrowser.open(single[1].link)  # the socket is listening, so the browser waits for the server
    pages.serve()
    left, run = pages.open_units(), pages.run.path
    advice = f"next: medjudge {task.checked_by} {quote(str(run))} --judge JUDGE"
    if any(left.values()):
        advice = "run the same command to continue"
    counts = "; ".join(
        f"{name}: {count} of {pages.links[name].answers} {what} are open" for name, count in left.items()
    )
    notify(f"stopped; {counts}, in {run}; {advice}")


@flags
def serve(options: ServeOptions) -> None:
    """Score answers on a web page, for this machine or, with --host, for a network.

    Every rater has a personal link. The run needs a plan, which `medjudge annotate export` makes.
    """
    from medjudge.workflows.annotation_pages import open_pages

    network = options.stable_network()
    pages = open_pages(options.run, options.rater or (), network=network, adjudicate=options.adjudicate)
    serve_links(pages, options.open_page, options.as_json)
