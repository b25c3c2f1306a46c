"""Pages on which physicians score, compare or mark answers: plain HTML forms, one unit per screen, saved at once.

Whoever has a rater's link may score as that rater. Neither a model's name nor a judge's score is on the page or in its
source.
"""

import re
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from statistics import median
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError

from medjudge.annotate.access import HEADERS, Access, refusal, switch_language, wanted_languages
from medjudge.annotate.add_scores import add_records, scores_lock
from medjudge.annotate.adjudicate import disputed
from medjudge.annotate.plan import Plan
from medjudge.annotate.rendering import (
    View,
    answer_page,
    end_page,
    groups_of,
    message_page,
    open_units,
    page_language,
    records_from,
    words_of,
)
from medjudge.annotate.tasks import AGREED, LEVELS, Task
from medjudge.annotate.units import Unit
from medjudge.errors import InputError, notify
from medjudge.records import AnswerKey, PhysicianScore
from medjudge.store import Run

_BREAK_SECONDS = 600
"""A longer time between two saves is a break."""


def annotation_app(run: Run, plan: Plan, access: Access, task: Task = LEVELS) -> FastAPI:
    """The pages of the raters who have a link.

    Args:
        run: Where the questions and answers are, and the records go.
        plan: Which answers or pairs, in which order.
        access: Links to raters of the plan, and the addresses of the server.
        task: What the raters do. Under `AGREED` they see others' scores, without names, and record the agreed one.

    Raises:
        InputError: The plan does not match the run.
    """
    units = task.units(run, plan)
    disputes = disputed(run.physician_scores()) if task is AGREED else {}
    pages = {rater: _Pages(run, task, rater, units[rater], disputes) for rater in access.raters.values()}
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server.mount("/static", StaticFiles(packages=[("medjudge.annotate", "page/static")]))
    server.add_exception_handler(404, lambda request, error: message_page("not_found", 404))
    server.add_exception_handler(InputError, _unreadable)
    server.get("/language/{language}")(switch_language)
    server.get("/language/{language}/{item}")(switch_language)

    @server.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = refusal(request, access) or await call_next(request)
        response.headers.update(HEADERS)
        return response

    @server.get("/", response_class=HTMLResponse)
    def start(request: Request) -> Any:
        return pages[request.state.rater].start(wanted_languages(request))

    @server.get("/answer/{item}", response_class=HTMLResponse)
    def show(request: Request, item: str, saved: str = "") -> str:
        return pages[request.state.rater].show(item, saved, wanted_languages(request))

    @server.get("/next/{item}")
    def skip(request: Request, item: str) -> Response:
        return pages[request.state.rater].skip(item)

    @server.post("/answer/{item}", response_class=HTMLResponse)
    def save(request: Request, item: str, fields: Annotated[dict[str, str], Depends(_fields)]) -> Any:
        return pages[request.state.rater].save(item, fields, wanted_languages(request))

    return server


async def _fields(request: Request) -> dict[str, str]:
    """A posted form; its line ends are as a browser sends them."""
    body = (await request.body()).decode("ascii", "replace")
    return {name: value.replace("\r\n", "\n") for name, value in parse_qsl(body, keep_blank_values=True)}


class _Pages:
    """A rater's pages: what each request is answered with.

    Args:
        disputes: The scores of others that the rater sees, by answer.
    """

    def __init__(
        self,
        run: Run,
        task: Task,
        rater: str,
        units: Sequence[Unit],
        disputes: Mapping[AnswerKey, Sequence[PhysicianScore]],
    ) -> None:
        self.run = run
        self.task = task
        self.rater = rater
        self.units = units
        self.disputes = disputes
        self.saved_at: list[float] = []
        self.numbers = {unit.item.id: number for number, unit in enumerate(units)}
        self._state: object = None
        self._records: dict[Hashable, Any] = {}

    def records(self) -> Mapping[Hashable, Any]:
        """The rater's records by what they are about; their file is read again only if it changed.

        It is read under a lock, so that several windows and servers of one run see each other's records and lose none.
        """
        file, task = self.task.file(self.run), self.task
        with scores_lock(self.run):
            stat = file.stat() if file.exists() else None
            state = stat and (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if state != self._state:
                kept = (record for record in task.kept(self.run) if record.rater == self.rater)
                self._records = {task.key_of(record): record for record in kept}
                self._state = state
            return self._records

    def start(self, languages: Sequence[str]) -> Any:
        """The first open unit, or the end page."""
        item = self._first_open()
        if item is not None:
            return RedirectResponse(f"/answer/{item}", 303)
        return end_page(self.task, self.units, self.rater, self.records(), languages)

    def show(self, item: str, saved: str, languages: Sequence[str]) -> str:
        """One unit; `saved` is the one that was saved just before."""
        number, records = self._number(item), self.records()
        left = seconds_left(self.saved_at, len(open_units(self.task, self.units, records)))
        view = View(saved, languages=languages, seconds_left=left, others=self._others(number))
        return answer_page(self.task, self.units, number, self.rater, records, view)

    def skip(self, item: str) -> Response:
        """On to the next open unit."""
        following = self._first_open(self._number(item) + 1)
        return RedirectResponse(f"/answer/{following}" if following else "/", 303)

    def save(self, item: str, fields: Mapping[str, str], languages: Sequence[str]) -> Any:
        """Saves what was chosen and goes on to the next open unit; a form that cannot be saved is shown again."""
        if fields.get("rater", self.rater) != self.rater:  # another rater's link was opened in this browser since
            return message_page("other_rater", 409)
        number = self._number(item)
        unit = self.units[number]
        words = words_of(self.task, unit, page_language(self.task, self.units, languages))
        chosen = {name: int(value) for name, value in fields.items() if re.fullmatch("[0-9]", value)}
        comment = fields.get("comment", "").strip()
        try:
            records = records_from(self.task, unit, self.rater, chosen, comment)
        except ValidationError:
            comma = "、" if words.page.lang.startswith("zh") else ", "
            missing = comma.join(group.name for group in groups_of(unit, words) if group.field not in chosen)
            message = words.page.missing_dimensions.format(names=missing) if missing else words.page.refused
            return self._again(number, 400, View(message=message, chosen=chosen, comment=comment, languages=languages))
        try:
            add_records(self.run, self.task, records, replace="replaces" in fields)
        except (InputError, OSError) as error:
            known, said = self.records(), self.task.said
            before = [(known.get(self.task.key_of(record)), record) for record in records]
            if any(one is not None and said(one) != said(record) for one, record in before):
                # Saved in another window; this page showed nothing.
                return self._again(number, 409, View(message=words.page.changed, comment=comment, languages=languages))
            notify(f"error: {error}")
            return self._again(
                number, 500, View(message=words.page.not_saved, chosen=chosen, comment=comment, languages=languages)
            )
        self.saved_at.append(time.monotonic())
        following = self._first_open(number + 1)
        return RedirectResponse(f"/answer/{following}?saved={item}" if following else "/", 303)

    def _again(self, number: int, status: int, view: View) -> Response:
        view = view._replace(others=self._others(number))
        return HTMLResponse(answer_page(self.task, self.units, number, self.rater, self.records(), view), status)

    def _others(self, number: int) -> Sequence[PhysicianScore]:
        """The scores of others that the rater sees."""
        return self.disputes.get(self.units[number].item.keys[0], ())

    def _number(self, item: str) -> int:
        if item not in self.numbers:
            raise HTTPException(404)
        return self.numbers[item]

    def _first_open(self, start: int = 0) -> str | None:
        """The first open unit, from `start` on and then from the top."""
        order = [*self.units[start:], *self.units[:start]]
        return next((unit.item.id for unit in open_units(self.task, order, self.records())), None)


def seconds_left(saved_at: Sequence[float], open_answers: int) -> float | None:
    """The time that a rater will take for the open answers.

    Args:
        saved_at: When the rater saved scores, in seconds of any clock, ascending.

    Returns:
        The median time between the last saves, breaks aside, for each open answer; None before four saves.
    """
    paces = [later - earlier for earlier, later in pairwise(saved_at[-30:]) if later - earlier < _BREAK_SECONDS]
    return median(paces) * open_answers if len(paces) >= 3 and open_answers else None


def _unreadable(request: Request, error: Exception) -> Response:
    notify(f"error: {error}")  # not on the page: it may name models
    return message_page("unreadable", 500)
