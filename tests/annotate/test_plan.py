import json
import re
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from scoring_run import answer, planned, question, run_of

from medjudge.annotate.add_scores import add_records
from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import Plan, PlanOptions, plan_file, read_plan
from medjudge.annotate.tasks import LEVELS
from medjudge.errors import InputError
from medjudge.provenance import stamped
from medjudge.records import PhysicianScore
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run, write_records


@pytest.fixture
def large(tmp_path: Path) -> Run:
    """Sixty conversations of one to three turns, twice as many in MK as elsewhere, four models, two samples."""
    sizes = {name: 20 if name == "MK" else 10 for name in LLMEVAL_MED.category_ids}
    questions = [
        question(f"{name}-{talk}-{turn}", name, group=f"{name}-{talk}", round=turn)
        for name, size in sizes.items()
        for talk in range(size)
        for turn in range(1, 2 + talk % 3)
    ]
    answers = [
        answer(question.id, model, sample=sample)
        for question in questions
        for model in ("a", "b", "c", "d")
        for sample in (0, 1)
    ]
    return run_of(tmp_path / "large", questions, answers)


def plan_of(run: Run, **options: Any) -> Plan:
    defaults: dict[str, Any] = {"raters": ["x", "y", "z"], "overlap": 2, "each": 40}
    return draw_plan(run, PlanOptions(**{**defaults, **options}))


def category_of(question_id: str) -> str:
    return question_id.partition("-")[0]


def test_a_random_draw_is_in_proportion_and_spread_over_conversations(large: Run) -> None:
    plan = plan_of(large)
    assert len(plan.items) == 60
    of_category = Counter(category_of(item.question_id) for item in plan.items)
    asked = Counter(question.category for question in large.questions())
    for name in LLMEVAL_MED.category_ids:
        assert abs(of_category[name] - 60 * asked[name] / sum(asked.values())) <= 1
    of_stratum = Counter((category_of(item.question_id), item.model) for item in plan.items)
    for name in LLMEVAL_MED.category_ids:
        counts = [of_stratum[name, model] for model in "abcd"]
        assert max(counts) - min(counts) <= 1
    per_model = Counter(item.model for item in plan.items).values()
    assert max(per_model) - min(per_model) <= 2
    assert len({item.question_id.rpartition("-")[0] for item in plan.items}) == 60


@pytest.mark.parametrize(("raters", "overlap", "each"), [(3, 2, 40), (4, 3, 21), (5, 1, 7), (2, 2, 50), (3, 2, None)])
def test_every_answer_gets_its_raters_and_loads_are_even(large: Run, raters: int, overlap: int, each: int) -> None:
    names = [f"dr-{number}" for number in range(raters)]
    plan = plan_of(large, raters=names, overlap=overlap, each=each)
    loads = [len(ids) for ids in plan.by_rater.values()]
    assert max(loads) - min(loads) <= 1
    assert each is None or max(loads) <= each
    assert len(plan.items) == (len(large.answers()) if each is None else raters * each // overlap)
    times = Counter(item_id for ids in plan.by_rater.values() for item_id in ids)
    assert set(times.values()) == {overlap}
    category = {item.id: category_of(item.question_id) for item in plan.items}
    for name in LLMEVAL_MED.category_ids:
        shares = [sum(category[identifier] == name for identifier in ids) / len(ids) for ids in plan.by_rater.values()]
        assert max(shares) - min(shares) < 0.2
    if raters > overlap > 1:
        both = [len(set(ids) & set(other)) for ids, other in combinations(plan.by_rater.values(), 2)]
        assert max(both) - min(both) <= 0.15 * len(plan.items)


def test_the_seed_decides_all_and_the_order_of_the_file_nothing(large: Run) -> None:
    plan = plan_of(large)
    write_records(large.answers_file, reversed(large.answers()))
    assert plan_of(large) == plan
    other = plan_of(large, seed=1)
    assert {item.keys[0] for item in other.items} != {item.keys[0] for item in plan.items}
    first, second = plan.by_rater["x"], plan.by_rater["y"]
    shared = set(first) & set(second)
    assert [item for item in first if item in shared] != [item for item in second if item in shared]
    assert all(re.fullmatch("[0-9a-f]{12}", item.id) for item in plan.items)


def test_empty_and_scored_answers_are_left_out_and_counted(run: Run) -> None:
    first, second, *rest = run.answers()
    write_records(run.answers_file, [first.model_copy(update={"text": " ", "finish_reason": "stop"}), second, *rest])
    key = second.key._asdict()
    constructed = PhysicianScore(**rest[0].key._asdict(), rater="constructed", score=3)
    write_records(run.physicians_file, [PhysicianScore(**key, rater="dr-z", score=3), constructed])
    plan = plan_of(run, each=None)
    assert plan.left_out == {"empty": 1, "scored by a physician already": 1}
    assert {item.keys[0] for item in plan.items} == {answer.key for answer in rest}


def test_what_a_rater_sees_holds_the_same_models_earlier_turns(run: Run) -> None:
    plan = planned(run)
    listed = LEVELS.units(run, read_plan(run))["dr-a"]
    assert [entry.item.id for entry in listed] == plan.by_rater["dr-a"]
    text_of = {answer.key: answer.text for answer in run.answers()}
    for entry in listed:
        assert [answer.key for answer in entry.answers] == [entry.item.keys[0]]
        expected = []
        if entry.question.id == "second":
            expected = [("=1+1 is what?", text_of["first", entry.item.model, 0])]
        assert entry.earlier == expected
    write_records(run.answers_file, run.answers()[:-1])
    with pytest.raises(InputError, match=r"no longer in"):
        LEVELS.units(run, plan)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"raters": []}, "name at least one rater"),
        ({"raters": ["x", "X"]}, "named twice"),
        ({"raters": ["a/b"]}, "becomes a file name"),
        ({"raters": [" "]}, "becomes a file name"),
        ({"raters": ["constructed"], "overlap": 1}, "no physician gave"),
        ({"overlap": 4}, "there are 3; take 1 to 3"),
        ({"each": 0}, "at least one answer"),
        ({"which": "deferred"}, "`medjudge eval --defer-to-physicians` writes it"),
    ],
)
def test_invalid_plan_options_are_refused(run: Run, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        plan_of(run, **options)
    assert not plan_file(run).exists()


def test_a_plan_of_an_earlier_version_is_read_and_a_broken_one_says_how_to_get_one(run: Run) -> None:
    with pytest.raises(InputError, match="`medjudge annotate export` makes one"):
        read_plan(run)
    plan = planned(run)
    earlier = {**plan.model_dump(), "which": "informative", "judge": "j", "teacher": None, "list_sha256": None}
    plan_file(run).write_text(json.dumps(earlier))
    assert read_plan(run) == plan.model_copy(update={"which": "informative"})
    plan_file(run).write_text('{"seed": 0, "which": "all"}')
    with pytest.raises(InputError, match=r"plan\.json: not a plan \(which"):
        read_plan(run)


def scores_of(run: Run, level: int, rater: str = "dr-a") -> list[PhysicianScore]:
    return [PhysicianScore(**answer.key._asdict(), rater=rater, score=level) for answer in run.answers()]


def test_scores_are_added_once_and_changed_only_on_request(run: Run) -> None:
    fours = scores_of(run, 4)
    assert add_records(run, fours[:3]) == (3, 0, 0)
    before = run.physicians_file.read_bytes()
    assert add_records(run, fours[:3]) == (0, 3, 0)
    assert run.physicians_file.read_bytes() == before
    changed = [*scores_of(run, 2)[:1], *fours[3:5]]
    with pytest.raises(InputError, match=r"dr-a's score of first is 4 in the run, and now 2 \(1 differ\); --replace"):
        add_records(run, changed)
    assert run.physicians_file.read_bytes() == before
    assert add_records(run, changed, replace=True) == (2, 0, 1)
    assert [score.score for score in run.physician_scores()] == [2, 4, 4, 4, 4]
    assert add_records(run, scores_of(run, 5, "dr-b")[:1] * 2) == (1, 1, 0)
    with run.physicians_file.open("ab") as file:
        file.write(b'{"question_id":"sec')  # a crash costs no other score
    torn = run.physicians_file.read_bytes()
    with run.lock():  # the scores have a lock of their own, so that a physician can score beside a running eval
        assert len(run.physician_scores()) == 6
        assert run.physicians_file.read_bytes() == torn
        assert add_records(run, fours[5:6]) == (1, 0, 0)
    assert run.physician_scores()[-1] == next(stamped(fours[5:6], run.texts()))
    assert len(run.physician_scores()) == 7
