"""Scores by items in the report, in English and Chinese: disagreements come first."""

import html
import re
from pathlib import Path

import pytest
from browsing import text_of

from medjudge.item_records import ItemJudgment, ItemScore, ItemVerdict
from medjudge.judge.items import item_judgments_file
from medjudge.judge.open import ImportedRef
from medjudge.records import Judgment
from medjudge.store import Run, write_records
from medjudge.text.checklist_items import items_of
from medjudge.workflows.mark_items import write_item_study


@pytest.fixture
def checked_run(sample_run: Path) -> Run:
    """The sample with verdicts on items; a physician denies what the judge says of the third item of each question."""
    run = Run(sample_run)
    judgments, scores = [], []
    for question in run.questions()[:6]:
        for model in ("model-a", "model-b"):
            key, verdicts = {"question_id": question.id, "model": model}, []
            for place, item in enumerate(items_of(question)):
                met = 0.9 - 0.05 * place if model == "model-a" else 0.1 + 0.05 * place
                verdicts.append(ItemVerdict(item=item.text, met=met))
                said = "met" if verdicts[-1].is_met != (place == 2) else "contradicted"
                scores.append(ItemScore(**key, rater="dr-a", item=item.text, verdict=said))
            judgments.append(ItemJudgment(**key, judge="gpt", items=verdicts))
    write_records(item_judgments_file(run, "gpt"), judgments)
    write_records(run.items_file, scores)
    levels = [Judgment(**answer.key._asdict(), judge="gpt", score=4, expected=4.0) for answer in run.answers()]
    write_records(run.judgments_file("gpt"), levels)
    write_item_study(run, ImportedRef("gpt"))
    return run


def test_the_page_shows_scores_agreement_and_disagreements_first(checked_run: Run, medjudge) -> None:
    assert medjudge("report", checked_run.path).returncode == 0
    page = (checked_run.path / "report.html").read_text(encoding="utf-8")
    section = page[page.index('id="items-0"') :]
    text = text_of(section[: section.index("</section>")])
    assert "model-a 100.0" in text
    assert "Items against physicians" in text
    assert "12 of 280 answers have verdicts" in text
    rows = re.findall(r"<tr><th scope=\"row\" class=\"text\">.*?</tr>", section)
    disagree = ["disagree" in row for row in rows]
    thirds = {items_of(question)[2].text for question in checked_run.questions()[:6]}
    assert disagree == sorted(disagree, reverse=True)
    assert sum(disagree) == 12
    assert {html.unescape(re.sub("<[^>]+>", "", row.split("</th>")[0])) for row in rows[:12]} == thirds
    assert medjudge("report", checked_run.path, "--lang", "zh").returncode == 0
    chinese = text_of((checked_run.path / "report.html").read_text(encoding="utf-8"))
    for words in ("按条目的得分", "逐条判断与医生的对照", "先列分歧", "宏平均 F1"):
        assert words in chinese
    assert "Share of points" not in chinese.split("按条目的得分", 1)[1][:400]
