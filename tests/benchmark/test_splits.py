from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from medjudge.benchmark.splits import held_out_groups
from medjudge.records import Question
from medjudge.scheme import LLMEVAL_MED

CATEGORIES = LLMEVAL_MED.category_ids


def questions_of(groups: list[tuple[int, int]]) -> list[Question]:
    same = {"prompt": "?", "language": "en"}
    return [
        Question(id=f"{n}-{turn}", category=CATEGORIES[category], group=f"g{n}", round=turn + 1, **same)
        for n, (category, turns) in enumerate(groups)
        for turn in range(turns)
    ]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=1, max_size=60),
    st.floats(0.05, 0.9),
    st.integers(0, 9),
)
def test_whole_conversations_of_every_category_are_held_out(groups, share, seed) -> None:
    questions = questions_of(groups)
    held = held_out_groups(questions, share, seed)
    assert held == held_out_groups(questions[::-1], share, seed)
    total = Counter(category for category, _ in groups)
    taken = Counter(groups[int(name[1:])][0] for name in held)
    for category, count in total.items():
        if count > 1:
            assert 1 <= taken[category] <= count - 1
            assert abs(taken[category] - share * count) <= 1


def test_another_seed_draws_others_and_no_share_draws_none() -> None:
    questions = questions_of([(0, 1)] * 40)
    assert held_out_groups(questions, 0.5, 0) != held_out_groups(questions, 0.5, 1)
    assert held_out_groups(questions, 0, 0) == set()
