"""Remakes the pictures of the documentation: runs the sample and photographs its pages in headless Chromium.

    python docs/pictures.py

Needs Chromium and the extra `dev`. Writes docs/*.png.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from medjudge.benchmark.sample import sample_folder
from medjudge.store import Run, write_records

DOCS = Path(__file__).parent
RATER = "dr-a"
SETTLED = 1_000
"""Milliseconds after which a screen takes scores and stands still."""
PATIENCE = 120_000
"""Milliseconds that a busy machine may take for anything."""


def medjudge(folder: Path, *arguments: str) -> None:
    """Runs a command; status 1 means that something was left unscored or a gate failed."""
    done = subprocess.run([sys.executable, "-m", "medjudge.cli", *arguments], cwd=folder, stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 1):
        raise SystemExit(f"medjudge {' '.join(arguments)}: status {done.returncode}")


@contextmanager
def served(folder: Path, *arguments: str) -> Iterator[dict[str, Any]]:
    """Serves pages and yields what the command prints."""
    command = [sys.executable, "-m", "medjudge.cli", *arguments, "--json"]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    text = ""
    while not text.endswith("\n}\n"):  # the object takes several lines
        text += server.stdout.readline()
    try:
        yield json.loads(text)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(timeout=30)


def save(page: Page, name: str, **options: Any) -> None:
    """Writes a picture with at most 256 colours, which is a third of the size."""
    page.wait_for_timeout(SETTLED)
    picture = Image.open(BytesIO(page.screenshot(**options))).convert("RGB")
    picture.quantize(256, dither=Image.Dither.NONE).save(DOCS / name, optimize=True)
    print(f"{name}: {(DOCS / name).stat().st_size / 1024:.0f} KiB")


def photograph_scoring(browser: Browser, folder: Path) -> None:
    """The scoring page: a question with a level to give, and a generated text half scored."""
    with served(folder, "annotate", "serve", "scoring", "--rater", RATER, "--no-open") as printed:
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(PATIENCE)
        page.goto(printed["link"])
        pictures = {"annotate-serve.png": ".scores", "annotate-serve-mtg.png": ".dimensions"}
        while pictures:
            page.wait_for_timeout(SETTLED)
            shown = next((name for name, form in pictures.items() if page.locator(form).count()), None)
            if shown is not None and page.locator(".answer .text[lang=en]").count():
                if shown == "annotate-serve-mtg.png":
                    page.keyboard.type("545")
                save(page, shown)
                del pictures[shown]
                page.keyboard.press("Escape")
            # Scores a level; skips a generated text.
            page.keyboard.press("s" if page.locator(".dimensions").count() else "4")
        page.close()


def photograph_report(browser: Browser, folder: Path) -> None:
    """The report: its leaderboard, and one answer beside its reference and checklist."""
    page = browser.new_page(viewport={"width": 1180, "height": 1110})
    page.set_default_timeout(PATIENCE)
    page.goto((folder / "runs" / "sample" / "report.html").as_uri())
    page.locator("html[data-ready]").wait_for(state="attached")
    save(page, "report-leaderboard.png")
    page.set_viewport_size({"width": 1180, "height": 1180})
    page.evaluate("location.hash = '#answer/0/MSE-en-05/model-c/0'")
    page.locator("#detail h3").first.wait_for()
    page.evaluate("scrollTo(0, 0)")
    save(page, "report-answers.png")
    page.close()


def photograph_site(browser: Browser, folder: Path) -> None:
    """The index of runs."""
    with served(folder, "serve", "site", "--port", "0") as printed:
        page = browser.new_page(viewport={"width": 1180, "height": 600})
        page.set_default_timeout(PATIENCE)
        page.goto(printed["address"])
        page.locator("html[data-ready]").wait_for(state="attached")
        save(page, "report-runs.png")
        page.close()


def three_runs(folder: Path) -> None:
    """The judged sample as three runs of one folder, in which one model's answers became better."""
    for month, name in enumerate(("july", "august", "september"), 7):
        run = Run(folder / "site" / name)
        shutil.copytree(folder / "runs" / "sample", run.path)
        run.update_manifest(updated=f"2026-{month:02}-01T09:00:00+00:00")
        (judge,) = run.judges()
        better = {"model-e"} if name == "september" else set()
        judgments = [
            judgment.model_copy(update={"score": 5, "expected": None, "probabilities": None})
            if judgment.model in better and judgment.score is not None
            else judgment
            for judgment in run.judgments(judge)
        ]
        write_records(run.judgments_file(judge), judgments)


def main() -> None:
    """Runs the sample, then takes the five pictures."""
    browser_path = next(path for name in ("chromium", "google-chrome") if (path := shutil.which(name)))
    os.environ["HF_HUB_OFFLINE"] = "1"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        shutil.copytree(sample_folder(), folder / "scoring")
        (folder / "scoring" / "physician_scores.jsonl").unlink()
        medjudge(folder, "annotate", "export", "scoring", "--rater", RATER, "--each", "40")
        medjudge(folder, "eval", "--judge", "built-in", "--run", "runs/sample")
        shutil.copy(sample_folder() / "physician_scores.jsonl", folder / "runs" / "sample")
        medjudge(folder, "validate", "runs/sample", "--judge", "built-in")
        medjudge(folder, "report", "runs/sample")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            photograph_scoring(browser, folder)
            photograph_report(browser, folder)
            three_runs(folder)
            photograph_site(browser, folder)
            browser.close()


if __name__ == "__main__":
    main()
