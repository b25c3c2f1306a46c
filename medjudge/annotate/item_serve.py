"""Pages on which physicians mark the items of an answer: one answer per screen, saved at once."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles

from medjudge.annotate.access import HEADERS, LANGUAGE_COOKIE, Access, refusal, switch_language
from medjudge.annotate.item_intake import add_items
from medjudge.annotate.item_plan import CHOICES, AnswerToMark, ItemChoice, ItemPlan, answers_to_mark, item_form_texts
from medjudge.annotate.rendering import message_page, page_template
from medjudge.annotate.wording import page_texts
from medjudge.errors import InputError, notify
from medjudge.store import Run

_KEYS: dict[str, ItemChoice] = {str(key): choice for key, choice in enumerate(CHOICES, 1)}


def item_app(run: Run, plan: ItemPlan, access: Access) -> FastAPI:
    """The pages of the raters who have a link.

    Args:
        plan: Which answers, in which order.
        access: Links to raters of the plan, and the addresses of the server.

    Raises:
        InputError: The plan does not match the run.
    """
    listed = answers_to_mark(run, plan)
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server.state.pages = {rater: _ItemPages(run, rater, listed[rater]) for rater in access.raters.values()}
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


class _ItemPages:
    """A rater's pages: what each request is answered with."""

    def __init__(self, run: Run, rater: str, listed: Sequence[AnswerToMark]) -> None:
        self.run = run
        self.rater = rater
        self.listed = listed
        self.numbers = {entry.answer.id: number for number, entry in enumerate(listed)}

    def marked(self) -> dict[str, dict[int, ItemChoice]]:
        """The rater's verdicts so far: answer id -> place of the item -> verdict."""
        own = {score.key: score.verdict for score in self.run.item_scores() if score.rater == self.rater}
        return {
            entry.answer.id: {
                place: own[key]
                for place, item in enumerate(entry.items)
                if (key := (*entry.answer.key, self.rater, item.text)) in own
            }
            for entry in self.listed
        }

    def start(self) -> Any:
        """The first open answer, or a closing line."""
        item = self._first_open()
        if item is not None:
            return RedirectResponse(f"/answer/{item}", 303)
        return message_page(
            f"The items of all {len(self.listed)} answers are marked and saved. 全部已核对并保存。", 200
        )

    def show(
        self, item: str, language: str | None, message: str = "", chosen: Mapping[int, ItemChoice] | None = None
    ) -> str:
        """One answer with its items."""
        number = self._number(item)
        entry, marked = self.listed[number], self.marked()
        codes = [code for code in ("en", "zh") if code in entry.languages.codes("item_form.yaml")]
        shown = language if language in codes else entry.question.language
        return page_template("items.html").render(
            form=item_form_texts(shown, entry.languages),
            words=page_texts(shown, entry.languages),
            text_language=page_texts(entry.question.language, entry.languages).lang,
            switches=[(code, page_texts(code, entry.languages)) for code in codes if code != shown],
            texts=entry.texts,
            items=[one.text for one in entry.items],
            choices=list(_KEYS.items()),
            chosen=marked[item] if chosen is None else chosen,
            rater=self.rater,
            item=item,
            replaces=bool(marked[item]),
            number=number + 1,
            total=len(self.listed),
            done=sum(len(marked[one.answer.id]) == len(one.items) for one in self.listed),
            message=message,
            back=self.listed[number - 1].answer.id if number else None,
            forward=self.listed[number + 1].answer.id if number + 1 < len(self.listed) else None,
        )

    def save(self, item: str, fields: Mapping[str, str], language: str | None) -> Any:
        """Saves the verdicts on all items of an answer and goes on to the next open one."""
        if fields.get("rater", self.rater) != self.rater:  # another rater's link was opened in this browser since
            return message_page("Not saved: this browser now belongs to another rater. Open your own link again.", 409)
        number = self._number(item)
        entry = self.listed[number]
        shown = language or entry.question.language
        words, form = page_texts(shown, entry.languages), item_form_texts(shown, entry.languages)
        chosen = {
            place: _KEYS[value] for place in range(len(entry.items)) if (value := fields.get(f"item-{place}")) in _KEYS
        }
        missing = [form.item.format(number=place + 1) for place in range(len(entry.items)) if place not in chosen]
        if missing:
            return HTMLResponse(self.show(item, language, form.missing.format(names=", ".join(missing)), chosen), 400)
        known = self.marked()[item]
        if known and "replaces" not in fields and known != chosen:  # saved in another window
            return HTMLResponse(self.show(item, language, words.changed), 409)
        scores = entry.records(self.rater, chosen)
        try:
            add_items(self.run, () if known else scores, scores if known else ())
        except (InputError, OSError) as error:
            notify(f"error: {error}")
            return HTMLResponse(self.show(item, language, words.not_saved, chosen), 500)
        following = self._first_open(number + 1)
        return RedirectResponse(f"/answer/{following}" if following else "/", 303)

    def _number(self, item: str) -> int:
        if item not in self.numbers:
            raise HTTPException(404)
        return self.numbers[item]

    def _first_open(self, start: int = 0) -> str | None:
        marked = self.marked()
        order = [*self.listed[start:], *self.listed[:start]]
        return next((one.answer.id for one in order if len(marked[one.answer.id]) < len(one.items)), None)


def _own(request: Request) -> _ItemPages:
    pages: _ItemPages = request.app.state.pages[request.state.rater]
    return pages


def _language(request: Request) -> str | None:
    chosen = request.cookies.get(LANGUAGE_COOKIE)
    return chosen if chosen in ("en", "zh") else None


async def _fields(request: Request) -> dict[str, str]:
    body = (await request.body()).decode("ascii", "replace")
    return dict(parse_qsl(body, keep_blank_values=True))


_OwnPages = Annotated[_ItemPages, Depends(_own)]
_Language = Annotated[str | None, Depends(_language)]


def _start(pages: _OwnPages) -> Any:
    return pages.start()


def _show(pages: _OwnPages, language: _Language, item: str) -> str:
    return pages.show(item, language)


def _save(pages: _OwnPages, language: _Language, item: str, fields: Annotated[dict[str, str], Depends(_fields)]) -> Any:
    return pages.save(item, fields, language)
