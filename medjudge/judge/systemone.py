"""A score-first judge behind the decision route of transformers (`/v1/systemone` of `transformers serve`)."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlparse

import numpy as np
from pydantic import BaseModel, Field, ValidationError

from medjudge.chat_api.client import Server
from medjudge.chat_api.transport import Reader, UnreadReplyError
from medjudge.errors import InputError, UnfinishedError
from medjudge.judge.decision import decision_request
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.records import ErrorKind, Judgment

PREFIX = "systemone:"
ROUTE = "/v1/systemone"
_MOST_FAILURES = 5
"""Requests in a row without a reply after which the server counts as gone."""


class _Score(BaseModel):
    probabilities: dict[str, float] = Field(min_length=5, max_length=5)


class _Answers(BaseModel):
    score: _Score


class _Reply(BaseModel):
    answers: _Answers


def server_url(spec: str) -> str | None:
    """The address that `systemone:URL` names; None where `spec` is something else.

    Raises:
        InputError: It is no http or https address.
    """
    if not spec.startswith(PREFIX):
        return None
    url = spec.removeprefix(PREFIX).rstrip("/").removesuffix(ROUTE)
    if urlparse(url).scheme not in ("http", "https") or not urlparse(url).hostname:
        raise InputError(f"--judge {spec}: no address; write, for example, --judge systemone:http://localhost:8000")
    return url


def judge_name(url: str) -> str:
    """A name for the judgments of a server, as a file name."""
    address = urlparse(url)
    return "-".join(["systemone", address.hostname or "", *([str(address.port)] if address.port else [])])


class SystemOneJudge:
    """Asks a server for the probabilities of the five levels; the server holds the judge's rubrics in its template.

    Args:
        url: The server's address, without the route.
        server: How patiently it is asked, and how many requests are in flight.
    """

    def __init__(self, url: str, server: Server = Server()) -> None:
        self.name = judge_name(url)
        self.url = url
        self.server = server

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        failures = 0
        with (
            Reader(timeout=self.server.timeout, trust_env=False) as client,
            ThreadPoolExecutor(self.server.concurrency) as pool,
        ):
            size = self.server.concurrency
            for start in range(0, len(work), size):
                for judgment in pool.map(lambda item: self._judgment(client, item), work[start : start + size]):
                    failures = failures + 1 if judgment.error_kind is ErrorKind.REQUEST_FAILED else 0
                    if failures >= _MOST_FAILURES:
                        raise UnfinishedError(
                            f"--judge {PREFIX}{self.url}: {judgment.error}; all judgments are kept, and the same "
                            "command goes on"
                        )
                    yield judgment

    def _judgment(self, client: Any, item: Assignment) -> Judgment:
        status, text = 0, "no reply"
        wait = self.server.first_wait
        for attempt in range(min(self.server.attempts, 3)):
            if attempt:
                time.sleep(wait)
                wait *= 2
            try:
                response = client.post(self.url + ROUTE, json=decision_request(item))
            except UnreadReplyError as error:
                return unscored(item, self.name, ErrorKind.UNREADABLE_REPLY, str(error))
            except OSError as error:
                text = str(error)
                continue
            except Exception as error:  # the errors of httpx or httpx2, whichever openai is based on
                text = f"{type(error).__name__}: {error}"
                continue
            status, text = response.status_code, response.text
            if status < 500 and status not in (408, 429):
                return self._read(item, status, text)
        reason = f"status {status}: {text[:200]}" if status else text[:200]
        return unscored(item, self.name, ErrorKind.REQUEST_FAILED, f"the server gave no answer ({reason})")

    def _read(self, item: Assignment, status: int, text: str) -> Judgment:
        if status != 200:
            return unscored(item, self.name, ErrorKind.REFUSED, f"status {status}: {text[:300]}", text[:2000])
        try:
            shares = _Reply.model_validate_json(text).answers.score.probabilities
            probabilities = np.array([shares[str(level)] for level in range(5)])
        except (ValidationError, KeyError):
            return unscored(item, self.name, ErrorKind.UNREADABLE_REPLY, "no probabilities of five levels", text[:2000])
        if not np.isfinite(probabilities).all() or (probabilities < 0).any() or abs(probabilities.sum() - 1) > 1e-2:
            return unscored(item, self.name, ErrorKind.UNREADABLE_REPLY, "the probabilities are none", text[:2000])
        return scored(item, self.name, probabilities)
