"""`data check` prints a screen of oddities, however many there are."""

from medjudge.benchmark.published import Oddity
from medjudge.cli.data import MOST_LINES, oddity_lines


def test_the_same_oddity_of_many_places_is_one_line() -> None:
    oddities = [Oddity(f"q{number}", "neither reference nor checklist") for number in range(600_000)]
    assert list(oddity_lines([*oddities, Oddity("q7", "round 1 occurs 2 times")], False)) == [
        "q0, q1, q2, and 599,997 more: neither reference nor checklist",
        "q7: round 1 occurs 2 times",
    ]


def test_many_different_oddities_are_cut_and_all_lists_them() -> None:
    oddities = [Oddity(f"q{number}", f"prompt of {number} characters") for number in range(600)]
    lines = list(oddity_lines(oddities, False))
    assert len(lines) == MOST_LINES + 1
    assert lines[-1] == "and 580 more kinds; --all lists everything"
    assert len(list(oddity_lines(oddities, True))) == 600


def test_data_check_groups_and_all_lists(medjudge, jsonl) -> None:
    line = {"category": "MK", "prompt": "How much?", "language": "en"}
    file = jsonl("q.jsonl", *({**line, "id": f"q{number}", "group": f"q{number}"} for number in range(30)))
    shown = medjudge("data", "check", file).stdout
    assert (shown.count("neither reference"), shown.count(str(file))) == (1, 1)
    assert medjudge("data", "check", file, "--all").stdout.count("neither reference") == 30


def test_the_end_says_what_the_oddities_mean_for_judging(medjudge, jsonl) -> None:
    line = {"category": "MK", "prompt": "How much?", "language": "en"}
    lines = [{**line, "id": f"q{number}"} for number in range(30)]
    file = jsonl("q.jsonl", *lines, {**line, "id": "q30", "round": 2, "reference": "4 g"})
    end = medjudge("data", "check", file).stdout.splitlines()[-3:]
    assert end == [
        "31 oddities; the file can be used",
        "  30: these are judged by the question alone; a similarity judge leaves them unscored",
        "  1: these conversations are judged without the missing turns",
    ]
