"""The reader judge on a tiny encoder: what it reads once, what it compares, and what its judgments say."""

import json

import numpy as np
import pytest
import torch

from medjudge.errors import InputError
from medjudge.judge.alarms import SURE
from medjudge.judge.comparison import ECHOED, REFERENCE_THERE, Reading, echo_number
from medjudge.judge.evidence import MOST_ANSWER_TOKENS, Part, evidence_of
from medjudge.judge.folder import load_judge
from medjudge.judge.items import item_assignments
from medjudge.judge.level_head import ROWS, LevelHead, Scored, fit_level_head, row_of
from medjudge.judge.ordinal import probabilities
from medjudge.judge.points import MOST_POINTS, Span, checklist_points, reference_points
from medjudge.judge.protocol import Assignment, scored, unscored
from medjudge.judge.reader import FEATURES, Reader, collate
from medjudge.judge.reader_items import ReaderItemJudge
from medjudge.judge.reader_judge import ReaderJudge, level_logits, point_rationale, second_opinion
from medjudge.judge.states import OVERLAP
from medjudge.records import Answer, ErrorKind, PointVerdict, Question
from medjudge.scale import USABLE_FROM, median_level
from medjudge.train.reader import Lesson, Schedule, train_alarm, train_reader

CPU = torch.device("cpu")


def question(reference: str | None = None, checklist: str | None = None, language: str = "en") -> Question:
    prompt = "How is it treated?" if language == "en" else "如何治疗？"
    return Question(
        id="q", category="MK", group="q", prompt=prompt, reference=reference, checklist=checklist, language=language
    )


def assignment(text: str, asked: Question, model: str = "m") -> Assignment:
    return Assignment(asked, (), Answer(question_id="q", model=model, text=text))


def test_a_long_text_is_read_to_the_end_of_its_last_window_and_the_rest_is_counted(reader_encoder) -> None:
    text = "Take it twice a day. " * 200
    tokens = len(reader_encoder.tokenizer(text, add_special_tokens=False)["input_ids"])
    (read,) = reader_encoder.read([text])
    assert len(read.ids) == reader_encoder.inside + 2 * (reader_encoder.inside - OVERLAP)
    assert len(read.ids) + read.left_out == tokens
    assert np.abs(read.last).sum(axis=1).min() > 0  # no token without a state
    assert np.linalg.norm(read.whole) == pytest.approx(1, abs=1e-4)
    start, end = read.spans[7]
    assert text[start:end].strip() in reader_encoder.tokenizer.decode([read.ids[7]]).replace("#", "") + text[start:end]


def test_states_do_not_depend_on_what_is_read_beside_them(reader_encoder) -> None:
    alone = reader_encoder.read(["Take it with water."])[0]
    beside = reader_encoder.read(["x " * 90, "Take it with water.", "Rest."])[1]
    assert np.allclose(alone.states, beside.states, atol=2e-2)


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


def test_evidence_is_the_part_of_the_answer_that_says_the_point(reader_encoder) -> None:
    filler = "Many people ask about this and it is a common thing to wonder about. " * 12
    point = "warfarin interacts with grapefruit"
    reference, answer = reader_encoder.read([point, f"{filler}Note that {point}. {filler}"])
    (piece,) = evidence_of(Part(1, reference, [Span(0, len(point))]), answer)
    assert len(piece.answer) == MOST_ANSWER_TOKENS
    assert list(piece.answer) == sorted(piece.answer)
    taken = set(piece.answer.tolist())
    said = np.flatnonzero(np.isin(answer.ids, reference.ids))
    assert taken & set(said.tolist())
    assert piece.point_match.max() <= 1 + 1e-3


def test_a_batch_gives_each_answer_what_it_gets_alone(reader_encoder) -> None:
    torch.manual_seed(1)
    reader = Reader(reader_encoder.words).eval()
    torch.nn.init.normal_(reader.score.weight)
    texts = ["Rest and drink water. Take 500 mg.", "No.", "Take 500 mg twice a day and rest " * 9]
    reference = reader_encoder.read(["Take 500 mg. Rest."])[0]
    readings = []
    for answer in reader_encoder.read(texts):
        part = Part(1, reference, [Span(0, 12), Span(13, 18)])
        readings.append(Reading((None, reference, None), answer, evidence_of(part, answer)))
    together = reader(collate(readings))
    for at, reading in enumerate(readings):
        alone = reader(collate([reading]))
        assert torch.allclose(alone.cumulative[0], together.cumulative[at], atol=1e-4)
        assert torch.allclose(alone.verdicts, together.verdicts[2 * at : 2 * at + 2], atol=1e-4)


def test_training_tells_met_points_from_open_ones(reader_encoder) -> None:
    """The reader learns on forty claims, half of which stand in the passage, and is asked about others."""
    words = [
        "aspirin",
        "fever",
        "cough",
        "liver",
        "kidney",
        "asthma",
        "insulin",
        "stroke",
        "rash",
        "ulcer",
        "anemia",
        "gout",
    ]
    torch.manual_seed(0)

    def lessons(names: list[str]) -> list[Lesson]:
        made = []
        for at, name in enumerate(names):
            other = names[(at + 3) % len(names)]
            for passage, verdict in ((f"This text is about {name} and no more.", 0), (f"Here {other} is named.", 1)):
                point, answer = reader_encoder.read([f"It names {name}.", passage])
                evidence = evidence_of(Part(1, point, [Span(0, 99)]), answer)
                made.append(Lesson(Reading((None, point, None), answer, evidence), None, [verdict] * len(evidence)))
        return made

    reader = Reader(reader_encoder.words)
    losses = list(train_reader(reader, {"all": lessons(words[:8])}, {"all": 1.0}, Schedule(60, 2e-3, 16), seed=0))
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:5])
    held_out = lessons(words[8:])
    said = reader(collate([lesson.reading for lesson in held_out])).verdicts.argmax(dim=1)
    assert np.mean(said.numpy() == np.array([lesson.verdicts[0] for lesson in held_out])) >= 0.75


def test_the_judge_says_level_points_and_what_was_cut(reader_folder) -> None:
    judge = load_judge(reader_folder, "tiny", CPU)
    asked = question("Take 500 mg. Rest for a week at home.", "1. Names the dose\n2. Advises rest")
    long = " ".join(f"Take {number} mg twice a day." for number in range(150))
    work = [assignment("Rest at home.", asked), assignment(long, asked, "long")]
    work.append(assignment("Take 500 mg twice a day. " * 150, asked, "repeated"))
    judgments = {each.model: each for each in judge.judge(work)}
    short = judgments["m"]
    assert [point.source for point in short.points] == ["reference", "reference", "checklist", "checklist"]
    assert short.points[2].point == "Names the dose"
    for point in short.points:
        assert point.met + point.open + point.contradicted == pytest.approx(1, abs=1e-3)
    assert short.answer_tokens_cut == 0
    assert judgments["long"].answer_tokens_cut > 0
    assert judgments["repeated"].answer_tokens_cut == 0
    assert short.rationale == point_rationale(short.points, "en")


def test_judgments_do_not_depend_on_the_company(reader_folder) -> None:
    judge = load_judge(reader_folder, "tiny", CPU)
    asked = question("Take 500 mg. Rest.")
    work = [assignment(f"Take {n} mg and rest, {'then wait ' * n}.", asked, f"m{n}") for n in range(1, 9)]
    together = {each.model: each.expected for each in judge.judge(work)}
    for item in work:
        (alone,) = judge.judge([item])
        assert alone.expected == pytest.approx(together[alone.model], abs=1e-3)


def test_chinese_is_read_and_other_languages_are_left_unscored(reader_folder) -> None:
    judge = load_judge(reader_folder, "tiny", CPU)
    (chinese,) = judge.judge([assignment("多休息，多喝水。", question("多休息。", language="zh"))])
    assert chinese.score is not None
    (german,) = judge.judge([assignment("Ruhe.", question(language="de"))])
    assert german.error_kind is ErrorKind.LANGUAGE


def test_the_rationale_names_what_is_missing() -> None:
    points = [
        PointVerdict(point="Names the dose", source="checklist", met=0.1, open=0.8, contradicted=0.1),
        PointVerdict(point="Do not drive.", source="reference", met=0.1, open=0.2, contradicted=0.7),
        PointVerdict(point="Rest.", source="reference", met=0.9, open=0.05, contradicted=0.05),
    ]
    assert point_rationale(points, "en") == "- Missing (0.80): Names the dose\n- Contradicted (0.70): Do not drive."
    assert point_rationale(points[2:], "zh") == "1个要点均已满足。"
    assert point_rationale([], "en") is None


def test_another_tokenizer_is_refused(reader_folder) -> None:
    card = json.loads((reader_folder / "judge.json").read_text())
    (reader_folder / "judge.json").write_text(json.dumps({**card, "vocabulary_sha256": "0" * 64}))
    with pytest.raises(InputError, match="is not the one that the judge was trained with"):
        load_judge(reader_folder, "tiny", CPU)


def test_a_level_head_finds_the_weights_that_made_the_levels() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(8000, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 2.0]
    points = np.arange(8000) % 2 == 0
    rows = row_of(points, np.zeros(8000, bool))
    true = np.where(points[:, None], [1.5, 0.0, -20.0], [0.0, 0.2, 0.0])
    shift = np.where(points, 41.0, -1.0)
    logits = ((features * true).sum(axis=1) + shift)[:, None] - np.array([-2.0, -1.0, 1.0, 2.0])
    above = generator.random((8000, 1)) < 1 / (1 + np.exp(-logits))
    scored = [
        Scored(features[rows == row % 2], np.eye(5)[above.sum(axis=1)][rows == row % 2], np.ones(4000))
        for row in range(ROWS)
    ]
    free, never_up = np.zeros(3, int), np.array([-1, 0, 0])
    head = fit_level_head(scored, [free, free, free, never_up], ridge=1e-4)
    assert head.weights[1] == pytest.approx([1.5, 0.0, -20.0], rel=0.1, abs=0.05)
    assert head.weights[0] == pytest.approx([0.0, 0.2, 0.0], abs=0.6)
    assert head.weights[3][0] <= 0
    assert np.all(np.diff(head.cuts, axis=1) > 0)
    assert np.abs(head.cumulative(features, rows) - logits).mean() < 0.2


def test_the_second_opinion_moves_the_level_of_the_answers_it_covers(reader_folder) -> None:
    """A judge that calls everything level 5 is heard where it speaks, and nothing changes where it is silent."""

    class OnlyEnglish:
        name = "second"

        def judge(self, assignments):
            for each in assignments:
                if each.question.language == "en":
                    yield scored(each, self.name, np.array([0.0, 0.0, 0.0, 0.02, 0.98]))
                else:
                    yield unscored(each, self.name, ErrorKind.LANGUAGE, "not English")

    judge = load_judge(reader_folder, "tiny", CPU)
    weights = judge.head.weights.copy()
    weights[2:, -1] = 1.0
    judge.head = LevelHead(weights, judge.head.cuts)
    english, chinese = assignment("Rest.", question()), assignment("多休息。", question(language="zh"), "zh")
    alone = {each.model: each.expected for each in judge.judge([english, chinese])}
    judge.second = OnlyEnglish()
    heard = {each.model: each.expected for each in judge.judge([english, chinese])}
    assert heard["m"] > alone["m"] + 0.05
    assert heard["zh"] == alone["zh"]
    assert np.isnan(second_opinion(None))
    assert second_opinion([0, 0, 0, 0.5, 0.5]) > 0 > second_opinion([0.5, 0.5, 0, 0, 0])


@pytest.mark.parametrize("alone", [False, True])
def test_a_dangerous_sentence_can_be_learned_as_an_alarm(reader_encoder, alone: bool) -> None:
    torch.manual_seed(0)
    advice = ["Rest at home.", "Drink water.", "Eat fruit.", "Walk each day.", "Sleep well.", "Keep warm."]

    def lessons(texts: list[str]) -> list[Lesson]:
        made = []
        for text in texts:
            for danger in (True, False):
                said = f"{text} {'Swallow poison at once.' if danger else 'See a doctor.'}"
                asked, answer = reader_encoder.read(["What helps?", said])
                reading = Reading((asked, None, None), answer, evidence_of(Part(0, asked, [Span(0, 99)]), answer))
                made.append(Lesson(reading, (0, 0, 0, 0.5, 0.5), alarm=danger))
        return made

    reader = Reader(reader_encoder.words)
    before = {name: value.clone() for name, value in reader.state_dict().items()}
    if alone:
        list(train_alarm(reader, {"all": lessons(advice[:4])}, {"all": 8}, Schedule(40, 3e-3), seed=0))
    else:
        list(train_reader(reader, {"all": lessons(advice[:4])}, {"all": 1.0}, Schedule(40, 3e-3, 8), seed=0))
    changed = {name.split(".")[0] for name, value in reader.state_dict().items() if not value.equal(before[name])}
    assert (changed == {"alarm", "alarm_look"}) == alone
    held_out = lessons(advice[4:])
    alarms = reader(collate([lesson.reading for lesson in held_out])).alarm
    assert [bool(alarm > 0) for alarm in alarms] == [lesson.alarm for lesson in held_out]


def test_a_sure_alarm_a_question_said_again_and_a_wrong_fact_are_unusable_whatever_the_head_says() -> None:
    lenient = LevelHead(np.zeros((ROWS, FEATURES + 1)), np.tile([-9.0, -8.0, -7.0, -6.0], (ROWS, 1)))
    features = np.zeros((5, FEATURES))
    features[1:3, ECHOED] = echo_number(0.9)
    features[2, REFERENCE_THERE] = 1
    alarms = np.array([-3.0, -3.0, -3.0, 9.0, -3.0])
    contradicted = np.array([False, False, False, False, True])
    logits = level_logits(lenient, features, np.full(5, np.nan), alarms, contradicted)
    # With a reference, a right answer may be one of the question's own words.
    assert list(logits[:, USABLE_FROM - 2] > 0) == [True, False, True, False, False]
    # A wrong fact takes the usable label, and nothing more.
    assert logits[4, 0] == logits[0, 0]


def test_an_alarm_gives_level_1_from_sure_on_and_keeps_some_order_of_expected_levels() -> None:
    alarms = np.append(np.linspace(SURE - 2, SURE + 4, 25), SURE)
    count = len(alarms)
    features, nothing = np.zeros((count, FEATURES)), np.full(count, np.nan)
    rows = []
    for cuts in ([-9.0, -8.0, -7.0, -6.0], [3.0, 4.0, 5.0, 6.0]):
        head = LevelHead(np.zeros((ROWS, FEATURES + 1)), np.tile(cuts, (ROWS, 1)))
        logits = level_logits(head, features, nothing, alarms, np.zeros(count, bool))
        rows.append(probabilities(torch.from_numpy(logits)).numpy())
    good, bad = rows
    assert (good >= 0).all()
    assert [median_level(row) == 1 for row in good] == list(alarms >= SURE)
    assert (good @ np.arange(1, 6) > bad @ np.arange(1, 6) + 0.5).all()


def test_items_are_points_that_the_reader_compares(reader_folder) -> None:
    judge = load_judge(reader_folder, "reader", "cpu")
    assert isinstance(judge, ReaderJudge)
    items = [{"text": f"Names dose {number}\nof the drug", "points": 1} for number in range(6)]
    asked = Question.model_validate({**question(checklist="Names the dose").model_dump(), "items": items})
    answers = [Answer(question_id="q", model=name, text=text) for name, text in (("m", "Take 4 g."), ("n", "Rest."))]
    answers.append(Answer(question_id="q", model="fr", text="Прими четыре грамма. " * 5))
    of = {one.model: one for one in ReaderItemJudge(judge).judge_items(item_assignments([asked], answers))}
    assert [verdict.item for verdict in of["m"].items] == [item["text"] for item in items]
    assert all(0 <= verdict.met <= 1 for verdict in of["n"].items)
    assert of["m"].items != of["n"].items
    assert of["fr"].error_kind is ErrorKind.LANGUAGE
    many = [{"text": f"Names dose {number}", "points": 1} for number in range(90)]
    longer = Question.model_validate({**asked.model_dump(), "items": many})
    (one,) = ReaderItemJudge(judge).judge_items(item_assignments([longer], answers[:1]))
    assert (one.error_kind, "of the items do not fit" in one.error) == (ErrorKind.WINDOW, True)
    # An item alone says what the checklist of one point says.
    single = Question.model_validate({**asked.model_dump(), "checklist": "Names dose 0", "reference": None})
    (points,) = judge.judge([Assignment(single, (), answers[0])])
    alone = Question.model_validate({**single.model_dump(), "items": [{"text": "Names dose 0", "points": 1}]})
    (one,) = ReaderItemJudge(judge).judge_items(item_assignments([alone], answers[:1]))
    assert one.items[0].met == pytest.approx(points.points[0].met, abs=1e-3)
