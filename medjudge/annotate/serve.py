"""Pages on which physicians score answers: plain HTML forms, one answer per screen, saved at once.

Whoever has a rater's link may score as that rater. Neither a model's name nor a judge's score is on the page or in its
source.
"""

import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from shlex import quote
from statistics import median
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from pydantic import ValidationError

from medjudge.annotate.access import HEADERS, LANGUAGE_COOKIE, Access, refusal, switch_language
from medjudge.annotate.add_scores import add_scores, scores_lock
from medjudge.annotate.adjudicate import disputed
from medjudge.annotate.cells import DIMENSIONS
from medjudge.annotate.items import ToScore, all_to_score
from medjudge.annotate.plan import Plan
from medjudge.annotate.rendering import (
    Draft,
    View,
    answer_page,
    end_page,
    message_page,
    missing_dimensions,
    page_language,
)
from medjudge.annotate.wording import page_texts
from medjudge.errors import InputError, notify
from medjudge.provenance import same
from medjudge.records import AgreedScore, AnswerKey, PhysicianScore
from medjudge.store import Run

_BREAK_SECONDS = 600
"""A longer time between two saves is a break."""


def scoring_app(run: Run, plan: Plan, access: Access, adjudicates: bool = False) -> FastAPI:
    """The scoring pages of the raters who have a link.

    Args:
        run: Where the questions and answers are, and the scores go.
        plan: Which answers, in which order.
        access: Links to raters of the plan, and the addresses of the server.
        adjudicates: Whether the raters see the scores of others, without names, and record the agreed one.

    Raises:
        InputError: The plan does not match the run.
    """
    items = all_to_score(run, plan)
    disputes = disputed(run.physician_scores()) if adjudicates else None
    pages = {rater: _Pages(run, rater, items[rater], access.for_others, disputes) for rater in access.raters.values()}
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server.state.pages = pages
    server.mount("/static", StaticFiles(packages=[("medjudge.annotate", "page/static")]))

    @server.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = refusal(request, access) or await call_next(request)
        response.headers.update(HEADERS)
        return response

    server.add_exception_handler(404, _not_found)
    server.add_exception_handler(InputError, _unreadable)
    server.get("/", response_class=HTMLResponse)(_start)
    server.get("/answer/{item}", response_class=HTMLResponse)(_show)
    server.get("/next/{item}")(_skip)
    server.get("/language/{language}/{item}")(switch_language)
    server.post("/answer/{item}", response_class=HTMLResponse)(_save)
    return server


async def _fields(request: Request) -> dict[str, str]:
    """A posted form; its line ends are as a browser sends them."""
    body = (await request.body()).decode("ascii", "replace")
    return {name: value.replace("\r\n", "\n") for name, value in parse_qsl(body, keep_blank_values=True)}


class _Pages:
    """A rater's pages: what each request is answered with.

    Args:
        for_others: Whether the rater sits at another machine than the server.
        disputes: The scores of others, by answer, where the rater adjudicates; else None.
    """

    def __init__(
        self,
        run: Run,
        rater: str,
        items: Sequence[ToScore],
        for_others: bool,
        disputes: Mapping[AnswerKey, Sequence[PhysicianScore]] | None,
    ) -> None:
        self.run = run
        self.rater = rater
        self.items = items
        self.for_others = for_others
        self.disputes = disputes
        self.saved_at: list[float] = []
        self.numbers = {entry.item.id: number for number, entry in enumerate(self.items)}
        self.scores = scores_of(run, rater, agreed=disputes is not None)

    def start(self, language: str | None) -> Any:
        """The first open answer, or the end page."""
        item = self._first_open()
        if item is not None:
            return RedirectResponse(f"/answer/{item}", 303)
        command = "" if self.for_others else f"medjudge validate {quote(str(self.run.path))} --judge JUDGE"
        return end_page(self.items, self.rater, self.scores(), command, language)

    def show(self, item: str, saved: str, language: str | None) -> str:
        """One answer; `saved` is the item whose score was saved just before."""
        scores = self.scores()
        left = seconds_left(self.saved_at, sum(entry.item.key not in scores for entry in self.items))
        number = self._number(item)
        view = View(saved, language=language, seconds_left=left, others=self._others(number))
        return answer_page(self.items, number, self.rater, scores, view)

    def skip(self, item: str) -> Response:
        """On to the next open answer."""
        following = self._first_open(self._number(item) + 1)
        return RedirectResponse(f"/answer/{following}" if following else "/", 303)

    def save(self, item: str, fields: Mapping[str, str], language: str | None) -> Any:
        """Saves a score and goes on to the next open answer; a form that cannot be saved is shown again."""
        if fields.get("rater", self.rater) != self.rater:  # another rater's link was opened in this browser since
            return message_page("Not saved: this browser now belongs to another rater. Open your own link again.", 409)
        number = self._number(item)
        entry = self.items[number]
        words = page_texts(page_language(entry, language), entry.languages)
        chosen = {name: int(value) for name, value in fields.items() if re.fullmatch("[0-9]", value)}
        comment = fields.get("comment", "").strip()
        try:
            score = _score(entry, self.rater, chosen, comment)
        except ValidationError:
            missing = entry.by_dimensions and not chosen.keys() >= DIMENSIONS.keys()
            message = missing_dimensions(entry, chosen, language) if missing else words.refused
            return self._again(number, 400, Draft(chosen, comment, message), language)
        try:
            agreed = self.disputes is not None
            record = AgreedScore.model_validate(score.model_dump()) if agreed else score
            add_scores(self.run, [record], replace="replaces" in fields, agreed=agreed)
        except (InputError, OSError) as error:
            existing = self.scores().get(entry.item.key)
            if existing is not None and not same(existing, score):  # saved in another window; this page showed no score
                return self._again(number, 409, Draft(None, comment, words.changed), language)
            notify(f"error: {error}")
            return self._again(number, 500, Draft(chosen, comment, words.not_saved), language)
        self.saved_at.append(time.monotonic())
        following = self._first_open(number + 1)
        return RedirectResponse(f"/answer/{following}?saved={item}" if following else "/", 303)

    def _again(self, number: int, status: int, draft: Draft, language: str | None) -> Response:
        view = View(draft=draft, language=language, others=self._others(number))
        return HTMLResponse(answer_page(self.items, number, self.rater, self.scores(), view), status)

    def _others(self, number: int) -> Sequence[PhysicianScore]:
        """The scores of others that the rater sees."""
        return (self.disputes or {}).get(self.items[number].item.key, ())

    def _number(self, item: str) -> int:
        if item not in self.numbers:
            raise HTTPException(404)
        return self.numbers[item]

    def _first_open(self, start: int = 0) -> str | None:
        """The first answer without a score, from `start` on and then from the top."""
        scores = self.scores()
        order = [*self.items[start:], *self.items[:start]]
        return next((entry.item.id for entry in order if entry.item.key not in scores), None)


def _own(request: Request) -> _Pages:
    """The pages of the rater who sent a request."""
    pages: _Pages = request.app.state.pages[request.state.rater]
    return pages


_OwnPages = Annotated[_Pages, Depends(_own)]


def _language(request: Request) -> str | None:
    return request.cookies.get(LANGUAGE_COOKIE)


_Language = Annotated[str | None, Depends(_language)]


def _start(pages: _OwnPages, language: _Language) -> Any:
    return pages.start(language)


def _show(pages: _OwnPages, language: _Language, item: str, saved: str = "") -> str:
    return pages.show(item, saved, language)


def _skip(pages: _OwnPages, item: str) -> Response:
    return pages.skip(item)


def _save(pages: _OwnPages, language: _Language, item: str, fields: Annotated[dict[str, str], Depends(_fields)]) -> Any:
    return pages.save(item, fields, language)


def seconds_left(saved_at: Sequence[float], open_answers: int) -> float | None:
    """How long a rater will take for the open answers.

    Args:
        saved_at: When the rater saved scores, in seconds of any clock, ascending.

    Returns:
        The median time between the last saves, breaks aside, for each open answer; None before four saves.
    """
    paces = [later - earlier for earlier, later in pairwise(saved_at[-30:]) if later - earlier < _BREAK_SECONDS]
    return median(paces) * open_answers if len(paces) >= 3 and open_answers else None


def _not_found(request: Request, error: Exception) -> Response:
    return message_page("There is nothing here.", 404)


def _unreadable(request: Request, error: Exception) -> Response:
    notify(f"error: {error}")  # not on the page: it may name models
    return message_page("The run could not be read. The terminal where medjudge runs shows the reason.", 500)


def _score(entry: ToScore, rater: str, chosen: Mapping[str, int], comment: str) -> PhysicianScore:
    """The form as a record.

    Raises:
        ValidationError: A score is missing, or off its scale.
    """
    if entry.by_dimensions:
        values: dict[str, Any] = {"dimensions": {name: chosen[name] for name in DIMENSIONS if name in chosen}}
    else:
        values = {"score": chosen.get("score")}
    return PhysicianScore(**entry.item.key._asdict(), rater=rater, comment=comment or None, **values)


def scores_of(run: Run, rater: str, agreed: bool = False) -> Callable[[], Mapping[AnswerKey, PhysicianScore]]:
    """A function that returns a rater's scores, and reads their file again only if it changed.

    It reads under a lock, so that several windows and servers of one run see each other's scores and lose none.

    Args:
        agreed: Whether the agreed scores that the rater recorded are meant.
    """
    file = run.adjudicated_file if agreed else run.physicians_file
    state: object = None
    known: dict[AnswerKey, PhysicianScore] = {}

    def scores() -> Mapping[AnswerKey, PhysicianScore]:
        nonlocal state, known
        with scores_lock(run):
            if not file.exists():
                return {}
            stat = file.stat()
            current = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if current != state:
                stored: Sequence[PhysicianScore] = run.adjudicated() if agreed else run.physician_scores()
                known = {score.answer_key: score for score in stored if score.rater == rater}
                state = current
            return known

    return scores
