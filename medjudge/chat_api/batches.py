"""OpenAI's Batch API: requests in files, a day's time, and results to fetch later.

The state of all batches of one model stands in `batches/NAME.json` of the run, beside the request files. A batch
carries the run's id and the part's name as metadata, so that one that was created but not noted, because the process
was killed just then, is found among the server's batches and not submitted again.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import openai
from pydantic import BaseModel, ConfigDict, ValidationError

from medjudge.chat_api.client import body_bytes, one_line, refuses_the_chat
from medjudge.chat_api.replies import ChatReply, ReplyError, read_reply
from medjudge.chat_api.spending import Spending, Used
from medjudge.errors import InputError, UnfinishedError
from medjudge.store import Run, read_text, write_json, write_whole

MOST_REQUESTS = 50_000
MOST_BYTES = 200_000_000
"""OpenAI's limits on one file (its API reference, files and batches)."""
_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
_OVER = ("completed", "expired", "cancelled")
_NOT_DONE = ("batch_expired", "batch_cancelled")


class Part(BaseModel):
    """One request file and its batch."""

    model_config = ConfigDict(extra="forbid")

    name: str
    requests: int
    most_in: int
    most_out: int
    batch_id: str | None = None
    status: str = "planned"
    collected: bool = False


class Line(NamedTuple):
    """What became of one request: a reply, or the status and the message of an error; neither where time ran out.

    `lasting` as in `RequestError`.
    """

    custom_id: str
    reply: ChatReply | None = None
    status: int = 0
    error: str | None = None
    parameter: str | None = None
    lasting: bool = False


class Batches:
    """The batches of one model in a run.

    Args:
        run: Its folder, locked; its manifest holds the run's id.
        name: Names the files.
        model: The model's name at the server.
        base_url: The server.
        spending: The account; a batch counts with the most that it can cost until it is collected.

    Raises:
        InputError: The file of the state is broken.
    """

    def __init__(self, run: Run, name: str, model: str, base_url: str | None, spending: Spending) -> None:
        self.run = run
        self.name = name
        self.model = model
        self.spending = spending
        self.parts = read_parts(run, name)
        self._client = openai.OpenAI(base_url=base_url, max_retries=5, timeout=300)

    def open(self) -> list[Part]:
        """The parts that are not collected yet."""
        return [part for part in self.parts if not part.collected]

    def plan(
        self,
        requests: Iterable[tuple[str, dict[str, Any]]],
        most_requests: int = MOST_REQUESTS,
        most_bytes: int = MOST_BYTES,
    ) -> int:
        """Writes request files of (custom id, body), as many as the limit on costs lets through.

        Returns:
            The number of requests that found a place.
        """
        lines: list[str] = []
        size = most_in = most_out = planned = 0
        for custom_id, body in requests:
            fields = {"custom_id": custom_id, "method": "POST", "url": _ENDPOINT, "body": body}
            line = json.dumps(fields, ensure_ascii=False) + "\n"
            tokens_in, tokens_out = body_bytes(body), body.get("max_tokens") or body["max_completion_tokens"]
            if not self.spending.fits(Used(self.model, most_in + tokens_in, most_out + tokens_out, False, batch=True)):
                break
            if lines and (len(lines) == most_requests or size + len(line.encode()) > most_bytes):
                self._add_part(lines, most_in, most_out)
                lines, size, most_in, most_out = [], 0, 0, 0
            lines.append(line)
            size, most_in, most_out = size + len(line.encode()), most_in + tokens_in, most_out + tokens_out
            planned += 1
        if lines:
            self._add_part(lines, most_in, most_out)
        return planned

    def _add_part(self, lines: Sequence[str], most_in: int, most_out: int) -> None:
        part = Part(
            name=f"{self.name}-{len(self.parts) + 1:03d}", requests=len(lines), most_in=most_in, most_out=most_out
        )
        write_whole(self.run.path / "batches" / f"{part.name}.jsonl", "".join(lines))
        self.parts.append(part)
        self._save()
        self._hold(part)

    def _hold(self, part: Part) -> None:
        self.spending.set(part.name, Used(self.model, part.most_in, part.most_out, known=False, batch=True))

    def submit(self) -> None:
        """Sends every part that was planned and has no batch yet.

        Raises:
            UnfinishedError: The server did not take one; the next start finds out whether it has it after all.
        """
        for part in self.parts:
            if part.batch_id is not None:
                continue
            self._hold(part)
            tried_before = part.status == "submitting"
            part.status = "submitting"
            self._save()
            try:
                batch = (self._find(part) if tried_before else None) or self._create(part)
            except openai.OpenAIError as error:
                raise UnfinishedError(
                    f"the batch of {part.requests} requests was not taken ({one_line(error)}); the same command tries "
                    "again, and looks first whether the server has it"
                ) from None
            part.batch_id, part.status = batch.id, batch.status
            self._save()

    def _create(self, part: Part) -> "openai.types.Batch":
        with (self.run.path / "batches" / f"{part.name}.jsonl").open("rb") as file:
            uploaded = self._client.files.create(file=file, purpose="batch")
        # Not retried: a request that timed out may have made the batch.
        return self._client.with_options(max_retries=0).batches.create(
            input_file_id=uploaded.id,
            endpoint=_ENDPOINT,
            completion_window="24h",
            metadata=self._metadata(part),
        )

    def _find(self, part: Part) -> "openai.types.Batch | None":
        wanted = self._metadata(part)
        listed = self._client.batches.list(limit=100)
        return next((one for one in listed if (one.metadata or {}).items() >= wanted.items()), None)

    def _metadata(self, part: Part) -> dict[str, str]:
        return {"medjudge_run": str(self.run.manifest()["id"]), "part": part.name}

    def look(self) -> list[str]:
        """Asks for the state of every batch; returns a line for each that is still under way.

        Raises:
            UnfinishedError: A batch failed as a whole; it is put aside, and what it asked is free to be asked again.
        """
        told = []
        for part in self.open():
            if part.batch_id is None:
                continue
            batch = self._client.batches.retrieve(part.batch_id)
            part.status = batch.status
            if batch.status == "failed":
                reasons = [error.message or "" for error in (batch.errors.data if batch.errors else None) or []]
                self.finish(part)
                raise UnfinishedError(
                    f"batch {part.batch_id} failed and nothing of it was asked: {'; '.join(reasons)[:300]}; mend that, "
                    "and the same command submits it again"
                )
            if batch.status not in _OVER:
                counts = batch.request_counts
                done = f", {counts.completed} of {counts.total} done" if counts else ""
                told.append(f"batch {part.batch_id}: {batch.status}{done}")
        self._save()
        return told

    def results(self, part: Part) -> Iterator[Line]:
        """The lines of a batch that is over; what they cost goes to the account.

        Raises:
            ReplyError: A line is no result.
        """
        assert part.batch_id is not None
        batch = self._client.batches.retrieve(part.batch_id)
        for file_id in (batch.output_file_id, batch.error_file_id):
            text = self._client.files.content(file_id).text if file_id else ""
            for line in text.split("\n"):
                if line.strip():
                    yield self._line(part, line)

    def over(self) -> list[Part]:
        """The parts whose results can be fetched."""
        return [part for part in self.open() if part.status in _OVER]

    def finish(self, part: Part) -> None:
        """Marks a part as collected; its lines stand in the account now, one by one."""
        self.spending.set(part.name, Used(self.model, 0, 0, known=True, batch=True))
        part.collected = True
        self._save()

    def _line(self, part: Part, text: str) -> Line:
        try:
            fields = json.loads(text)
            custom_id, response, error = str(fields["custom_id"]), fields.get("response"), fields.get("error")
            status = int(response["status_code"]) if response else 0
            if error and not status:
                message = f"{error.get('code')}: {error.get('message')}"
                return Line(custom_id, error=None if error.get("code") in _NOT_DONE else message)
            if status != 200:
                problem = response["body"].get("error") or {}
                message = f"status {status}: {problem.get('message')}"
                lasting = refuses_the_chat(problem.get("code"), message)
                return Line(custom_id, None, status, message, problem.get("param"), lasting)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ReplyError(f"'{text[:60]}' is no line of a batch's results") from None
        try:
            reply = read_reply(response["body"])
        except ReplyError as broken:
            return Line(custom_id, None, status, str(broken))
        if reply.tokens_in is not None and reply.tokens_out is not None:
            used = Used(self.model, reply.tokens_in, reply.tokens_out, known=True, batch=True)
            self.spending.set(f"{part.name}/{custom_id}", used)
        return Line(custom_id, reply)

    def _save(self) -> None:
        write_json(state_file(self.run, self.name), [part.model_dump() for part in self.parts])


def state_file(run: Run, name: str) -> Path:
    """Where the state of the batches stands."""
    return run.path / "batches" / f"{name}.json"


def read_parts(run: Run, name: str) -> list[Part]:
    """The parts that were ever planned under a name.

    Raises:
        InputError: The file of the state is broken.
    """
    file = state_file(run, name)
    if not file.exists():
        return []
    try:
        return [Part.model_validate(fields) for fields in json.loads(read_text(file))]
    except (ValueError, ValidationError, TypeError) as error:
        raise InputError(f"{file}: not the state of batches ({one_line(error)}); restore the file") from None
