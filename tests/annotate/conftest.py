"""A real browser."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="module")  # not longer: while it is open, nothing else in this process may start an event loop
def browser() -> Iterator[Any]:
    """Headless Chromium of the system."""
    from playwright.sync_api import sync_playwright

    found = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not found and not os.environ.get("CI"):
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=(found or ["chromium"])[0], args=["--no-sandbox"])
        yield chromium
        chromium.close()
