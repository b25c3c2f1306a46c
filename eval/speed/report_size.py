"""The size of a whole benchmark's report, the time to write it, and the time until a browser shows it.

    python eval/speed/report_size.py WORK

WORK is an empty folder. The run has the size of LLMEval-Med: 667 questions in 571 conversations, 13 models, three
answers each, 26,013 judgments with probabilities and short rationales, a tenth of the answers scored by two raters. All
texts are generated, seeded, in Chinese characters: sentences of invented words, among them numbers and Latin names,
whose frequencies fall as those of real words do, words of the text's own subject, stock phrases, and the marks of
lists. No two answers share more than that. Chromium (/usr/bin/chromium) opens the page where there is one, three times
with a new profile; medians are given. The result is eval/results/report-size.json.
"""

import resource
import statistics
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from eval.lib.study import record
from medjudge.records import Answer, Judgment, PhysicianScore, Question
from medjudge.report.page import report_page
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run, write_records

QUESTIONS, CONVERSATIONS, MODELS, SAMPLES, SUBCATEGORIES = 667, 571, 13, 3, 27
CHARACTERS, WORDS, PHRASES, SUBJECT = 2400, 12_000, 2000, 40
CHROMIUM = Path("/usr/bin/chromium")
OPENINGS = 3
LARGEST = 36_000_000
"""Bytes that the page must stay below."""


def texts(seed: int, median: int, spread: float = 0.45) -> Iterator[str]:
    """Texts without end, their lengths log-normal around a median, in characters."""
    generator = np.random.default_rng(seed)
    words, phrases, word_edges, phrase_edges = vocabulary()
    marks = ("。\n\n", "。\n- **", "**：", "。", "，", "")
    mark_edges = np.array([0.015, 0.04, 0.065, 0.1, 0.18])
    while True:
        length = int(np.clip(generator.lognormal(np.log(median), spread), 20, 4000))
        subject = generator.integers(0, WORDS, SUBJECT)
        drawn = generator.random(length)
        choices = (
            [words[index] for index in subject[(SUBJECT * drawn**2).astype(int)]],
            [phrases[index] for index in np.searchsorted(phrase_edges, drawn)],
            [words[index] for index in np.searchsorted(word_edges, drawn)],
        )
        kinds = np.searchsorted([0.45, 0.6], generator.random(length))
        ends = np.searchsorted(mark_edges, generator.random(length))
        pieces = (choices[kind][index] + marks[end] for index, (kind, end) in enumerate(zip(kinds, ends, strict=True)))
        yield "".join(pieces)[:length]


@cache
def vocabulary() -> tuple[list[str], list[str], np.ndarray, np.ndarray]:
    """Words of one to four characters, the frequent ones short; phrases of them; and the cumulated shares of both."""
    generator = np.random.default_rng(0)
    shares = 1 / (np.arange(CHARACTERS) + 12)
    characters = 0x4E00 + generator.choice(CHARACTERS, size=(WORDS, 4), p=shares / shares.sum())
    lengths = 1 + generator.binomial(3, np.clip(np.log10(np.arange(WORDS) + 1) / 6, 0.05, 0.8))
    words = ["".join(map(chr, row[:length])) for row, length in zip(characters, lengths, strict=True)]
    for index in range(5, WORDS, 9):
        latin = "".join(map(chr, 97 + generator.integers(0, 26, generator.integers(3, 9))))
        words[index] = f"{generator.integers(1, 500)} mg" if index % 2 else latin
    word_edges = _edges(WORDS, 2.7, 1.05)
    phrases = [
        "".join(words[word] for word in np.searchsorted(word_edges, generator.random(3 + index % 4)))
        for index in range(PHRASES)
    ]
    return words, phrases, word_edges, _edges(PHRASES, 5, 1)


def _edges(count: int, offset: float, power: float) -> np.ndarray:
    """Zipf's law, cumulated."""
    shares = 1 / (np.arange(count) + offset) ** power
    return np.cumsum(shares / shares.sum())


_TIMED = """([name, value, expected]) => new Promise((done) => {
  const start = performance.now(), count = byId("count");
  new MutationObserver((_, observer) => {
    if (!count.textContent.startsWith(expected) || count.textContent.includes("searching")) return;
    observer.disconnect();
    done((performance.now() - start) / 1000);
  }).observe(count, { childList: true });
  form.elements[name].value = value;
  form.elements[name].dispatchEvent(new Event(name === "words" ? "input" : "change", { bubbles: true }));
})"""
"""Sets a filter and waits until the count of answers found begins as expected."""


def write_run(folder: Path) -> Run:
    """A run of the benchmark's size."""
    run = Run(folder)
    generator = np.random.default_rng(1)
    prompts, references, checklists = texts(2, 350, 0.8), texts(3, 300, 0.8), texts(4, 150)
    answers_texts, rationales, comments = texts(5, 750), texts(6, 100), texts(7, 20)
    questions = [
        Question(
            id=f"{LLMEVAL_MED.category_ids[k % SUBCATEGORIES % 5]}-{k}-{1 + (k >= CONVERSATIONS)}",
            category=LLMEVAL_MED.category_ids[k % SUBCATEGORIES % 5],
            subcategory=f"子类{k % SUBCATEGORIES}",
            group=str(k % CONVERSATIONS),
            round=1 + (k >= CONVERSATIONS),
            prompt=next(prompts),
            reference=next(references),
            checklist=next(checklists),
            language="zh",
        )
        for k in range(QUESTIONS)
    ]
    write_records(run.questions_file, questions)
    answers, judgments, scores = [], [], []
    for question in questions:
        for model in range(MODELS):
            for sample in range(SAMPLES):
                key: dict[str, Any] = {"question_id": question.id, "model": f"model-{model:02}", "sample": sample}
                answers.append(Answer(**key, text=next(answers_texts), finish_reason="stop"))
                shares = generator.dirichlet(np.exp(-np.square(np.arange(5) - 3.2 + model / 6)))
                level = 1 + int(np.searchsorted(np.cumsum(shares), 0.5))
                expected = float(np.clip(shares @ np.arange(1, 6), 1, 5))
                judgments.append(
                    Judgment(
                        **key,
                        judge="local",
                        score=level,
                        expected=expected,
                        probabilities=shares.tolist(),
                        rationale=next(rationales),
                    )
                )
                if generator.random() < 0.1:
                    near = np.clip(level + generator.integers(-1, 2, 2), 1, 5)
                    scores += [
                        PhysicianScore(**key, rater=f"rater {k}", score=int(near[k]), comment=next(comments))
                        for k in range(2)
                    ]
    write_records(run.answers_file, answers)
    write_records(run.judgments_file("local"), judgments)
    write_records(run.physicians_file, scores)
    return run


def in_browser(page: Path) -> dict[str, Any]:
    """Seconds from opening the file, and of a search and a filter, medians over new profiles."""
    from playwright.sync_api import sync_playwright

    rounds = []
    with sync_playwright() as playwright:
        for _ in range(OPENINGS):
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
            rounds.append(_opened(browser.new_page(viewport={"width": 1280, "height": 900}), page))
            version = browser.version
            browser.close()
    median = {name: round(statistics.median(times[name] for times in rounds), 2) for name in rounds[0]}
    return {"chromium": version, "openings": OPENINGS, "median": median, "all": rounds}


def _opened(tab: Any, page: Path) -> dict[str, float]:
    start = time.perf_counter()
    tab.goto(page.resolve().as_uri(), wait_until="commit")
    tab.locator(".leaders").first.wait_for(state="visible")
    leaderboard = time.perf_counter() - start
    tab.locator("html[data-ready]").wait_for(state="attached")
    tab.evaluate("location.hash = '#answers'")
    tab.locator(".row").first.wait_for(state="attached")
    reader = time.perf_counter() - start
    painted = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000")
    everything = tab.locator("#count").inner_text()
    times = {"first_contentful_paint": painted, "leaderboard_visible": leaderboard, "answers_ready": reader}
    word = tab.evaluate("record(total - 1).then((row) => rawOf(row[0]).slice(-12).trim())")
    for name in ("first_search", "second_search"):
        times[name] = tab.evaluate(_TIMED, ["words", word, "1 of"])
        tab.evaluate(_TIMED, ["words", "", everything])
    times["filter"] = tab.evaluate(_TIMED, ["score", "usable", ""])
    start = time.perf_counter()
    tab.evaluate("choose(listed[listed.length - 1], false)")
    times["open_an_answer"] = time.perf_counter() - start
    return {name: round(value, 3) for name, value in times.items()}


def main(work: Path) -> None:
    """Runs the study."""
    run = write_run(work / "run") if not (work / "run").exists() else Run(work / "run")
    start, busy = time.monotonic(), time.process_time()
    page = work / "report.html"
    page.write_text(report_page([run]), encoding="utf-8")
    seconds, cpu_seconds = time.monotonic() - start, time.process_time() - busy
    answers = [answer.text for answer in run.answers()]
    results: dict[str, Any] = {
        "command": "python eval/speed/report_size.py WORK",
        "note": "All texts are generated; the rates mean nothing.",
        "judgments": len(answers),
        "characters_an_answer": round(sum(map(len, answers)) / len(answers)),
        "different_answers": len(set(answers)),
        "page_bytes": page.stat().st_size,
        "seconds_to_write": round(seconds, 1),
        "cpu_seconds_to_write": round(cpu_seconds, 1),
        "peak_memory_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "browser": in_browser(page) if CHROMIUM.exists() else None,
    }
    print(results, file=sys.stderr)
    record("report-size", results)
    if page.stat().st_size >= LARGEST:
        sys.exit(f"{page}: {page.stat().st_size:,} bytes; the page of a whole benchmark must stay under {LARGEST:,}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/speed/report_size.py WORK")
    main(Path(sys.argv[1]))
