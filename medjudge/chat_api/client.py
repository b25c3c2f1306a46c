"""Sends chat requests to a server, with bounded concurrency, retries, and limits on tokens per minute and cost.

The openai client handles the server, the key and the errors. Its own retries are not used, because single attempts must
be visible: an interrupted attempt may have been billed, and every attempt counts toward the tokens per minute. It would
also give up on a Retry-After over two minutes, and on a truncated reply with status 200.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import openai

from medjudge.chat_api.replies import (
    NO_THINKING,
    ChatReply,
    ReplyError,
    ServerError,
    WebPageError,
    one_line,
    parse_reply,
    read_error,
    retry_after,
)
from medjudge.chat_api.spending import Limit, Pace, Spending, Used, price_of, read_prices
from medjudge.chat_api.transport import AsyncReader, UnreadReplyError, server_address, without_key
from medjudge.errors import InputError, UnfinishedError, notify

Work = TypeVar("Work")
Result = TypeVar("Result")

_NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout")
"""Names of exceptions: openai 2 is based on httpx and openai 3 on httpx2."""
_MOST_PAGES = 3
"""Web pages in place of a first reply after which the address counts as wrong."""
_MOST_BROKEN = 3
"""Attempts at a reply that breaks off: each may be billed."""
_LONGEST_PAUSE = 600.0
"""The longest pause in seconds that the server may ask for; a longer one ends the run."""


class ChatRequest(NamedTuple):
    """One chat to continue.

    `schema` is the JSON schema of the reply, for servers that support constrained output. `thinking` switches the
    thinking of a model on or off, by chat_template_kwargs and enable_thinking; None leaves it to the server.
    `more_tokens` are added for one more attempt where a thought took all of `max_tokens`.
    """

    messages: list[dict[str, str]]
    seed: int
    max_tokens: int
    temperature: float = 0.0
    schema: dict[str, Any] | None = None
    thinking: bool | None = None
    more_tokens: int = 0


class Server(NamedTuple):
    """A server, its limits, and how requests are retried.

    Attributes:
        base_url: None means OpenAI's server, or the one that OPENAI_BASE_URL names.
        concurrency: The most requests in flight.
        attempts: The most attempts per request; eight outlast a rate limit of one minute.
        first_wait: Seconds before the second attempt; doubles with each attempt, up to 30.
    """

    base_url: str | None = None
    concurrency: int = 8
    tokens_per_minute: int | None = None
    attempts: int = 8
    first_wait: float = 0.5
    timeout: float = 300.0


class RequestError(Exception):
    """A request got no reply. Another attempt may get one, unless `lasting`: the server then refuses the chat."""

    def __init__(self, message: str, lasting: bool = False) -> None:
        super().__init__(message)
        self.lasting = lasting


def require_key(option: str) -> None:
    """Raises InputError if the environment has no key.

    Args:
        option: The option as the user wrote it, such as `--judge openai:gpt-4o`.
    """
    if not os.environ.get("OPENAI_API_KEY"):
        raise InputError(
            f"{option}: no key; set the environment variable OPENAI_API_KEY (any text for a server that needs "
            "none), or work offline with --judge local or a local model"
        )


def check_server(option: str, model: str, base_url: str | None, offline: bool, limit: Limit) -> None:
    """Checks, before any work is done, whether requests to a model can be sent.

    Args:
        option: The option as the user wrote it, such as `--judge openai:gpt-4o`.

    Raises:
        InputError: There is no key, --offline forbids the server, or there is a limit on costs and no price.
    """
    if offline and urlsplit(server_address(base_url) or "").hostname != "localhost":
        raise InputError(f"{option} needs the network, and --offline forbids it; use --judge local or a local model")
    require_key(option)
    if limit.max_cost is not None:
        price_of(model, read_prices(limit.prices), limit.prices)


class ChatClient:
    """Client of one model at a server.

    Args:
        option: The option that named the model; every error starts with it.
        spending: The account that requests are charged to; None for no account.

    Raises:
        InputError: There is no key in the environment.
    """

    def __init__(
        self,
        option: str,
        model: str,
        server: Server = Server(),
        spending: Spending | None = None,
    ) -> None:
        require_key(option)
        self.option = option
        self.model = model
        self.server = server
        self.spending = spending
        self.refused: set[str] = set()
        self.pace = Pace(server.tokens_per_minute)
        self._client: openai.AsyncOpenAI
        self._sending: set[asyncio.Task[Any] | None] = set()
        self._stopping = False
        self._reached = False
        self._paused_until = 0.0
        self._failed_in_a_row = 0
        self._replied = False
        self._pages = 0
        self._thinks = False
        self._has_more_room = True

    def gather(self, work: Iterable[Work], ask: Callable[[Work], Coroutine[Any, Any, Result]]) -> Iterator[Result]:
        """Run `ask` on all work, `concurrency` items at a time, and yield each result as it arrives.

        After an error nothing new is started. Requests in flight are completed and yielded first, as they are paid for.
        """
        loop = asyncio.new_event_loop()
        waiting: set[asyncio.Task[Result]] = set()
        done: set[asyncio.Task[Result]] = set()
        problem: BaseException | None = None
        remaining = iter(work)
        self._stopping = False
        self._client = openai.AsyncOpenAI(
            base_url=self.server.base_url,
            max_retries=0,
            timeout=self.server.timeout,
            http_client=AsyncReader(timeout=self.server.timeout),
        )
        try:
            while True:
                while problem is None and len(waiting) < self.server.concurrency:
                    try:
                        waiting.add(loop.create_task(ask(next(remaining))))
                    except StopIteration:
                        break
                if not waiting:
                    break
                done, waiting = loop.run_until_complete(asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED))
                for task in done:
                    if not task.cancelled() and task.exception() is None:
                        yield task.result()
                    elif problem is None:
                        problem, self._stopping = task.exception(), True
                        for other in waiting - self._sending:  # those between two attempts
                            other.cancel()
            if problem is not None:
                raise problem
        finally:
            for task in waiting:
                task.cancel()
            # Failed tasks too: asyncio prints a traceback for an exception that is never retrieved.
            if waiting | done:
                loop.run_until_complete(asyncio.gather(*waiting, *done, return_exceptions=True))
            loop.run_until_complete(self._client.close())
            loop.close()

    async def ask(self, request: ChatRequest) -> ChatReply:
        """Send a request, with retries, and return the reply.

        Where a thought takes all tokens, the request is sent once more with more; later requests begin with these.

        Raises:
            RequestError: All attempts failed, or the server refused the request.
            InputError: No request can succeed: wrong key, model or address, or no quota.
            UnfinishedError: The cost limit is reached, the server asks for a long pause, or all requests fail.
        """
        roomy = request._replace(max_tokens=request.max_tokens + request.more_tokens)
        if self._thinks and self._has_more_room:
            return await self._ask(roomy)
        reply = await self._ask(request)
        if not (reply.all_thought and request.more_tokens and self._has_more_room):
            return reply
        if not self._thinks:
            notify(
                f"{self.option}: a thought took all {request.max_tokens} tokens of a reply; continues with "
                f"{roomy.max_tokens}"
            )
            self._thinks = True
        try:
            return await self._ask(roomy)
        except RequestError:
            self._has_more_room = False  # the model's window is too small for it
            return reply

    async def _ask(self, request: ChatRequest) -> ChatReply:
        attempt = 0
        while True:
            body = request_body(self.model, request, self.refused)
            attempt += 1
            try:
                reply = await self._attempt(body, request.max_tokens)
            except ServerError as error:
                self._reached = True
                if self._learnt(error, body):
                    attempt -= 1
                    continue
                if error.of_the_account(self._replied):
                    raise InputError(f"{self.option} at {self._address()}: {error}") from None
                if not error.passing:
                    if not error.of_the_chat:
                        self._count_failure(str(error))
                    raise RequestError(str(error), error.of_the_chat) from None
                reason, wait = str(error), self._requested_pause(error)
            except UnreadReplyError as error:
                self._count_failure(one_line(error))
                raise RequestError(one_line(error)) from None
            except openai.APIConnectionError as error:
                silent = isinstance(error, openai.APITimeoutError) or type(error.__cause__).__name__ in _NEVER_SENT
                if silent and not self._reached and attempt == min(2, self.server.attempts):
                    address = f"{self._address()} cannot be reached ({one_line(error)})"
                    raise InputError(f"{self.option}: {address}; check --base-url") from None
                reason, wait = one_line(error), None
            except ReplyError as error:
                self._reached = True
                self._pages += isinstance(error, WebPageError)
                if self._pages >= min(_MOST_PAGES, self.server.attempts) and not self._replied:
                    raise InputError(
                        f"{self.option} at {self._address()}: {error}, and no chat completion; check --base-url, which "
                        "mostly ends in /v1"
                    ) from None
                reason, wait = str(error), None
            else:
                self._reached = self._replied = True
                if not reply.broke_off or reply.refusal:
                    self._failed_in_a_row = 0
                    return reply
                reason, wait = f"the reply broke off: {reply.finish_reason}", None
                if attempt >= min(_MOST_BROKEN, self.server.attempts):
                    self._count_failure(reason)
                    return reply
            if attempt == self.server.attempts:
                self._count_failure(reason)
                raise RequestError(f"{reason} ({attempt} attempts)")
            if self._stopping:
                raise asyncio.CancelledError
            backoff = min(self.server.first_wait * 2 ** (attempt - 1), 30.0) * random.uniform(0.75, 1.0)
            await asyncio.sleep(backoff if wait is None else wait)

    async def _attempt(self, body: dict[str, Any], max_tokens: int) -> ChatReply:
        while time.monotonic() < self._paused_until:
            await asyncio.sleep(self._paused_until - time.monotonic())
        size = body_bytes(body)
        # No language takes two bytes a token; the reply corrects it.
        entry = await self.pace.take(size // 2 + max_tokens)
        name = await self._begin(Used(self.model, size, max_tokens, known=False))
        used: tuple[int, int] | None = None  # an interrupted request may have been processed, and billed
        self._sending.add(asyncio.current_task())
        try:
            raw = await self._client.chat.completions.with_raw_response.create(**body)
            reply = parse_reply(raw.text, raw.headers)
            if reply.tokens_in is not None and reply.tokens_out is not None:
                used = reply.tokens_in, reply.tokens_out
                entry[1] = sum(used)
            return reply
        except openai.APIStatusError as error:
            used = 0, 0
            raise read_error(error.status_code, error.response.text, error.response.headers) from None
        except ServerError:
            used = 0, 0
            raise
        except openai.APIConnectionError as error:
            used = (0, 0) if type(error.__cause__).__name__ in _NEVER_SENT else None
            raise
        finally:
            self._sending.discard(asyncio.current_task())
            if self.spending is not None:
                self.spending.end(name, used)

    async def _begin(self, most: Used) -> str:
        if self.spending is None:
            return ""
        while not self.spending.fits(most):
            if not self.spending.in_flight:
                raise UnfinishedError(
                    f"--max-cost {self.spending.max_cost:g}: {self.spending.run.path} has cost "
                    f"{self.spending.spent:.4f} USD in all, and the next request could cost up to "
                    f"{self.spending.cost(most):.4f}; all results are kept, and the same command with a higher "
                    "--max-cost continues"
                )
            await asyncio.sleep(0.05)  # requests in flight usually cost less than their maximum
        return self.spending.begin(most)

    def _learnt(self, error: ServerError, body: dict[str, Any]) -> bool:
        """True if the server rejected an optional parameter of this request, which is then remembered."""
        extra = body.get("extra_body", {})
        name = error.refused_parameter({*body, *extra})
        if name is None or (name == NO_THINKING and "enable_thinking" in {*extra, *self.refused}):
            return False
        if name not in self.refused:
            if name == NO_THINKING:
                notify(f"{self.option}: continues with enable_thinking=false, as the server demands")
            else:
                notify(f"{self.option}: continues without {name}, which the server rejects")
            self.refused.add(name)
        return True

    def _address(self) -> str:
        return without_key(str(self._client.base_url))

    def _requested_pause(self, error: ServerError) -> float | None:
        """Apply the pause that the server asks for to all requests; None if it asks for none."""
        wait = retry_after(error.headers.get("retry-after-ms"), error.headers.get("retry-after"))
        if wait is None:
            return None
        if wait > _LONGEST_PAUSE:
            raise UnfinishedError(
                f"{self.option}: the server asks to wait {wait:.0f} s ({error}); all results are kept, and "
                "the same command continues after that"
            )
        self._paused_until = max(self._paused_until, time.monotonic() + wait)
        return 0.0

    def _count_failure(self, reason: str) -> None:
        self._failed_in_a_row += 1
        if self._failed_in_a_row > max(10, 2 * self.server.concurrency):
            raise UnfinishedError(
                f"{self.option}: the last {self._failed_in_a_row} requests all failed ({reason}); all results are "
                "kept, and the same command continues"
            )


def request_body(model: str, request: ChatRequest, refused: Collection[str] = ()) -> dict[str, Any]:
    """The body of a request, without the parameters that the server rejects."""
    fields: dict[str, Any] = {
        "model": model,
        "messages": request.messages,
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "seed": request.seed,
    }
    if request.schema is not None:
        schema = {"name": "reply", "strict": True, "schema": request.schema}
        fields["response_format"] = {"type": "json_schema", "json_schema": schema}
    thinking = False if NO_THINKING in refused else request.thinking
    if thinking is not None:
        switch = {"enable_thinking": thinking}
        extra = {"chat_template_kwargs": switch, **switch}
        fields["extra_body"] = {name: value for name, value in extra.items() if name not in refused}
    if "max_tokens" in refused:
        fields["max_completion_tokens"] = request.max_tokens
    return {name: value for name, value in fields.items() if name not in refused}


def body_bytes(body: dict[str, Any]) -> int:
    """The bytes of a request: an upper bound of its tokens, those of the chat template included."""
    return len(json.dumps([body["messages"], body.get("response_format")], ensure_ascii=False).encode())
