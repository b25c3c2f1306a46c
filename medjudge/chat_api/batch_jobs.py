"""OpenAI's Batch API: requests are uploaded as files, processed within a day, and their results fetched later.

The state of all batch jobs of one model is in `batches/NAME.json` of the run, next to the request files. A job carries
the run's id and its own name as metadata. If the process is killed after the server created a job and before its id
was saved, the next start finds the job in the server's list and does not submit it again.
"""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal

import openai
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from medjudge.chat_api.client import body_bytes
from medjudge.chat_api.replies import ChatReply, ReplyError, ServerError, one_line, read_reply
from medjudge.chat_api.spending import Spending, Used
from medjudge.chat_api.transport import MOST_BATCH_BYTES, Reader, without_key
from medjudge.errors import InputError, UnfinishedError
from medjudge.files import first_problem, read_text, write_json, write_whole
from medjudge.store import Run

MOST_REQUESTS = 50_000
"""OpenAI's limit on one file, next to `MOST_BATCH_BYTES`."""
_ENDPOINT: Literal["/v1/chat/completions"] = "/v1/chat/completions"
FINISHED = ("completed", "expired", "cancelled")
"""The states of a job whose results can be fetched."""
_NOT_DONE = ("batch_expired", "batch_cancelled")


class BatchJob(BaseModel):
    """One request file and the job that processes it.

    `most_in` and `most_out` bound the tokens of all requests and of all replies.
    """

    model_config = ConfigDict(extra="forbid")

    name: str
    requests: int
    most_in: int
    most_out: int
    batch_id: str | None = None
    status: str = "planned"
    collected: bool = False


_Jobs = TypeAdapter(list[BatchJob])

Outcome = ChatReply | ServerError | ReplyError | None
"""Of one request: a reply or an error; None where the job ran out of time."""


class BatchJobs:
    """The batch jobs of one model in a run.

    Args:
        run: The run folder, locked; its manifest holds the run's id.
        base_url: The server; None for OpenAI's.
        spending: The account. Until a job is collected, it counts with the most that it can cost.

    Raises:
        InputError: The state file is corrupt.
    """

    def __init__(self, run: Run, name: str, model: str, base_url: str | None, spending: Spending) -> None:
        self.run = run
        self.name = name
        self.model = model
        self.spending = spending
        self.jobs = read_batch_jobs(run, name)
        self._client = openai.OpenAI(base_url=base_url, max_retries=5, timeout=300, http_client=Reader(timeout=300))

    def uncollected(self) -> list[BatchJob]:
        """The jobs whose results have not been read yet."""
        return [job for job in self.jobs if not job.collected]

    def plan(self, requests: Iterable[tuple[str, dict[str, Any]]]) -> int:
        """Write the request file of one job, with as many requests as the file and the cost limit allow.

        Args:
            requests: (custom id, body) pairs.

        Returns:
            The number of requests planned; the others are for the next job.
        """
        lines: list[str] = []
        job = BatchJob(name=f"{self.name}-{len(self.jobs) + 1:03d}", requests=0, most_in=0, most_out=0)
        size = 0
        for custom_id, body in requests:
            fields = {"custom_id": custom_id, "method": "POST", "url": _ENDPOINT, "body": body}
            line = json.dumps(fields, ensure_ascii=False) + "\n"
            size += len(line.encode())
            most_in = job.most_in + body_bytes(body)
            most_out = job.most_out + (body.get("max_tokens") or body["max_completion_tokens"])
            fits = self.spending.fits(Used(self.model, most_in, most_out, known=False, batch=True))
            if not fits or len(lines) == MOST_REQUESTS or size > MOST_BATCH_BYTES:
                break
            lines.append(line)
            job.requests, job.most_in, job.most_out = len(lines), most_in, most_out
        if lines:
            write_whole(self._request_file(job), "".join(lines))
            self.jobs.append(job)
            self._save()
            self._reserve(job)
        return len(lines)

    def _request_file(self, job: BatchJob) -> Path:
        return self.run.path / "batches" / f"{job.name}.jsonl"

    def _reserve(self, job: BatchJob) -> None:
        """Count the job with the most that it can cost."""
        self.spending.set(job.name, Used(self.model, job.most_in, job.most_out, known=False, batch=True))

    def submit(self) -> None:
        """Submit every planned job that the server does not have yet.

        Raises:
            UnfinishedError: The server did not confirm a job; the next start checks whether it exists after all.
        """
        for job in self.jobs:
            if job.batch_id is not None:
                continue
            self._reserve(job)
            tried_before = job.status == "submitting"
            job.status = "submitting"
            self._save()
            try:
                batch = (self._find(job) if tried_before else None) or self._create(job)
            except openai.OpenAIError as error:
                raise UnfinishedError(
                    f"the server did not accept the batch of {job.requests} requests ({one_line(error)}); the same "
                    "command first checks whether the server has it, then tries again"
                ) from None
            job.batch_id, job.status = batch.id, batch.status
            self._save()

    def _create(self, job: BatchJob) -> "openai.types.Batch":
        with self._request_file(job).open("rb") as file:
            uploaded = self._client.files.create(file=file, purpose="batch")
        # No retries: a request that timed out may have created the job.
        client = self._client.with_options(max_retries=0)
        return client.batches.create(
            input_file_id=uploaded.id, endpoint=_ENDPOINT, completion_window="24h", metadata=self._metadata(job)
        )

    def _find(self, job: BatchJob) -> "openai.types.Batch | None":
        expected = self._metadata(job)
        listed = self._client.batches.list(limit=100)
        return next((batch for batch in listed if (batch.metadata or {}).items() >= expected.items()), None)

    def _metadata(self, job: BatchJob) -> dict[str, str]:
        return {"medjudge_run": str(self.run.manifest()["id"]), "part": job.name}

    def refresh(self) -> list[str]:
        """Fetch the status of every uncollected job; return a line for each that is still in progress.

        Raises:
            UnfinishedError: A job failed as a whole. It is marked as collected, and its requests can be submitted
                again.
        """
        in_progress = []
        for job in self.uncollected():
            assert job.batch_id is not None
            batch = self._client.batches.retrieve(job.batch_id)
            job.status = batch.status
            if batch.status == "failed":
                reasons = [error.message or "" for error in (batch.errors.data if batch.errors else None) or []]
                self.mark_collected(job)
                raise UnfinishedError(
                    f"batch {job.batch_id} failed and none of its requests were sent: "
                    f"{without_key('; '.join(reasons))[:300]}; fix that, and the same command submits it again"
                )
            if batch.status not in FINISHED:
                counts = batch.request_counts
                done = f", {counts.completed} of {counts.total} done" if counts else ""
                in_progress.append(f"batch {job.batch_id}: {batch.status}{done}")
        self._save()
        return in_progress

    def results(self, job: BatchJob) -> Iterator[tuple[str, Outcome]]:
        """Custom id and outcome of each request of a finished job; their cost is charged to the account.

        Raises:
            ReplyError: A line is not a result.
        """
        assert job.batch_id is not None
        batch = self._client.batches.retrieve(job.batch_id)
        for file_id in (batch.output_file_id, batch.error_file_id):
            text = self._client.files.content(file_id).text if file_id else ""
            for line in text.split("\n"):
                if line.strip():
                    yield self._line(job, without_key(line))

    def mark_collected(self, job: BatchJob) -> None:
        """Mark a job as collected and release its reservation: its results are in the account one by one."""
        self.spending.set(job.name, Used(self.model, 0, 0, known=True, batch=True))
        job.collected = True
        self._save()

    def _line(self, job: BatchJob, text: str) -> tuple[str, Outcome]:
        try:
            fields = json.loads(text)
            custom_id, response, error = str(fields["custom_id"]), fields.get("response"), fields.get("error")
            status = int(response["status_code"]) if response else 0
            if error and not status:
                done = error.get("code") not in _NOT_DONE
                return custom_id, ReplyError(f"{error.get('code')}: {error.get('message')}") if done else None
            body = response["body"]
        except (ValueError, LookupError, TypeError, AttributeError):
            raise ReplyError(f"'{text[:60]}' is not a batch result") from None
        try:
            if status != 200:
                raise ServerError(status, body)
            reply = read_reply(body)
        except (ServerError, ReplyError) as error:
            return custom_id, error
        if reply.tokens_in is not None and reply.tokens_out is not None:
            used = Used(self.model, reply.tokens_in, reply.tokens_out, known=True, batch=True)
            self.spending.set(f"{job.name}/{custom_id}", used)
        return custom_id, reply

    def _save(self) -> None:
        write_json(state_file(self.run, self.name), [job.model_dump() for job in self.jobs])


def state_file(run: Run, name: str) -> Path:
    """The file that holds the state of the batch jobs."""
    return run.path / "batches" / f"{name}.json"


def read_batch_jobs(run: Run, name: str) -> list[BatchJob]:
    """All jobs ever planned under a name.

    Raises:
        InputError: The state file is corrupt.
    """
    file = state_file(run, name)
    if not file.exists():
        return []
    try:
        return _Jobs.validate_json(read_text(file))
    except ValidationError as error:
        raise InputError(f"{file}: not the state of batch jobs ({first_problem(error)}); restore the file") from None
