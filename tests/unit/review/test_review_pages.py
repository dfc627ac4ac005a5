"""What the pages of a review say and ask, without a server."""

import asyncio
import html
import math
import re
from contextlib import closing
from urllib.parse import parse_qsl, urlencode

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from review_stores import labelled, opened
from starlette.requests import Request

from icelens.errors import InputError
from icelens.review import pages
from icelens.review.app import Review
from icelens.review.asked import asked_of, choices, number_of, numbers_of
from icelens.review.contents import contents_of
from icelens.review.desk import Desk
from icelens.review.filters import Filters
from icelens.review.images import picture
from icelens.review.records import Content, Example, Progress, Verdict, content_of
from icelens.review.rerank import Left, Reranked
from icelens.review.security import Door
from icelens.review.shown import class_rows, digits, item, saved
from icelens.review.teaching import worth
from icelens.review.told import sentence

CLASSES = ("cat", "dog", "a\nb")


def example(**changes):
    plain = {
        "index": 7, "id": "x7", "label": "cat", "guess": "dog", "trust": 0.02, "confidence": 0.1,
        "p_label": 0.03, "p_guess": 0.9, "kind": "mislabelled", "is_issue": True, "rank": 0,
        "content": Content(texts=("meow",)),
    }  # fmt: skip
    return Example(**{**plain, **changes})


def test_filters_go_to_an_address_and_back():
    asked = asked_of(
        {"q": " two words ", "label": "2", "guess": "0", "kind": "ambiguous", "state": "all"}, CLASSES
    )
    assert (asked.filters.label, asked.filters.guess, asked.filters.query) == ("a\nb", "cat", "two words")
    assert asked_of(dict(parse_qsl(asked.query)), CLASSES) == asked
    assert "\n" not in asked.said
    plain = asked_of({"q": "", "label": "", "unknown": "x"}, CLASSES)
    assert (plain.query, plain.filters.state, plain.keeps_judged, plain.said) == ("", "open", False, "")


@pytest.mark.parametrize(
    "parameters", [{"label": "3"}, {"label": "-1"}, {"label": "cat"}, {"guess": "1.0"}, {"state": "open; --"},
                   {"kind": "mislabeled"}, {"q": "x" * 201}, {"label": "٣"}]
)  # fmt: skip
def test_an_address_that_asks_wrongly_is_refused(parameters):
    with pytest.raises(InputError):
        asked_of(parameters, CLASSES)


def test_numbers_of_an_address():
    assert number_of("", 3) is None
    assert numbers_of("1,,2,2", 3) == {1, 2}
    for text in ("3", "1,x", ",".join(["1"] * 201), "1" * 13):
        with pytest.raises(InputError):
            numbers_of(text, 3)


def test_menus_of_many_classes_are_bounded_but_hold_the_chosen_one():
    many = tuple(f"c{number}" for number in range(3000))
    offered = choices(asked_of({"label": "2999"}, many), many)
    assert offered["label"][-1] == ("2999", "c2999")
    assert len(offered["label"]) == 502
    assert len(offered["guess"]) == 501


def test_digits_are_the_classes_where_those_are_digits():
    assert digits([str(d) for d in range(10)]) == {str(d): d for d in range(10)}
    assert digits([f"c{d}" for d in range(10)]) == {**{str(d + 1): d for d in range(9)}, "0": 9}
    assert digits([f"c{d}" for d in range(11)]) == {}


def test_rows_of_classes_are_the_likeliest_first_and_hold_label_and_guess():
    names = tuple(f"c{number}" for number in range(50))
    codes = {name: code for code, name in enumerate(names)}
    suspect = example(label="c40", guess="c3", p_label=0.01, p_guess=0.8, top=(("c3", 0.8), ("c9", 0.1)))
    rows = class_rows(suspect, names, codes)
    assert [(row["name"], row["key"]) for row in rows] == [("c3", "1"), ("c9", "2"), ("c40", "3")]
    few = class_rows(example(top=()), CLASSES, {name: code for code, name in enumerate(CLASSES)})
    assert [(row["code"], row["key"], row["p_text"]) for row in few] == [
        (1, "2", "90 %"), (0, "1", "3 %"), (2, "3", "")]  # fmt: skip


def test_an_example_with_nothing_known_of_it_can_be_shown():
    codes = {name: code for code, name in enumerate(CLASSES)}
    blank = example(confidence=None, p_label=None, p_guess=None, trust=math.nan, kind="", content=Content())
    shown = item(blank, codes, "run", whole=True)
    assert (shown["trust"], shown["trust_text"], shown["why"], shown["texts"]) == (0.0, "?", "", [])
    long = item(example(content=Content(texts=("x" * 30_000,))), codes, "run", whole=True)
    assert long["note"] == "The first 20,000 of 30,000 characters."


@pytest.mark.parametrize(("whole", "part"), [(True, "20,000"), (False, "700")])
def test_a_text_of_which_not_all_was_kept_is_said_to_be_cut(whole, part):
    texts = ("short", "y" * 52_531)
    (kept,) = contents_of(labelled("text", [texts], [0]), np.arange(1), np.arange(1)).take(np.arange(1))
    content = content_of("text", (), kept.shown, None, False)
    codes = {name: code for code, name in enumerate(CLASSES)}
    shown = item(example(content=content), codes, "run", whole=whole)
    assert [len(text) for text in shown["texts"]] == [5, 20_000 if whole else 700]
    assert shown["note"] == f"The first {part} of 52,531 characters."


def test_what_is_said_of_a_verdict():
    def said(verdict, label=None):
        return saved(example(), Verdict(1, 7, verdict, label, "ann", ""))

    assert said("keep") == "Saved: x7 keeps the label 'cat'."
    assert said("relabel", "dog") == "Saved: x7 becomes 'dog'."
    assert said("drop") == "Saved: x7 will be dropped."
    assert said("unsure") == "Saved: x7 is left as unsure."


def test_the_rest_of_a_list_that_got_another_order_comes_from_its_top(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "PAGE", 10)
    opened(tmp_path)[0].close()
    with closing(Desk(tmp_path, "ann")) as desk:
        store, asked = desk.store, asked_of({"state": "all"}, desk.store.classes)

        def part(more):
            named = dict(parse_qsl(more))
            numbers = {name: int(named[name]) if name in named else None for name in ("after", "order")}
            found = pages.list_part(desk, store, asked, **numbers)
            return [one["index"] for one in found["items"]], found["more"]

        audited = [one.index for one in store.page(limit=40)]
        shown, more = part("")
        second, third = part(more)
        assert shown + second == audited[:20]
        store.set_order(audited[::-1], [one.trust for one in store.page(limit=40)])
        again, rest = part(third)
        assert again == audited[:29:-1]
        assert part(rest)[0] == audited[29:19:-1]


class Form:
    """The pages as a browser without their script uses them."""

    def __init__(self, desk):
        self.app = Review(desk)

    def open(self, address):
        """The page that an address leads to, as its fields and its link to the next."""
        path, _, query = address.partition("?")
        handler = self.app.next if path == "/next" else self.app.example
        scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": [],
                 "path_params": {"index": path.rpartition("/")[2]}}  # fmt: skip
        answer = asyncio.run(handler(Request(scope)))
        if answer.status_code == 303:
            return self.open(answer.headers["location"])
        page = answer.body.decode()
        hidden = re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page)
        self.fields = {name: html.unescape(value) for name, value in hidden}
        self.onward = html.unescape((re.findall(r'data-act="next" href="([^"]*)"', page) or [""])[0])
        return int(self.fields["index"]) if self.fields else None

    def judge(self, verdict="keep"):
        body = urlencode({**self.fields, "verdict": verdict}).encode()

        async def receive():
            return {"type": "http.request", "body": body, "more_body": False}

        scope = {"type": "http", "method": "POST", "path": "/verdict", "query_string": b"", "headers": []}
        answer = asyncio.run(self.app.verdict(Request(scope, receive)))
        assert answer.status_code == 303
        return self.open(answer.headers["location"])


@pytest.fixture
def form(tmp_path):
    opened(tmp_path)[0].close()
    with closing(Desk(tmp_path, "ann")) as desk:
        yield Form(desk)


def turned(store):
    """The list with its order turned round."""
    listed = store.page(limit=40)
    store.set_order([one.index for one in listed][::-1], [one.trust for one in listed])


def test_forms_without_the_script_follow_a_list_into_its_other_order(form):
    store = form.app.desk.store
    audited = [one.index for one in store.page(limit=40)]
    assert form.open("/next") == audited[0]
    assert form.judge() == audited[1]
    form.open(f"/example/{audited[20]}")
    turned(store)
    assert form.judge() == audited[39]
    assert form.judge() == audited[38]


def test_links_without_the_script_pass_over_what_was_seen_when_the_order_changes(form):
    store = form.app.desk.store
    audited = [one.index for one in store.page(limit=40)]
    form.open("/next")
    assert form.open(form.onward) == audited[1]
    turned(store)
    assert form.open(form.onward) == audited[39]
    turned(store)
    assert form.judge() == audited[2]


@pytest.mark.parametrize("query", ["", "?state=all"])
def test_forms_without_the_script_come_to_an_end(form, query):
    audited = [one.index for one in form.app.desk.store.page(limit=40)]
    shown = [form.open(f"/next{query}")]
    while shown[-1] is not None:
        shown.append(form.judge("unsure"))
    assert shown == [*audited, None]


@pytest.mark.parametrize("wrong", [{"order": "x"}, {"seen": "1;2"}, {"judged": "40"}])
def test_a_form_with_a_trail_that_cannot_be_is_refused_before_its_verdict(form, wrong):
    form.open("/next")
    form.fields |= wrong
    with pytest.raises(InputError):
        form.judge()
    assert form.app.desk.store.history() == []


def test_a_search_is_told_what_it_looks_through(tmp_path):
    """Of a table that is words: numbers are not looked for, as docs/review.md says."""
    table = pd.DataFrame({"age": np.arange(40.0) + 1000, "colour": pd.Categorical(["red", "blue"] * 20)})
    with opened(tmp_path, labelled("table", table, np.arange(40) % 3))[0] as store:
        assert len(store.page(Filters(query="red"))) == len(store.page(Filters(query="id"))) // 2 == 20
        assert store.page(Filters(query="1003")) == []
    assert pages.SEARCHED["table"] == "categories, or an id"


def test_progress_in_words():
    assert sentence(Progress(9000, 0, 0, 0, 0, 9.0), 275.0, 500) == (
        "About 275 wrong labels in the first 500; none reviewed yet.")  # fmt: skip
    assert sentence(Progress(40, 1, 1, 0, 2, 3.0), 3.2, 40) == (
        "4 reviewed, 1 was wrong, 2 unsure, about 3 left in all 40.")  # fmt: skip


def left(examples, errors, low, high):
    return Left(examples, errors, low, high)


def test_when_it_is_no_longer_worth_going_on():
    rest = left(4000, 20.0, 8.0, 44.0)
    said, enough = worth(Reranked([], [], left(100, 2.0, 0.0, 6.0), rest), 200)
    assert enough
    assert said == (
        "It is hardly worth going on. Of the next 100, about 2 are wrong (90 % interval 0 to 6). "
        "Of all 4,000 left: 0.5 % (0.2 % to 1.1 %)."
    )
    for ahead, verdicts in ((left(100, 2.0, 0.0, 12.0), 200), (left(100, 8.0, 3.0, 10.0), 200),
                            (left(100, 2.0, 0.0, 6.0), 5)):  # fmt: skip
        said, enough = worth(Reranked([], [], ahead, rest), verdicts)
        assert not enough
        assert said.startswith("Of the next 100, about ")
    assert worth(Reranked([], [], left(0, 0.0, 0.0, 0.0), left(0, 0.0, 0.0, 0.0)), 3)[1]


def test_which_hosts_name_the_server():
    here, everywhere = Door("127.0.0.1", 8421), Door("0.0.0.0", 8421)
    for host in ("127.0.0.1:8421", "localhost:8421", "[::1]:8421", "LocalHost:8421"):
        assert here.knows(host)
    for host in (
        "",
        ":8421",
        "evil.example:8421",
        "192.168.1.5:8421",
        "127.0.0.1:80",
        "127.0.0.1",
        "[::1]:1",
    ):
        assert not here.knows(host)
    assert everywhere.knows("192.168.1.5:8421")
    assert not everywhere.knows("evil.example:8421")
    assert Door("127.0.0.1", 80).knows("127.0.0.1")
    assert Door("127.0.0.1", 80).knows("[::1]")
    assert here.token != here.session != Door("127.0.0.1", 8421).session
    assert Door("::1", 8421).address.startswith("http://[::1]:8421/?token=")


def test_pictures_of_every_kind_become_png_or_webp(tmp_path):
    for mode, name in (("RGBA", "a.png"), ("L", "b.jpg"), ("P", "c.gif"), ("1", "d.bmp"), ("CMYK", "e.jpg"),
                       ("I;16", "f.png")):  # fmt: skip
        for side, media in ((40, "image/png"), (2000, "image/webp")):
            Image.new(mode, (side, side // 2)).save(tmp_path / name)
            content, found = picture(tmp_path / name, "small")
            assert found == media
            assert picture((tmp_path / name).read_bytes(), "small") == (content, found)
    with pytest.raises(ValueError, match="not an image"):
        picture(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "small")
