"""The API judge: any OpenAI-compatible server, reasons first, the verdict read from the end of the reply."""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence

import openai
from tqdm import tqdm

from medjudge.errors import InputError
from medjudge.judge.protocol import Assignment, split_empty, unscored
from medjudge.records import Judgment
from medjudge.rubrics.render import render
from medjudge.rubrics.verdict import read_verdict

REQUEST_FAILED = "the request failed:"
"""Begins the error of a judgment that another try may yet bring; the next run asks again."""


def file_name(model: str) -> str:
    """A model's name as it can stand in a file name, in this folder and no other."""
    return model.strip("/.").replace("/", "--").replace("\\", "--")


def require_key(model: str) -> None:
    """Raises InputError where the environment holds no key."""
    if not os.environ.get("OPENAI_API_KEY"):
        raise InputError(
            f"--judge openai:{model}: no key; set the environment variable OPENAI_API_KEY "
            "(any text for a server that asks for none), or judge offline with --judge local"
        )


class ApiJudge:
    """Asks a chat model behind an OpenAI-compatible API.

    Args:
        model: The model's name at the server.
        base_url: The server; None for OpenAI's, or what OPENAI_BASE_URL names.
        concurrency: How many requests may be under way at once.
        seed: Sent with every request, plus the round, so that rounds may differ and runs do not.
        max_tokens: The most tokens of a reply.
        rubrics: Rubrics that stand in for those of the package, by `CATEGORY.language`.

    Raises:
        InputError: There is no key in the environment.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        concurrency: int = 8,
        seed: int = 0,
        max_tokens: int = 1024,
        rubrics: Mapping[str, str] | None = None,
    ) -> None:
        require_key(model)
        self.name = file_name(model)
        self.model = model
        self.base_url = base_url
        self.concurrency = concurrency
        self.reached = False
        self.seed = seed
        self.max_tokens = max_tokens
        self.rubrics = rubrics

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        if not work:
            return
        loop = asyncio.new_event_loop()
        tasks: list[asyncio.Task[Judgment]] = []
        try:
            client = openai.AsyncOpenAI(base_url=self.base_url, max_retries=5, timeout=300)
            gate = asyncio.Semaphore(self.concurrency)
            tasks = [loop.create_task(self._judgment(client, gate, one)) for one in work]
            waiting = set(tasks)
            with tqdm(total=len(work), desc=f"judging ({self.name})", unit="answer", disable=None) as bar:
                while waiting:
                    done, waiting = loop.run_until_complete(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))
                    for task in done:
                        yield task.result()
                        bar.update()
        finally:
            for task in tasks:
                task.cancel()
            # All of them, also those that failed meanwhile: asyncio prints a traceback for a failure nobody looked at.
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.close()

    async def _judgment(self, client: openai.AsyncOpenAI, gate: asyncio.Semaphore, one: Assignment) -> Judgment:
        prompt = render(one.question, one.earlier, one.answer.text, "reason-first", rubrics=self.rubrics)
        async with gate:
            try:
                completion = await client.chat.completions.create(
                    model=self.model,
                    messages=[
                        {"role": "system", "content": prompt.system},
                        {"role": "user", "content": prompt.user},
                    ],
                    temperature=0,
                    seed=self.seed + one.round - 1,
                    max_tokens=self.max_tokens,
                )
            except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
                # No other answer would fare better: stop before a whole run is recorded as unscored.
                raise InputError(f"--judge openai:{self.model} at {client.base_url}: {_line(error)}") from None
            except openai.APIConnectionError as error:
                if not self.reached:
                    raise InputError(
                        f"--judge openai:{self.model}: {client.base_url} cannot be reached ({_line(error)}); "
                        "check --base-url"
                    ) from None
                return unscored(one, self.name, f"{REQUEST_FAILED} {_line(error)}")
            except openai.OpenAIError as error:
                return unscored(one, self.name, f"{REQUEST_FAILED} {_line(error)}")
            self.reached = True
        return self._read(one, completion)

    def _read(self, one: Assignment, completion: openai.types.chat.ChatCompletion) -> Judgment:
        reply = completion.choices[0].message.content if completion.choices else None
        if not reply:
            return unscored(one, self.name, "the server returned no text")
        verdict = read_verdict(reply)
        if verdict.score is None:
            return unscored(one, self.name, f"unreadable reply: {verdict.problem}", raw=reply)
        return Judgment(
            question_id=one.answer.question_id,
            model=one.answer.model,
            sample=one.answer.sample,
            judge=self.name,
            round=one.round,
            score=verdict.score,
            expected=float(verdict.score),
            rationale=reply.strip(),
            raw=reply,
        )


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
