"""Points of references and checklists, and the rationale that a judge gives from its verdicts on them."""

from medjudge.judge.points import MOST_POINTS, checklist_points, point_rationale, reference_points
from medjudge.records import PointVerdict


def test_a_reference_is_cut_into_sentences_and_a_checklist_into_items() -> None:
    reference = "Take 500 mg twice a day. Do not drive. See a doctor if it does not help within a week."
    spans = reference_points(reference, "en")
    assert [reference[span.start : span.end].strip() for span in spans] == [
        "Take 500 mg twice a day.",
        "Do not drive.",
        "See a doctor if it does not help within a week.",
    ]
    checklist = "Core requirements:\n1. Names the dose\n2. Warns of drowsiness\n\nSecondary:\n- Mentions the doctor"
    items = [checklist[span.start : span.end] for span in checklist_points(checklist)]
    assert items == ["Names the dose", "Warns of drowsiness", "Mentions the doctor"]
    assert len(reference_points("阿司匹林每日一次，每次一百毫克。" * 99, "zh")) == MOST_POINTS


def test_the_rationale_names_what_is_missing() -> None:
    points = [
        PointVerdict(point="Names the dose", source="checklist", met=0.1, open=0.8, contradicted=0.1),
        PointVerdict(point="Do not drive.", source="reference", met=0.1, open=0.2, contradicted=0.7),
        PointVerdict(point="Rest.", source="reference", met=0.9, open=0.05, contradicted=0.05),
    ]
    assert point_rationale(points, "en") == "- Missing (0.80): Names the dose\n- Contradicted (0.70): Do not drive."
    assert point_rationale(points[:1], "de") == "- Missing (0.80): Names the dose"
    assert point_rationale(points[2:], "zh") == "1个要点均已满足。"
    assert point_rationale(points[2:], "en") == "Points met: 1 of 1."
    assert point_rationale([], "en") is None
