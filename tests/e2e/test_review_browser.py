"""A review in a real browser: by keyboard alone, in two tabs, with images, texts and tables."""

import itertools
import re
import shutil

import pytest
from report_audits import HOSTILE, digits, texts, tumours
from review_runs import Server, plain_run, wait_for, write_run

from icelens.review.store import Filters, Store

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `test`)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
EVIL = [text.encode("utf-8", "replace").decode() for text in HOSTILE]  # no file holds half a character
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (apt install chromium)")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        running = started.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", *QUIET]
        )
        yield running
        running.close()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Folders to copy: they are made once."""
    root = tmp_path_factory.mktemp("runs")
    plain_run(root / "text")
    audit, data = digits()
    write_run(root / "images", audit, data, vectors=data.inputs.reshape(len(data), -1) / 255)
    write_run(root / "table", *tumours())
    evil = [f"{text} {number}" for number, text in enumerate(EVIL)]
    write_run(root / "evil", *texts(evil * 3, classes=evil, ids=[f"{t} {i}" for i, t in enumerate(evil * 3)]))
    return root


@pytest.fixture
def opened(browser, made, tmp_path):
    """Opens a review; at the end there was no complaint of the page, and no script of the data's ran."""
    servers, contexts, complaints, numbers = [], [], [], itertools.count()

    def open_review(name, *, path="/", tolerant=False, **settings):
        folder = shutil.copytree(made / name, tmp_path / f"run{next(numbers)}")
        servers.append(Server(folder))
        server = servers[-1]
        server.folder = folder
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        page = tab(server, context, tolerant)
        page.goto(server.address)
        page.wait_for_selector("#list")
        if path != "/":
            page.goto(server.origin + path)
        return page, server

    def tab(server, context, tolerant=False):
        page = context.new_page()
        page.set_default_timeout(8000)
        if not tolerant:
            page.on("console", lambda message: complaints.append(message.text))
            page.on("request", lambda asked: complaints.extend(_outside(asked.url, server.origin)))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        return page

    open_review.tab = tab
    yield open_review
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("window.__pwned") is None
        context.close()
    for server in servers:
        server.__exit__()
    assert complaints == []


def _outside(url, origin):
    return [] if url.startswith(origin) else [url]


SHOWS = "index => document.getElementById('suspect').dataset.index === `${index}`"


def current(page):
    """The example on the page."""
    return int(page.locator("#suspect").get_attribute("data-index"))


def verdicts(server):
    with Store(server.folder) as store:
        return {one.index: (one.verdict, one.label) for one in store.verdicts()}


def rows(server):
    with Store(server.folder) as store:
        return len(store.history())


def press(page, *keys):
    """Keys for the example on the page; returns its index when another one is shown."""
    index = current(page)
    for key in keys:
        page.keyboard.press(key) if len(key) == 1 or key[0].isupper() else page.keyboard.type(key)
    page.wait_for_function(
        "index => document.getElementById('suspect').dataset.index !== `${index}`", arg=index
    )
    return index


def saved(page, server, number):
    """Wait until the page says that so many examples have a verdict."""
    says = "number => document.getElementById('sentence').textContent.startsWith(`${number} reviewed`)"
    page.wait_for_function(says, arg=number)
    wait_for(lambda: len(verdicts(server)) == number)


def test_thirty_suspects_by_keyboard_alone(opened):
    page, server = opened("text")
    page.keyboard.press("n")
    assert page.evaluate("document.activeElement.dataset.index") == "0"
    page.keyboard.press("Enter")
    page.wait_for_selector("#suspect")
    labels, expected = ("red", "green", "blue"), {}
    for _ in range(3):
        expected[press(page, "k")] = ("keep", None)
        index = press(page, "a")
        expected[index] = ("relabel", labels[(index + 1) % 3])
        other = labels[(current(page) + 2) % 3]
        expected[press(page, "t", other[:2], "Enter")] = ("relabel", other)
        expected[press(page, "d")] = ("drop", None)
        expected[press(page, "u")] = ("unsure", None)
    saved(page, server, 15)
    assert verdicts(server) == expected

    last = list(expected)[-1]
    page.keyboard.press("z")  # the last one comes back, without its verdict
    page.wait_for_function(SHOWS, arg=last)
    saved(page, server, 14)
    assert page.locator("#said").inner_text() == f"Undone: the verdict on t{last:04} is taken back."
    expected[press(page, "2")] = ("keep", None) if last % 3 == 1 else ("relabel", "green")
    saved(page, server, 15)
    here = current(page)
    page.keyboard.press("p")
    page.wait_for_function(SHOWS, arg=last)
    assert page.locator("#suspect .badge.said").inner_text() == ("kept" if last % 3 == 1 else "→ green")
    page.keyboard.press("n")
    page.wait_for_function(SHOWS, arg=here)
    page.reload()
    assert current(page) == here
    for _ in range(15):
        index = press(page, "a")
        expected[index] = ("relabel", labels[(index + 1) % 3])
    saved(page, server, 30)
    assert len(expected) == 30  # thirty others: verdicts may put the list into a new order, none comes twice
    assert verdicts(server) == expected
    assert rows(server) == 32  # thirty, one more, and one that took it back


def test_filter_search_and_finish_by_keyboard(opened):
    page, server = opened("text")
    page.keyboard.press("/")
    page.keyboard.type("number 17")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=number+17**")
    assert page.locator("#list .item").count() == 1  # whole words: 17, and not 170
    page.focus("#query")
    page.keyboard.press("ControlOrMeta+a")
    page.keyboard.press("Delete")
    page.keyboard.press("Tab")
    page.keyboard.type("blue")
    page.keyboard.press("Tab")
    page.keyboard.type("red")
    assert page.evaluate("document.activeElement.id") == "by-guess"
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url("**label=2**")
    with Store(server.folder) as store:
        matching = len(store.page(Filters(label="blue", guess="red"), limit=200))
    assert page.locator("#list .item").count() == matching > 10
    assert set(page.locator("#list dd.given").all_inner_texts()) == {"blue"}
    assert f"{matching} examples, {matching} not reviewed" in page.locator("#matching").inner_text()
    page.goto(f"{server.origin}/next?q=number+17")
    assert current(page) == 17
    press(page, "k")
    assert page.locator("h1").inner_text() == "Nothing is left to look at here."
    assert "icelens apply" in page.locator("#suspect").inner_text()
    page.goto(f"{server.origin}/?state=reviewed")
    assert page.locator("#list .item").get_attribute("data-index") == "17"
    assert page.locator("#list .badge.said").inner_text() == "kept"


def test_a_list_is_judged_by_keyboard_and_grows(opened):
    page, server = opened("images")
    first = page.locator(".item").first
    assert first.locator("img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 8
    order = page.locator(".item").evaluate_all("all => all.map(one => Number(one.dataset.index))")
    page.keyboard.press("ArrowRight")
    for key in "kadu":
        page.keyboard.press(key)
    page.keyboard.press("7")
    saved(page, server, 5)
    got = verdicts(server)
    assert [got[index][0] for index in order[:4]] == ["keep", "relabel", "drop", "unsure"]
    assert got[order[4]] in (("relabel", "7"), ("keep", None))
    assert page.evaluate("document.activeElement.dataset.index") == str(order[5])
    assert page.locator(".item .badge.said").first.inner_text() == "kept"
    page.keyboard.press("z")
    saved(page, server, 4)
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.index") == str(order[4 + 6])
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_selector("#suspect")
    assert current(page) == order[4]
    page.keyboard.press("g")
    page.wait_for_selector("#list")
    page.focus("#more")
    page.keyboard.press("Enter")
    wait_for(lambda: page.locator(".item").count() == 120)
    focused = page.evaluate("document.activeElement.dataset.index")
    assert focused == page.locator(".item").nth(60).get_attribute("data-index")


def test_a_list_in_another_order_goes_on_with_what_is_not_shown(opened):
    page, server = opened("text")
    with Store(server.folder) as store:
        index, trust = zip(*((one.index, one.trust) for one in store.page(limit=200)), strict=True)

    def reorder_and_show_more(order, number):
        with Store(server.folder) as store:  # as verdicts do
            store.set_order(order, trust)
        page.locator("#more").click()
        wait_for(lambda: page.locator(".item").count() >= number)
        shown = page.locator(".item").evaluate_all("all => all.map(one => Number(one.dataset.index))")
        assert len(shown) == number
        return shown

    shown = reorder_and_show_more(index[::-1], 120)
    assert shown == [*index[:60], *index[:139:-1]]
    assert page.evaluate("document.activeElement.dataset.index") == str(index[-1])
    rest = index[60:140]
    assert reorder_and_show_more([*shown, *rest], 180) == [*shown, *rest[:60]]  # the top holds nothing else
    assert reorder_and_show_more([*rest, *shown], 200) == [*shown, *rest]
    page.locator("#more").click()
    page.wait_for_selector("#more", state="detached")
    assert page.locator(".item").count() == 200


def test_the_count_of_a_list_follows_the_verdicts_of_all_tabs(opened):
    page, server = opened("text")
    counted = "text => document.getElementById('matching').textContent.startsWith(text)"
    assert page.locator("#matching").inner_text() == (
        "200 examples, 200 not reviewed, the least trusted first")  # fmt: skip
    other = opened.tab(server, page.context)
    other.goto(f"{server.origin}/?label=0")  # 67 are called red, one of which is judged next
    page.locator(".item").first.get_by_role("button", name="Keep").click()
    page.wait_for_function(counted, arg="200 examples, 199 not reviewed")
    other.wait_for_function(counted, arg="67 examples, 66 not reviewed")
    page.keyboard.press("z")
    page.wait_for_function(counted, arg="200 examples, 200 not reviewed")
    page.goto(f"{server.origin}/?q=number+7")  # a search says what was found, and goes on saying it
    found = page.locator("#matching").inner_text()
    page.locator(".item").first.get_by_role("button", name="Keep").click()
    saved(page, server, 1)
    other.wait_for_function("() => document.getElementById('sentence').textContent.startsWith('1 reviewed')")
    assert page.locator("#matching").inner_text() == found


def test_the_first_key_in_a_list_chooses_and_the_next_one_judges(opened):
    page, server = opened("text")
    chosen = "document.activeElement.dataset.index"
    for key in ("k", "2", "t", "Enter"):
        page.evaluate("document.activeElement.blur()")
        page.keyboard.press(key)
        assert page.evaluate(chosen) == "0"
        assert page.locator(".typing").count() == 0
        assert page.url == f"{server.origin}/"
    said = page.locator("#toast-text").inner_text()
    assert said == "Chosen: t0000: label red, guess green. The next key judges it."
    page.keyboard.press("d")
    saved(page, server, 1)
    assert verdicts(server) == {0: ("drop", None)}
    # From where the page is scrolled to, and never one that has its verdict.
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("k")
    assert page.evaluate(chosen) == "1"
    page.evaluate("document.activeElement.blur(); document.querySelectorAll('.item')[20].scrollIntoView()")
    page.keyboard.press("u")
    assert page.evaluate(chosen) in ("20", "21")
    assert verdicts(server) == {0: ("drop", None)}


@pytest.mark.parametrize("keys", ["nd", "dd"])
def test_keys_before_the_page_is_whole_count_when_it_is_and_judge_nothing_unseen(opened, keys):
    page, server = opened("text")
    pressed = "".join(
        f"document.body.dispatchEvent(new KeyboardEvent('keydown', {{key: '{key}', bubbles: true}}));"
        for key in keys
    )

    def hasten(route):
        whole = route.fetch().text().replace("</body>", f"<script>{pressed}</script></body>")
        # Without the header that forbids scripts within a page.
        route.fulfill(body=whole, content_type="text/html")

    page.route(server.origin + "/", hasten)
    page.goto(server.origin + "/")
    if keys == "dd":  # the first one chose, and what it chose was not seen when the second was pressed
        page.wait_for_function("() => document.activeElement.dataset.index === '0'")
        assert rows(server) == 0
        page.keyboard.press("d")
    saved(page, server, 1)
    assert verdicts(server) == {0: ("drop", None)}
    assert rows(server) == 1


def test_images_stand_beside_trusted_ones_of_both_classes(opened):
    page, server = opened("images", path="/next")
    large = page.locator(".frame.large img")
    assert large.evaluate("image => image.decode().then(() => image.naturalWidth)") == 8
    assert "coarse" in large.get_attribute("class")
    assert large.bounding_box()["height"] > 300
    for side in ("given", "guess"):
        assert page.locator(f".near.{side} img").count() == 3
    bars = page.locator(".class .p").all_inner_texts()
    assert any(text.endswith("%") for text in bars)
    assert page.locator(".class").count() == 10
    label = page.locator("#question bdi").inner_text()
    other = "3" if label != "3" else "4"
    index = press(page, other)  # classes that are digits have themselves as keys
    saved(page, server, 1)
    assert verdicts(server)[index] == ("relabel", other)
    large.evaluate("image => image.decode()")
    page.wait_for_selector(".frame.large img.coarse")


def test_rows_of_a_table_show_their_unusual_values(opened):
    page, server = opened("table")
    assert page.locator("tr.item .value.low, tr.item .value.high, tr.item .value.rare").count() > 20
    page.keyboard.press("n")
    page.keyboard.press("d")
    saved(page, server, 1)
    page.goto(f"{server.origin}/next")
    assert page.locator(".compare tbody tr").count() > 20
    assert page.locator(".compare .mark").count() >= 2
    assert page.locator(".compare thead th").count() == 9  # value, this one, usually, and three of each class
    index = press(page, "a")
    saved(page, server, 2)
    assert verdicts(server)[index][0] == "relabel"


def test_two_tabs_at_once(opened):
    page, server = opened("text", path="/next")
    other = opened.tab(server, page.context)
    other.goto(f"{server.origin}/next")
    assert current(page) == current(other) == 0
    press(page, "k")
    saved(page, server, 1)
    other.wait_for_function("() => document.querySelector('#suspect .badge.said').textContent === 'kept'")
    assert other.locator("#sentence").inner_text().startswith("1 reviewed, 0 were wrong")
    press(other, "d")  # the newest counts
    wait_for(lambda: verdicts(server) == {0: ("drop", None)})
    assert current(page) == 1
    assert current(other) == 1
    for written in range(3, 13, 2):
        press(page, "k")
        wait_for(lambda written=written: rows(server) == written)  # or the other's might come first
        press(other, "d")
    wait_for(lambda: rows(server) == 12)
    page.wait_for_function("() => document.getElementById('sentence').textContent.includes('reviewed')")
    # Undo takes back what this tab said, not what came last of the same example.
    page.keyboard.press("z")
    wait_for(lambda: rows(server) == 13)
    with Store(server.folder) as store:
        history = store.history()
        taken = next(one for one in history if one.number == history[-1].takes_back)
    assert (taken.index, taken.verdict) == (5, "keep")
    assert verdicts(server) == dict.fromkeys(range(6), ("drop", None))


def test_what_cannot_be_sent_is_told_and_sent_again_with_its_key(opened):
    page, server = opened("text", path="/next", tolerant=True)
    page.route("**/verdict", lambda route: route.abort())
    press(page, "k")
    press(page, "d")
    page.wait_for_selector("#alarm:not([hidden])")
    assert page.locator("#alarm").inner_text().startswith("2 verdicts are not saved yet: the server does not")
    assert page.locator("#said").inner_text() == ""
    assert rows(server) == 0
    page.unroute("**/verdict")

    # The server stores it but its answer is lost: the same key comes again, and one row is written.
    lost = []

    def lose(route):
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch().status)
            route.abort()

    page.route("**/verdict", lose)
    saved(page, server, 2)
    assert lost == [200]
    page.wait_for_selector("#alarm", state="hidden")
    assert verdicts(server) == {0: ("keep", None), 1: ("drop", None)}
    assert rows(server) == 2


def test_a_page_goes_on_after_the_server_was_killed_and_started_anew(opened):
    page, server = opened("text", path="/next", tolerant=True)
    press(page, "k")
    saved(page, server, 1)
    asked = "() => performance.getEntriesByType('resource').some(one => one.name.includes('from=1'))"
    page.wait_for_function(asked)  # the one after is there already
    server.kill()
    index = current(page)
    page.keyboard.press("d")
    page.wait_for_selector("#alarm:not([hidden])")
    with Server(server.folder, port=server.port) as again:
        page.wait_for_function("() => document.getElementById('alarm').textContent.includes('started anew')")
        fresh = page.context.new_page()
        fresh.goto(again.address)
        fresh.wait_for_selector("#list")
        saved(page, server, 2)
        assert verdicts(server) == {0: ("keep", None), index: ("drop", None)}


def test_a_page_of_another_review_writes_nothing(opened, made, tmp_path):
    page, server = opened("text", path="/next", tolerant=True)
    server.kill()
    other = shutil.copytree(made / "text", tmp_path / "other")
    with Server(other, port=server.port) as again:
        fresh = page.context.new_page()
        fresh.goto(again.address)
        fresh.wait_for_selector("#list")
        page.keyboard.press("k")
        wait_for(lambda: "another review" in page.locator("#alarm").inner_text())
        again.folder = other
        assert verdicts(again) == verdicts(server) == {}


def test_a_new_class_is_asked_for_twice(opened):
    page, server = opened("text", path="/next")
    page.keyboard.press("t")
    page.keyboard.type("violet <b>")
    options = page.locator("#class-options li")
    assert options.all_inner_texts() == ["New class “violet <b>”"]
    page.keyboard.press("Enter")
    assert "Choose it once more" in page.locator("#class-note").inner_text()
    assert rows(server) == 0
    index = press(page, "Enter")
    saved(page, server, 1)
    assert verdicts(server)[index] == ("relabel", "violet <b>")
    page.keyboard.press("t")
    page.keyboard.type("re")
    page.wait_for_function("() => document.querySelectorAll('#class-options li').length === 3")
    assert options.all_inner_texts() == ["red", "green", "New class “re”"]
    page.keyboard.press("ArrowDown")
    index = press(page, "Enter")
    saved(page, server, 2)
    assert verdicts(server)[index] == (("keep", None) if index % 3 == 1 else ("relabel", "green"))
    page.keyboard.press("t")
    page.keyboard.press("Escape")
    assert page.locator(".typing").count() == 0
    assert page.evaluate("document.activeElement.id") == "question"


def hold(page, address):
    """Requests to an address wait in the list that is returned."""
    held = []

    def wait(route):
        held.append(route)

    page.route(address, wait)
    return held


def test_enter_chooses_what_was_typed_however_late_the_names_arrive(opened):
    page, server = opened("text", path="/next")
    held = hold(page, "**/classes.json")
    page.keyboard.press("t")
    page.keyboard.type("blu")
    page.keyboard.press("Enter")
    wait_for(lambda: page.evaluate("1") and held)
    assert rows(server) == 0
    held[0].continue_()
    saved(page, server, 1)
    assert verdicts(server) == {0: ("relabel", "blue")}
    page.keyboard.press("t")
    page.wait_for_selector("#class-options li")
    page.keyboard.press("Enter")  # nothing was typed, so nothing is chosen
    assert current(page) == 1
    assert page.locator(".typing").count() == 1
    assert rows(server) == 1


def test_keys_in_haste_judge_nothing_twice_or_unseen(opened):
    page, server = opened("text", path="/next")
    held = hold(page, "**/next?**")
    page.evaluate("dispatchEvent(new Event('popstate'))")  # the page looks ahead anew, and is kept waiting
    wait_for(lambda: page.evaluate("1") and held)
    for key in "kdu":
        page.keyboard.press(key)
    saved(page, server, 1)
    for route in held:
        route.continue_()
    page.wait_for_function(SHOWS, arg=1)
    assert verdicts(server) == {0: ("keep", None)}
    assert rows(server) == 1


def test_nothing_in_the_data_is_run(opened):
    page, server = opened("evil")
    body = page.locator("body").inner_text()
    for text in EVIL[:7]:
        assert body.count(text) >= 4, text
    page.goto(f"{server.origin}/next")
    for key in ("k", "a", "d"):
        press(page, key)
    page.keyboard.press("t")
    page.keyboard.type("<script>")
    page.wait_for_function("() => document.querySelectorAll('#class-options li').length > 1")
    press(page, "Enter")
    saved(page, server, 4)
    assert page.title().endswith("Review of data")
    for label in range(len(EVIL)):
        page.goto(f"{server.origin}/?label={label}&guess={(label + 1) % len(EVIL)}&state=all")
        assert page.locator(".item").count() == 3
    page.goto(f"{server.origin}/?q=%3Cscript%3Ewindow.__pwned+%3D+1&state=all")
    assert page.locator(".item").count() >= 3
    assert page.locator("script:not([src])").count() == 0


def test_the_policy_stops_scripts_and_requests_even_if_some_got_in(opened):
    page, server = opened("evil", tolerant=True)
    with page.expect_event("requestfailed") as failed:
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.__pwned = 1";
                const button = document.createElement("button");
                button.setAttribute("onclick", "window.__pwned = 1");
                document.body.append(script, button);
                button.click();
                const form = document.createElement("form");
                form.action = "https://example.com/"; form.method = "post";
                document.body.append(form); form.submit();
                fetch("/../static/review.js?x=1", {mode: "no-cors"});
                const image = new Image();
                image.src = location.origin.replace("127.0.0.1", "localhost") + "/image/0/small";
            }"""
        )
    assert failed.value.failure == "csp"
    assert page.url.startswith(server.origin)


CONTRAST = """() => {
  const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = (rgb) => rgb.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const color = numbers(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || !node.checkVisibility({ visibilityProperty: true })) continue;
    const [a, b] = [light(numbers(getComputedStyle(node).color)), light(ground(node))].sort();
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) faint.push(`${text.data.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return faint;
}"""
NAMELESS = """() => Array.from(document.querySelectorAll("button, input:not([type=hidden]), select, a, img"))
  .filter((node) => node.checkVisibility() && !(node.textContent.trim() || node.ariaLabel || node.alt
    || node.labels?.length || node.querySelector("img[alt]"))).map((node) => node.outerHTML)"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["images", "text", "table"])
def test_pages_are_readable_named_and_fit_phones_and_desks(opened, name, scheme):
    page, server = opened(name, color_scheme=scheme)
    for path in ("/", "/next", "/next?state=reviewed"):
        page.goto(server.origin + path)
        for width in (360, 768, 1280):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, (path, width)
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate(NAMELESS) == []
        assert page.locator("h1").count() == 1


def test_a_phone_judges_by_touch(opened):
    page, server = opened("text", path="/next", viewport={"width": 390, "height": 844}, has_touch=True)
    for button in page.locator(".choice:visible, .class:visible, .moves > *:visible").all():
        assert button.bounding_box()["height"] >= 44
    page.get_by_role("button", name="Make it green").tap()
    page.get_by_role("button", name="Drop").tap()
    saved(page, server, 2)
    page.get_by_role("button", name="Another class").tap()
    page.locator("#class-name").fill("blu")
    page.locator("#class-options li").first.tap()
    saved(page, server, 3)
    page.locator("#undo-last").tap()
    saved(page, server, 2)
    assert verdicts(server) == {0: ("relabel", "green"), 1: ("drop", None)}


def test_help_and_turning_keys_off(opened):
    page, server = opened("text", path="/next")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("k")  # within the help a letter judges nothing
    page.locator("#use-keys").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.reload()
    page.keyboard.press("k")
    page.get_by_role("button", name="Drop").click()
    saved(page, server, 1)
    assert verdicts(server) == {0: ("drop", None)}


def test_dark_follows_the_system_and_the_button_and_is_remembered(opened):
    page, server = opened("text", color_scheme="light")
    ground = "getComputedStyle(document.body).backgroundColor"
    bright = page.evaluate(ground)
    page.click("#theme")
    dim = page.evaluate(ground)
    page.goto(f"{server.origin}/next")
    assert page.evaluate(ground) == dim != bright


def test_without_the_script_forms_do_the_same(opened):
    page, server = opened("text", path="/next", java_script_enabled=False)
    page.get_by_role("button", name="Keep red").click()
    page.wait_for_url(re.compile(r"/example/1\?"))
    page.get_by_role("button", name="Make it blue").click()
    page.wait_for_url(re.compile(r"/example/2\?"))
    page.get_by_role("link", name="Next").click()
    page.wait_for_url(re.compile(r"/example/3\?seen=0,1,2&judged=0,1$"))
    assert verdicts(server) == {0: ("keep", None), 1: ("relabel", "blue")}
    page.goto(server.origin)
    page.locator(".item").first.get_by_role("button", name="Drop").click()
    page.wait_for_url(f"{server.origin}/")
    assert verdicts(server)[2] == ("drop", None)


def test_the_link_past_the_head_of_the_page_leads_to_the_next_example_still(opened):
    page, server = opened("text", path="/next")
    press(page, "n")
    first = press(page, "n")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    judged = current(page)
    assert judged != first
    press(page, "k")
    dropped = current(page)
    press(page, "d")
    saved(page, server, 2)
    assert verdicts(server) == {judged: ("keep", None), dropped: ("drop", None)}


def test_back_from_the_list_goes_on_with_examples(opened):
    page, server = opened("text", path="/next")
    for key in "nnn":
        press(page, key)
    for key in "pp":
        press(page, key)
    page.get_by_role("link", name="All", exact=True).click()
    page.wait_for_selector("#list")
    page.go_back()
    page.wait_for_selector("#suspect")
    judged = current(page)
    press(page, "k")
    assert page.locator("#suspect").count() == 1
    saved(page, server, 1)
    assert verdicts(server) == {judged: ("keep", None)}


def test_on_a_phone_no_button_leaves_the_screen_whatever_classes_are_called(opened):
    page, _ = opened("evil", path="/next", viewport={"width": 390, "height": 844})
    for button in page.locator(".main-choices button").all():
        box = button.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
