"""The documentation's site: built strictly, complete, and loading nothing from another host."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from calls import python, worked
from pages import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    worked(python("-m", "mkdocs", "build", "--strict", "--site-dir", folder, cwd=ROOT))
    return folder


def test_the_reference_holds_every_command_and_option_of_the_app(site: Path) -> None:
    page = (site / "cli" / "index.html").read_text(encoding="utf-8")
    for heading in ("medjudge quickstart", "medjudge eval", "medjudge annotate export", "medjudge data convert"):
        assert re.search(rf"<h2[^>]*>{heading}<", page), heading
    for option in ("--defer-to-physicians", "--max-cost", "--rater", "--probe-answers"):
        assert option in page
    assert "--interval bca|percentile</code>" in page  # a bar in a table ends no cell


class Loaded(HTMLParser):
    """Collects what a browser fetches for a page by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag == "link" and attributes.get("rel") not in ("canonical", "prev", "next", "alternate"):
            self.addresses.append(attributes.get("href") or "")
        elif tag != "a":
            self.addresses.append(attributes.get("src") or "")


def test_pages_load_nothing_from_another_host(site: Path) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 10
    for page in pages:
        loaded = Loaded()
        loaded.feed(page.read_text(encoding="utf-8"))
        assert any(address.endswith(".css") for address in loaded.addresses), page
        assert [address for address in loaded.addresses if address.startswith(("http:", "https:", "//"))] == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet


def test_scripts_of_the_documentation_are_not_published(site: Path) -> None:
    assert list(site.rglob("*.py")) == []
