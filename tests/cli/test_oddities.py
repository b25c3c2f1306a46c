"""`data check` prints a screen of oddities, however many there are."""


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
