import pytest

from medjudge.records import Answer
from medjudge.report.page import report_page
from medjudge.report.words import duration
from medjudge.store import Run, write_records


@pytest.fixture
def measured(run: Run) -> Run:
    """Token counts in half of one model's answers; times and a cost in the manifest."""
    answers: list[Answer] = []
    for place, answer in enumerate(run.answers()):
        known = answer.model == "model-a" and place % 2 == 0
        answers.append(answer.model_copy(update={"tokens_in": 100, "tokens_out": 40} if known else {}))
    write_records(run.answers_file, answers)
    run.update_manifest(
        models={"model-a": {"seconds": 560.0}}, judges={"gpt": {"seconds": 28.0}}, spending={"usd": 1.234, "models": {}}
    )
    return run


@pytest.mark.usefixtures("without_plots")
def test_the_page_shows_what_a_run_took_and_nothing_where_nothing_is_known(validated, measured) -> None:
    page = report_page([measured])
    assert "All requests of the run to servers cost 1.23 USD." in page
    assert "<td>56</td><td>100</td><td>40</td><td>9 min</td><td>10.0 s</td>" in page  # model-a
    assert "<td>56</td><td>&ndash;</td><td>&ndash;</td><td>–</td><td>–</td>" in page
    assert "<td>280</td><td>&ndash;</td><td>&ndash;</td><td>28.0 s</td><td>100 ms</td>" in page
    assert "Tokens, time and cost" not in report_page([Run(validated)])


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(None, "–"), (0.0421, "42 ms"), (119.94, "119.9 s"), (120, "2 min"), (7199, "120 min"), (9000, "2.5 h")],
)
def test_times_are_written_for_people(seconds, expected) -> None:
    assert duration(seconds) == expected
