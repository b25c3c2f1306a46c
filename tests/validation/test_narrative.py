from medjudge.validation.narrative import cannot_conclude, weaknesses


def test_the_worst_errors_are_named_with_their_counts(pairs) -> None:
    judge = [5] * 18 + [1] * 42 + [5] * 55 + [1] * 5
    physician = [2] * 60 + [5] * 60
    category = ["MTG"] * 60 + ["MK"] * 60
    weak = weaknesses(pairs(judge, physician, category=category))
    assert weak == ["calls 18 of 60 unusable answers usable", "calls 5 of 60 usable answers unusable"]


def test_a_part_with_more_errors_than_the_whole_comes_first(pairs) -> None:
    judge = [5] * 15 + [1] * 5 + [5] * 5 + [1] * 75
    physician = [2] * 100
    model = ["fluent"] * 20 + ["plain"] * 80
    weak = weaknesses(pairs(judge, physician, model=model))
    assert weak == ["calls 15 of 20 unusable answers by fluent usable", "calls 20 of 100 unusable answers usable"]


def test_errors_in_the_dangerous_direction_come_first(pairs) -> None:
    judge = [5] * 6 + [1] * 24 + [1] * 30
    weak = weaknesses(pairs(judge, [2] * 30 + [5] * 30, unsafe=[False] * 5 + [True] * 25 + [False] * 30))
    assert weak == [
        "calls 1 of 25 unsafe answers usable",
        "calls 6 of 30 unusable answers usable",
        "calls 30 of 30 usable answers unusable",
    ]


def test_the_unlucky_user_is_told_what_twelve_usable_answers_cannot_show(pairs) -> None:
    limits = cannot_conclude(pairs([5] * 12, [5] * 12), ceiling=False, teacher=False, physicians=True)
    together = " ".join(limits)
    assert "Whether the judge finds unusable answers: all 12 are usable here" in together
    assert "12 answers in 12 conversations" in together
    assert "about MLU, MR, MSE, MTG" in together
    assert "two or more on the same answers" in together
    assert "--teacher" in together
    assert "all answers are of one model" in together


def test_a_complete_study_without_errors_has_nothing_to_excuse(pairs) -> None:
    category = ["MK", "MLU", "MR", "MSE", "MTG"] * 40
    whole = pairs([5, 1] * 100, [5, 1] * 100, category=category, model=["a", "b"] * 100)
    assert cannot_conclude(whole, ceiling=True, teacher=True, physicians=True) == []
    assert weaknesses(whole) == []
