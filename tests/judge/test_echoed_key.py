"""A server that repeats the API key: it is in no judgment, account or message."""

from pathlib import Path

import pytest
from chat_server import completion, failure

from medjudge.chat_api.client import Server
from medjudge.chat_api.spending import Spending
from medjudge.errors import InputError
from medjudge.judge.api import ApiJudge
from medjudge.store import Run

KEY = "sk-Tr9/x+2qLm-41"
ESCAPED = "".join(f"\\u{ord(character):04x}" for character in KEY)


def test_an_echoed_key_is_in_no_judgment_account_or_message(
    chat_server, assignment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    escaped = completion("THE TEXT").data.replace(b"THE TEXT", rf"It is {ESCAPED}.\nScore: 4".encode())
    replies = iter(
        [
            failure(400, f"refused, header was Bearer {KEY}"),
            completion(None)._replace(data=escaped),
            *[completion(f"Your key is {KEY}.\nScore: 4", f"stop {KEY}")] * 3,  # no known ending: asked three times
        ]
    )
    server = chat_server(lambda _: next(replies, failure(401, f"Incorrect API key provided: {KEY}")))
    run, work = Run(tmp_path), [assignment("At most 4 g.", id=f"q{number}") for number in range(4)]
    judgments = []
    with run.lock():
        judge = ApiJudge("m", Server(server.url, concurrency=1, first_wait=0.01), Spending(run))
        with pytest.raises(InputError, match=r"Incorrect API key provided: \[API key\]") as caught:
            judgments.extend(judge.judge(work))
    assert len(judgments) == 3
    texts = [*(judgment.model_dump_json() for judgment in judgments), str(caught.value), run.spending_file.read_text()]
    assert sum("[API key]" in text for text in texts) >= 4
    assert not any(KEY in text for text in texts)
