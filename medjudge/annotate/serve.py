"""A page on loopback on which a physician scores answers: plain HTML forms, one answer a screen, saved at each press.

Whoever has the link may score: a random token in it opens the page and then stays in a cookie. All texts are shown as
text. Neither a model's name nor a judge's score is on the page or in its source.
"""

import re
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, NamedTuple
from urllib.parse import parse_qsl

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup, escape
from pydantic import ValidationError

from medjudge.annotate.add_scores import add_scores, scores_lock
from medjudge.annotate.cells import DIMENSIONS
from medjudge.annotate.items import ToScore, to_score
from medjudge.annotate.plan import Plan
from medjudge.annotate.wording import form_texts, page_texts
from medjudge.errors import InputError
from medjudge.records import CATEGORIES, AnswerKey, Language, PhysicianScore
from medjudge.rubrics.render import standard
from medjudge.scale import USABLE_FROM
from medjudge.store import Run

HOST = "127.0.0.1"
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# Characters that a browser does not show but obeys: C0 and C1 controls, and those that turn the direction of text,
# with which "50 mg" can be made to look like "05 mg".
_UNSEEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff]")


class Progress(NamedTuple):
    """How many of a category's answers have the rater's score."""

    category: str
    done: int
    total: int


class Dimension(NamedTuple):
    """One of the five dimensions of a generated text: 0 to `high`."""

    field: str
    name: str
    meaning: str
    high: int


class Rubric(NamedTuple):
    """What the levels mean in one category: the judge's own standard."""

    note: str
    levels: list[tuple[str, str]]


def app(run: Run, plan: Plan, rater: str, token: str) -> FastAPI:
    """The page of one rater.

    The scores file is read anew whenever it changed, and read and written under a lock, so that several windows, and
    servers, of one run see each other's scores and lose none.

    Args:
        run: Where the questions and answers are, and the scores go.
        plan: Which answers, in which order.
        rater: One of the plan's raters.
        token: What the link must carry.

    Raises:
        InputError: The plan and the run do not fit.
    """
    screens = to_score(run, plan, rater)
    numbers = {screen.item.id: number for number, screen in enumerate(screens)}
    scores = scores_of(run, rater)
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    server.mount("/static", StaticFiles(packages=[("medjudge.annotate", "page/static")]))

    def number_of(item: str) -> int:
        if item not in numbers:
            raise HTTPException(404)
        return numbers[item]

    def first_open(start: int = 0) -> str | None:
        """The first answer without a score, from this one on and then from the top."""
        done = scores()
        around = [*screens[start:], *screens[:start]]
        return next((screen.item.id for screen in around if screen.item.key not in done), None)

    def screen(
        number: int, saved: str = "", message: str = "", chosen: Mapping[str, int] | None = None, comment: str = ""
    ) -> str:
        """A screen; `chosen` and `comment` are what was sent and could not be saved."""
        one = screens[number]
        done = scores()
        score = done.get(one.item.key)
        words = page_texts(one.question.language)
        return _page("screen.html").render(
            words=words,
            rater=rater,
            item=one.item.id,
            number=number + 1,
            total=len(screens),
            done=len([1 for other in screens if other.item.key in done]),
            progress=_progress(screens, done),
            question=one.question,
            earlier=one.earlier,
            answer=one.answer,
            rubric=_rubric(one.question.category, one.question.language),
            dimensions=_dimensions(one.question.language) if one.question.category == "MTG" else None,
            steps=form_texts(one.question.language).steps,
            usable_from=USABLE_FROM,
            score=score,
            chosen=_chosen(one, score) if chosen is None else chosen,
            comment=comment or (score.comment if score else None) or "",
            back=screens[number - 1].item.id if number else None,
            forward=screens[number + 1].item.id if number + 1 < len(screens) else None,
            saved={"item": saved, "number": numbers[saved] + 1} if saved in numbers else None,
            message=message,
        )

    @server.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        response = await call_next(request) if (refusal := _refusal(request, token)) is None else refusal
        response.headers.update(_HEADERS)
        return response

    @server.exception_handler(404)
    def nothing_here(request: Request, error: Exception) -> Response:
        return _message("There is nothing here.", 404)

    @server.exception_handler(InputError)
    def unreadable(request: Request, error: InputError) -> Response:
        print(f"error: {error}", file=sys.stderr)  # it may name models
        return _message("The run could not be read. The reason stands in the terminal where medjudge runs.", 500)

    @server.get("/", response_class=HTMLResponse)
    def start() -> Any:
        item = first_open()
        if item is not None:
            return RedirectResponse(f"/answer/{item}", 303)
        return _page("end.html").render(
            words=page_texts(screens[0].question.language),
            rater=rater,
            total=len(screens),
            progress=_progress(screens, scores()),
            command=f"medjudge validate {run.path} --judge JUDGE",
            review=screens[0].item.id,
        )

    @server.get("/answer/{item}", response_class=HTMLResponse)
    def show(item: str, saved: str = "") -> str:
        return screen(number_of(item), saved)

    @server.get("/next/{item}")
    def skip(item: str) -> Response:
        following = first_open(number_of(item) + 1)
        return RedirectResponse(f"/answer/{following}" if following else "/", 303)

    @server.post("/answer/{item}", response_class=HTMLResponse)
    def save(item: str, fields: Annotated[dict[str, str], Depends(_fields)]) -> Any:
        number = number_of(item)
        one = screens[number]
        words = page_texts(one.question.language)
        chosen = {name: int(value) for name, value in fields.items() if re.fullmatch("[0-9]", value)}
        comment = fields.get("comment", "").strip()
        try:
            score = _score(one, rater, chosen, comment)
        except ValidationError:
            wrong = words.missing_dimensions if one.question.category == "MTG" else words.refused
            return HTMLResponse(screen(number, message=wrong, chosen=chosen, comment=comment), 400)
        try:
            add_scores(run, [score], replace="replaces" in fields)
        except (InputError, OSError) as error:
            there = scores().get(one.item.key)
            if there is not None and there != score:  # another window was faster; the page showed no score
                return HTMLResponse(screen(number, message=words.changed, comment=comment), 409)
            print(f"error: {error}", file=sys.stderr)
            return HTMLResponse(screen(number, message=words.not_saved, chosen=chosen, comment=comment), 500)
        following = first_open(number + 1)
        return RedirectResponse(f"/answer/{following}?saved={item}" if following else "/", 303)

    return server


def _refusal(request: Request, token: str) -> Response | None:
    """Why this request is not served, or None: wrong host, no token, or sent by a page of another origin."""
    host = request.headers.get("host", "")
    if not re.fullmatch(r"(127\.0\.0\.1|localhost)(:\d+)?", host):  # a name that someone pointed here (DNS rebinding)
        return _message("This page is served to this machine only.", 403)
    cookie = f"medjudge-{sha256(token.encode()).hexdigest()[:8]}"  # one a server: cookies know no ports
    given = request.query_params.get("token") if request.url.path == "/" else None
    if given is not None and request.method == "GET" and _same(given, token):
        # A page that goes on by itself, not a redirect: a browser that came from elsewhere would not yet send a
        # SameSite=Strict cookie with the redirected request.
        response = _message("Opening the answers.", 200, go_on=True)
        response.set_cookie(cookie, token, httponly=True, samesite="strict")
        return response
    if given is not None or not _same(request.cookies.get(cookie, ""), token):
        return _message("Open the link that `medjudge annotate serve` printed: it carries the token.", 403)
    if request.method not in ("GET", "HEAD"):
        # Under no-referrer a form sends `Origin: null`; browsers then tell by Sec-Fetch-Site where it comes from.
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin != f"http://{host}" and not (origin in (None, "null") and site == "same-origin"):
            return _message("Scores are taken from this page only.", 403)
    return None


def _same(given: str, token: str) -> bool:
    return secrets.compare_digest(given.encode(), token.encode())


async def _fields(request: Request) -> dict[str, str]:
    """A posted form; line ends in it are as a browser sends them."""
    body = (await request.body()).decode("ascii", "replace")
    return {name: value.replace("\r\n", "\n") for name, value in parse_qsl(body, keep_blank_values=True)}


def _score(one: ToScore, rater: str, chosen: Mapping[str, int], comment: str) -> PhysicianScore:
    """The form as a record.

    Raises:
        ValidationError: A score is missing, or off its scale.
    """
    if one.question.category == "MTG":
        given: dict[str, Any] = {"dimensions": {name: chosen[name] for name in DIMENSIONS if name in chosen}}
    else:
        given = {"score": chosen.get("score")}
    return PhysicianScore(**one.item.key._asdict(), rater=rater, comment=comment or None, **given)


def _chosen(one: ToScore, score: PhysicianScore | None) -> dict[str, int]:
    """What the form shows as chosen; a generated text that was scored elsewhere may have a level only."""
    if score is None:
        return {}
    if one.question.category == "MTG":
        return score.dimensions.model_dump() if score.dimensions else {}
    return {"score": score.level}


def scores_of(run: Run, rater: str) -> Callable[[], dict[AnswerKey, PhysicianScore]]:
    """A function that reads a rater's scores: whole files only, and again only where the file changed."""
    state: object = None
    known: dict[AnswerKey, PhysicianScore] = {}

    def scores() -> dict[AnswerKey, PhysicianScore]:
        nonlocal state, known
        with scores_lock(run):
            if not run.physicians_file.exists():
                return {}
            about = run.physicians_file.stat()
            now = (about.st_ino, about.st_mtime_ns, about.st_size)
            if now != state:
                known = {one.answer_key: one for one in run.physician_scores() if one.rater == rater}
                state = now
            return known

    return scores


def _progress(screens: Sequence[ToScore], done: Mapping[AnswerKey, PhysicianScore]) -> list[Progress]:
    progress = []
    for category in CATEGORIES:
        keys = [one.item.key for one in screens if one.question.category == category]
        if keys:
            progress.append(Progress(category, len([key for key in keys if key in done]), len(keys)))
    return progress


def _literal(text: str) -> Markup:
    """A text as HTML that shows it and nothing else; characters that would act unseen stand there by their number."""
    plain = str(escape(text.replace("\r\n", "\n").replace("\r", "\n")))
    return Markup(_UNSEEN.sub(lambda match: f'<span class="unseen">U+{ord(match[0]):04X}</span>', plain))


def _message(text: str, status: int, go_on: bool = False) -> HTMLResponse:
    return HTMLResponse(_page("message.html").render(message=text, go_on=go_on), status)


@cache
def _pages() -> Environment:
    loader = PackageLoader("medjudge.annotate", "page")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["literal"] = _literal
    return environment


def _page(name: str) -> Template:
    return _pages().get_template(name)


def _dimensions(language: Language) -> list[Dimension]:
    texts = form_texts(language).dimensions
    return [Dimension(name, texts[name].name, texts[name].meaning, high) for name, high in DIMENSIONS.items()]


def _rubric(category: str, language: str) -> Rubric:
    body = standard(category, language)[1]
    note = " ".join(line for line in body.splitlines() if line and not line.startswith("- "))
    return Rubric(note, re.findall(r"^- ([1-5])(?:分：|: )(.+)$", body, re.MULTILINE))
