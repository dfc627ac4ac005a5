"""The web app of a review: which address is answered by what."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from icelens.auditing.report.foreign import one_line
from icelens.errors import FileError, IcelensError, IndexRangeError, InputError, MissingFileError
from icelens.review import images, pages, shown
from icelens.review.asked import Asked, asked_of, number_of, numbers_of
from icelens.review.desk import Desk
from icelens.review.records import Verdict
from icelens.review.security import Door, Guard
from icelens.review.store import Store
from icelens.review.teaching import Teacher
from icelens.review.told import Teller

FIELDS = 20  # of a form

Told = dict[str, Any]


class Review:
    """The answers to requests; each is made in a thread of the desk."""

    def __init__(self, desk: Desk) -> None:
        self.desk, self.teller = desk, Teller()
        self.teacher = Teacher(desk.folder, self.teller)

    # Reading

    async def list(self, request: Request) -> Response:
        """A page of the list."""
        asked, after, order = self._asked(request), self._number(request, "after"), self._order(request)
        return HTMLResponse(
            await self.desk.read(
                lambda store: pages.list_page(
                    self.desk, store, asked, after=after, order=order, progress=self.teller.told(store)
                )
            )
        )

    async def more(self, request: Request) -> Response:
        """The examples of a further page, without the page."""
        asked, after, order = self._asked(request), self._number(request, "after"), self._order(request)
        context = await self.desk.read(
            lambda store: pages.list_part(self.desk, store, asked, after=after, order=order)
        )
        return HTMLResponse(pages.render("more.html", context), headers={"x-more": context["more"]})

    async def counts(self, request: Request) -> Response:
        """How many examples of a list are reviewed by now, in words."""
        asked = self._asked(request)
        return PlainTextResponse(await self.desk.read(lambda store: pages.counts_of(store, asked)))

    async def example(self, request: Request) -> Response:
        """One example."""
        index, asked = number_of(request.path_params["index"], self._end), self._asked(request)
        is_part, trail = "part" in request.query_params, self._trail(request.query_params)
        return await self.desk.read(lambda store: self._single(store, asked, index, trail, is_part=is_part))

    async def next(self, request: Request) -> Response:
        """The next example, or a page that says that none is left."""
        given, asked = request.query_params, self._asked(request)
        here, order, trail = self._number(request, "from"), self._order(request), self._trail(given)
        passed = {name: numbers_of(numbers, self._end) for name, numbers in trail.items()}

        def work(store: Store) -> Response:
            found = pages.following(store, asked, here, order=order, **passed)
            if "part" in given or found is None:
                index = found.index if found else None
                return self._single(store, asked, index, trail, is_part="part" in given)
            return RedirectResponse(_address(f"/example/{found.index}", asked, trail), 303)

        return await self.desk.read(work)

    def _single(
        self, store: Store, asked: Asked, index: int | None, trail: dict[str, str], *, is_part: bool
    ) -> Response:
        example = None if index is None else store.example(index)
        context = pages.single(self.desk, store, asked, example, trail)
        if is_part:
            return HTMLResponse(pages.render("suspect.html" if example else "done.html", context))
        return HTMLResponse(pages.render("single.html", {**context, "progress": self.teller.told(store)}))

    async def image(self, request: Request) -> Response:
        """The picture of an example, encoded anew; nothing but its number says which."""
        index, size = number_of(request.path_params["index"], self._end), request.path_params["size"]
        if size not in images.SIDES or index is None:
            raise HTTPException(404)

        def work(store: Store) -> tuple[bytes, str]:
            source = store.image(index)
            if source is None:
                raise MissingFileError("no picture of this example was kept")
            return images.picture(source, size)

        try:
            content, media = await self.desk.draw(work)
        except (FileError, MissingFileError):  # whose words hold paths of this machine
            return PlainTextResponse("This picture cannot be shown.\n", 404)
        # The address names the review, so what a browser keeps is never taken for that of another.
        return Response(content, media_type=media, headers={"cache-control": "private, max-age=86400"})

    async def classes(self, request: Request) -> Response:
        """The names of all classes, for completion, and the digits that stand for them."""
        store = self.desk.store
        named = [[code, one_line(name, 200)] for code, name in enumerate(store.classes)]
        return JSONResponse({"classes": named, "keys": shown.digits(store.classes)})

    async def asset(self, request: Request) -> Response:
        """A file of the app itself."""
        name = request.path_params["name"]
        if name not in pages.ASSETS:
            raise HTTPException(404)
        return Response(pages.asset(name), headers={"content-type": pages.ASSETS[name]})

    # Changing

    async def verdict(self, request: Request) -> Response:
        """Store a verdict and say what now stands."""
        fields = await self._fields(request)
        index = number_of(fields.get("index", ""), self._end)
        if index is None:
            raise IndexRangeError("a verdict needs the index of its example")
        back = self._behind(index, fields)

        def work(store: Store) -> Told:
            example = store.example(index)
            name, label, new = pages.chosen_label(store, example, fields)
            given = store.judge(
                index, name, label=label, who=self.desk.who, key=fields.get("key", ""), new_class=new
            )
            return self._told(store, index, shown.saved(example, given))

        told = await self.desk.write(work)
        self.teacher.learn()
        return self._answer(request, told, back)

    async def undo(self, request: Request) -> Response:
        """Take the last verdict back and say what now stands."""
        fields = await self._fields(request)

        def work(store: Store) -> Told:
            taken = store.undo(who=self.desk.who, key=fields.get("key", ""), of=fields.get("of"))
            if taken is None:
                return self._told(store, None, "There is no verdict to undo.")
            name = one_line(store.example(taken.index).id, 60)
            return self._told(store, taken.index, f"Undone: the verdict on {name} is taken back.")

        told = await self.desk.write(work)
        self.teacher.learn()
        return self._answer(request, told, "/" if told["index"] is None else f"/example/{told['index']}")

    def _told(self, store: Store, index: int | None, said: str) -> Told:
        stands: Verdict | None = None if index is None else store.example(index).verdict
        progress = self.teller.told(store) if index is None else self.teller.told_after(store, index, stands)
        return {"index": index, "verdict": stands.verdict if stands else "", "badge": shown.badge(stands),
                "said": said, "progress": progress}  # fmt: skip

    async def _fields(self, request: Request) -> dict[str, str]:
        body = (await request.body()).decode("utf-8", "replace")
        fields = _pairs(body)
        if fields.get("run") != self.desk.run:
            raise HTTPException(409, "this page belongs to another review than the one that runs now")
        return fields

    @staticmethod
    def _answer(request: Request, told: Told, back: str) -> Response:
        wants_json = "application/json" in request.headers.get("accept", "")
        return JSONResponse(told) if wants_json else RedirectResponse(back, 303)

    # What addresses and forms hold

    def _behind(self, index: int, fields: dict[str, str]) -> str:
        """Where a form goes on that the page's script did not send; it is told what the script would tell."""
        if fields.get("back") == "list":
            return "/"
        asked = asked_of(_pairs(fields.get("filters", "")), self.desk.store.classes)
        order = _order_of(fields.get("order", ""))
        trail = {name: pages.added(numbers, index) for name, numbers in self._trail(fields).items()}
        here = {"from": str(index), "order": "" if order is None else str(order)}
        return _address("/next", asked, {**here, **trail})

    @property
    def _end(self) -> int:
        return len(self.desk.store)

    def _asked(self, request: Request) -> Asked:
        return asked_of(request.query_params, self.desk.store.classes)

    def _number(self, request: Request, name: str) -> int | None:
        return number_of(request.query_params.get(name, ""), self._end)

    @staticmethod
    def _order(request: Request) -> int | None:
        return _order_of(request.query_params.get("order", ""))

    def _trail(self, given: Mapping[str, str]) -> dict[str, str]:
        """What was seen and what was judged before, the newest last, as numbers between commas."""
        trail = {name: given.get(name, "") for name in ("seen", "judged")}
        for numbers in trail.values():
            numbers_of(numbers, self._end)  # raises where they are none
        return trail


def _order_of(text: str) -> int | None:
    """The order of the list that a page was made with."""
    return number_of(text, 10**9)


def _address(path: str, asked: Asked, told: Mapping[str, str]) -> str:
    """Where the page with these filters is, with what else it is told."""
    known = urlencode({name: value for name, value in told.items() if value}, safe=",")
    query = "&".join(part for part in (known, asked.query) if part)
    return f"{path}?{query}" if query else path


def _pairs(text: str) -> dict[str, str]:
    """The fields of a form, or of the address that it holds."""
    try:
        return dict(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS))
    except ValueError:
        raise InputError(f"a form holds at most {FIELDS} fields") from None


def create_app(desk: Desk, door: Door) -> ASGIApp:
    """The app behind its guard."""
    review = Review(desk)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await desk.read(review.teller.look)
        review.teacher.learn(at_once=True)
        yield
        review.teacher.close()
        desk.close()

    routes = [
        Route("/", review.list),
        Route("/list", review.more),
        Route("/counts", review.counts),
        Route("/next", review.next),
        Route("/example/{index}", review.example),
        Route("/image/{index}/{size}", review.image),
        Route("/classes.json", review.classes),
        Route("/static/{name}", review.asset),
        Route("/verdict", review.verdict, methods=["POST"]),
        Route("/undo", review.undo, methods=["POST"]),
    ]
    handlers: Any = {IcelensError: _told_wrong, HTTPException: _refused}
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers), door)


async def _told_wrong(_: Request, error: Exception) -> Response:
    """An error in plain words."""
    if isinstance(error, IndexRangeError | MissingFileError):
        return PlainTextResponse(f"{error}\n", 404)
    # What cannot be stored now may be later, and is sent again; what was asked wrongly is not.
    return PlainTextResponse(f"{error}\n", 503 if isinstance(error, FileError) else 422)


async def _refused(_: Request, error: Exception) -> Response:
    status, why = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "error")
    return PlainTextResponse(f"{why}\n", status)
