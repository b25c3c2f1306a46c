"""Pages on which physicians compare pairs of answers: A and B without names, one pair per screen, saved at once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles

from medjudge.annotate.access import HEADERS, LANGUAGE_COOKIE, Access, refusal, switch_language
from medjudge.annotate.pair_intake import add_pairs
from medjudge.annotate.pair_plan import PairPlan, PairToCompare, pair_texts, pairs_to_compare
from medjudge.annotate.rendering import message_page, page_template
from medjudge.annotate.wording import page_texts
from medjudge.errors import InputError, notify
from medjudge.judge.pairs import physician_pairs
from medjudge.pair_records import PhysicianPair, Preferred
from medjudge.store import Run

_CHOICES: tuple[tuple[str, Preferred], ...] = (("1", "first"), ("2", "tie"), ("3", "second"))
"""The keys and what they choose, from left to right."""


def pair_app(run: Run, plan: PairPlan, access: Access) -> FastAPI:
    """The pages of the raters who have a link.

    Args:
        plan: Which pairs, in which order.
        access: Links to raters of the plan, and the addresses of the server.

    Raises:
        InputError: The plan does not match the run.
    """
    items = pairs_to_compare(run, plan)
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server.state.pages = {rater: _PairPages(run, rater, items[rater]) for rater in access.raters.values()}
    server.mount("/static", StaticFiles(packages=[("medjudge.annotate", "page/static")]))

    @server.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = refusal(request, access) or await call_next(request)
        response.headers.update(HEADERS)
        return response

    server.add_exception_handler(404, lambda request, error: message_page("There is nothing here.", 404))
    server.get("/", response_class=HTMLResponse)(_start)
    server.get("/answer/{item}", response_class=HTMLResponse)(_show)
    server.get("/language/{language}/{item}")(switch_language)
    server.post("/answer/{item}", response_class=HTMLResponse)(_save)
    return server


class _PairPages:
    """A rater's pages: what each request is answered with."""

    def __init__(self, run: Run, rater: str, items: Sequence[PairToCompare]) -> None:
        self.run = run
        self.rater = rater
        self.items = items
        self.numbers = {entry.item.id: number for number, entry in enumerate(items)}

    def compared(self) -> dict[str, PhysicianPair]:
        """The rater's pairs so far, by item id."""
        own = {pair.pair_key: pair for pair in physician_pairs(self.run) if pair.rater == self.rater}
        keys = {entry.item.id: entry.record(self.rater, "tie", None).pair_key for entry in self.items}
        return {item: own[key] for item, key in keys.items() if key in own}

    def start(self) -> Any:
        """The first open pair, or a closing line."""
        item = self._first_open()
        if item is not None:
            return RedirectResponse(f"/answer/{item}", 303)
        return message_page(f"All {len(self.items)} pairs are compared and saved. 全部已比较并保存。", 200)

    def show(self, item: str, language: str | None, message: str = "", comment: str | None = None) -> str:
        """One pair."""
        number = self._number(item)
        entry, compared = self.items[number], self.compared()
        codes = [code for code in ("en", "zh") if code in entry.languages.codes("pair_form.yaml")]
        shown = language if language in codes else entry.question.language
        pair = compared.get(item)
        if pair is not None and pair.first != entry.item.first:  # the record has the answers the other way round
            other: dict[Preferred, Preferred] = {"first": "second", "second": "first", "tie": "tie"}
            pair = pair.model_copy(update={"preferred": other[pair.preferred]})
        return page_template("pair.html").render(
            form=pair_texts(shown, entry.languages),
            words=page_texts(shown, entry.languages),
            text_language=page_texts(entry.question.language, entry.languages).lang,
            switches=[(code, page_texts(code, entry.languages)) for code in codes if code != shown],
            texts=entry.texts,
            choices=_CHOICES,
            rater=self.rater,
            item=item,
            pair=pair,
            comment=(pair.comment if pair and pair.comment else "") if comment is None else comment,
            number=number + 1,
            total=len(self.items),
            done=len(compared),
            message=message,
            back=self.items[number - 1].item.id if number else None,
            forward=self.items[number + 1].item.id if number + 1 < len(self.items) else None,
        )

    def save(self, item: str, fields: Mapping[str, str], language: str | None) -> Any:
        """Saves a preference and goes on to the next open pair."""
        if fields.get("rater", self.rater) != self.rater:  # another rater's link was opened in this browser since
            return message_page("Not saved: this browser now belongs to another rater. Open your own link again.", 409)
        number = self._number(item)
        entry, comment = self.items[number], fields.get("comment", "").strip()
        words = page_texts(language or entry.question.language, entry.languages)
        preferred = dict(_CHOICES).get(fields.get("score", ""))
        if preferred is None:
            return HTMLResponse(self.show(item, language, words.refused, comment), 400)
        pair, known = entry.record(self.rater, preferred, comment or None), self.compared().get(item)
        if known is not None and "replaces" not in fields and known != pair:  # saved in another window
            return HTMLResponse(self.show(item, language, words.changed, comment), 409)
        try:
            add_pairs(self.run, () if known else (pair,), (pair,) if known else ())
        except (InputError, OSError) as error:
            notify(f"error: {error}")
            return HTMLResponse(self.show(item, language, words.not_saved, comment), 500)
        following = self._first_open(number + 1)
        return RedirectResponse(f"/answer/{following}" if following else "/", 303)

    def _number(self, item: str) -> int:
        if item not in self.numbers:
            raise HTTPException(404)
        return self.numbers[item]

    def _first_open(self, start: int = 0) -> str | None:
        compared = self.compared()
        order = [*self.items[start:], *self.items[:start]]
        return next((entry.item.id for entry in order if entry.item.id not in compared), None)


def _own(request: Request) -> _PairPages:
    pages: _PairPages = request.app.state.pages[request.state.rater]
    return pages


def _language(request: Request) -> str | None:
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    return chosen if chosen in ("en", "zh") else None


async def _fields(request: Request) -> dict[str, str]:
    body = (await request.body()).decode("ascii", "replace")
    return {name: value.replace("\r\n", "\n") for name, value in parse_qsl(body, keep_blank_values=True)}


_OwnPages = Annotated[_PairPages, Depends(_own)]
_Language = Annotated[str | None, Depends(_language)]


def _start(pages: _OwnPages) -> Any:
    return pages.start()


def _show(pages: _OwnPages, language: _Language, item: str) -> str:
    return pages.show(item, language)


def _save(pages: _OwnPages, language: _Language, item: str, fields: Annotated[dict[str, str], Depends(_fields)]) -> Any:
    return pages.save(item, fields, language)
