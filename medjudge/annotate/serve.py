"""Pages on which physicians score, compare or mark answers: plain HTML forms, one unit per screen, saved at once.

Whoever has a rater's link may score as that rater. Neither a model's name nor a judge's score is on the page or in its
source.
"""

import re
import time
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
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
    buttons_of,
    chosen_of,
    groups_of,
    message_page,
    open_units,
    page_language,
    page_template,
    progress_of,
    records_from,
    rubric_of,
    switches,
    without_names,
    words_of,
)
from medjudge.annotate.tasks import AGREED, LEVELS, Task
from medjudge.annotate.units import Unit
from medjudge.annotate.wording import page_texts
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
        of_rater = pages[request.state.rater]
        return of_rater.show(of_rater.number(item), wanted_languages(request), saved=saved)

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


@dataclass
class _Pages:
    """A rater's pages; `disputes` are the scores of others that the rater sees, by answer."""

    run: Run
    task: Task
    rater: str
    units: Sequence[Unit]
    disputes: Mapping[AnswerKey, Sequence[PhysicianScore]]
    saved_at: list[float] = field(default_factory=list)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The place of each unit in the rater's order, by id."""
        return {unit.item.id: number for number, unit in enumerate(self.units)}

    def records(self) -> Mapping[Hashable, Any]:
        """The rater's records by what they are about.

        They are read under a lock, so that several windows and servers of one run see each other's and lose none.
        """
        with scores_lock(self.run):
            kept = self.task.kept(self.run)
        return {self.task.key_of(record): record for record in kept if record.rater == self.rater}

    def start(self, languages: Sequence[str]) -> Any:
        """The first open unit, or the end page."""
        if item := self._first_open():
            return RedirectResponse(f"/answer/{item}", 303)
        return self._rendered("end.html", self.units[0], languages, self.records(), review=self.units[0].item.id)

    def show(
        self,
        number: int,
        languages: Sequence[str],
        *,
        saved: str = "",
        message: str = "",
        chosen: Mapping[str, int] | None = None,
        comment: str = "",
    ) -> str:
        """The page of one unit; `saved` is the id of the one saved just before, `message` why a form was not saved.

        `chosen` and `comment` are what was sent, unless the page shows what is stored.
        """
        task, unit, units, records = self.task, self.units[number], self.units, self.records()
        language = page_language(task, units, languages)
        words = words_of(task, unit, language)
        groups = groups_of(unit, words)
        own = [records[key] for key in task.keys_of(unit) if key in records]
        note, levels = rubric_of(unit.question.category, language, unit.scheme) if task.name == "levels" else ("", [])
        keys = words.page.keys_dimensions if groups else words.page.keys_levels
        left = len(open_units(task, units, records))
        return self._rendered(
            "screen.html",
            unit,
            languages,
            records,
            task=task.name,
            headings=words.verdicts.headings if words.verdicts else {},
            text_language=page_texts(unit.question.language, unit.languages).lang,
            minutes_left=minutes_left(self.saved_at, left),
            others=without_names(self.disputes.get(unit.item.keys[0], ()), words.form),
            item=unit.item.id,
            number=number + 1,
            done=len(units) - left,
            question=unit.question,
            earlier=unit.earlier,
            answers=[answer.text for answer in unit.answers],
            note=note,
            levels=levels,
            groups=groups,
            buttons=[] if groups else buttons_of(words, dict(levels)),
            steps=words.steps,
            keys=words.verdicts.keys if words.verdicts else keys,
            replaces=bool(own),
            chosen=chosen_of(task, unit, records) if chosen is None else chosen,
            comment=comment or (own and getattr(own[0], "comment", None)) or "",
            back=units[number - 1].item.id if number else None,
            forward=units[number + 1].item.id if number + 1 < len(units) else None,
            saved={"item": saved, "number": self.numbers[saved] + 1} if saved in self.numbers else None,
            message=message,
        )

    def _rendered(
        self, template: str, unit: Unit, languages: Sequence[str], records: Mapping[Hashable, Any], **shown: Any
    ) -> str:
        """A page with what all of a rater's pages show."""
        language = page_language(self.task, self.units, languages)
        return page_template(template).render(
            words=words_of(self.task, unit, language).page,
            switches=switches(self.task, unit, language),
            titles={category.id: category.title[language] for category in unit.scheme.categories},
            rater=self.rater,
            total=len(self.units),
            progress=progress_of(self.task, self.units, records),
            **shown,
        )

    def skip(self, item: str) -> Response:
        """On to the next open unit."""
        following = self._first_open(self.number(item) + 1)
        return RedirectResponse(f"/answer/{following}" if following else "/", 303)

    def save(self, item: str, fields: Mapping[str, str], languages: Sequence[str]) -> Any:
        """Saves what was chosen and goes on to the next open unit; a form that cannot be saved is shown again."""
        if fields.get("rater", self.rater) != self.rater:  # another rater's link was opened in this browser since
            return message_page("other_rater", 409)
        number = self.number(item)
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
            page = self.show(number, languages, message=message, chosen=chosen, comment=comment)
            return HTMLResponse(page, 400)
        try:
            add_records(self.run, records, "replaces" in fields, self.task)
        except (InputError, OSError) as error:
            known, said = self.records(), self.task.said
            before = [(known.get(self.task.key_of(record)), record) for record in records]
            if any(one is not None and said(one) != said(record) for one, record in before):
                # Saved in another window; this page showed nothing.
                return HTMLResponse(self.show(number, languages, message=words.page.changed, comment=comment), 409)
            notify(f"error: {error}")
            page = self.show(number, languages, message=words.page.not_saved, chosen=chosen, comment=comment)
            return HTMLResponse(page, 500)
        self.saved_at.append(time.monotonic())
        following = self._first_open(number + 1)
        return RedirectResponse(f"/answer/{following}?saved={item}" if following else "/", 303)

    def number(self, item: str) -> int:
        """The place of a unit in the rater's order; HTTPException where the rater has no such unit."""
        if item not in self.numbers:
            raise HTTPException(404)
        return self.numbers[item]

    def _first_open(self, start: int = 0) -> str | None:
        """The first open unit, from `start` on and then from the top."""
        order = [*self.units[start:], *self.units[:start]]
        return next((unit.item.id for unit in open_units(self.task, order, self.records())), None)


def minutes_left(saved_at: Sequence[float], open_answers: int) -> int | None:
    """The time for the open answers by the median time between the last saves, breaks aside; None before four saves."""
    paces = [later - earlier for earlier, later in pairwise(saved_at[-30:]) if later - earlier < _BREAK_SECONDS]
    return max(1, round(median(paces) * open_answers / 60)) if len(paces) >= 3 and open_answers else None


def _unreadable(request: Request, error: Exception) -> Response:
    notify(f"error: {error}")  # not on the page: it may name models
    return message_page("unreadable", 500)
