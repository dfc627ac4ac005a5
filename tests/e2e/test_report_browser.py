"""The report in a real browser: it runs, nothing in the data does, and it works by keyboard."""

import re
import shutil

import pytest
from report_audits import HOSTILE, digits, texts, tumours

from icelens.auditing.report import write_report

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `test`)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = ["--disable-gpu", "--no-first-run", "--disable-background-networking"]
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
def reports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    evil = [f"{text} {number}" for number, text in enumerate(HOSTILE)]
    long = "A very long text. " * 200
    made = {
        "images": digits(),
        "table": tumours(),
        "evil": texts([*evil, *evil, *evil], classes=evil, ids=evil * 3, name=HOSTILE[1]),
        "text": texts([f"text number {i} {long if i == 3 else ''}" for i in range(150)], classes=("a", "b")),
    }
    for name, (audit, data) in made.items():
        write_report(audit, data, folder / f"{name}.html", title=HOSTILE[0] if name == "evil" else None)
    return folder


@pytest.fixture
def opened(browser, reports):
    """Opens a report; at the end there was no error, no request, and no script of the data's ran."""
    contexts, complaints = [], []

    def open_report(name, **settings):
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **settings})
        contexts.append(context)
        page = context.new_page()
        address = (reports / f"{name}.html").as_uri()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda asked: complaints.extend(_outside(asked.url, address)))
        page.goto(address)
        return page

    yield open_report
    for context in contexts:
        for page in context.pages:
            assert page.evaluate("window.__pwned") is None
        context.close()
    assert complaints == []


def _outside(url, address):
    return [] if url == address or url.startswith("data:image/") else [url]


def shown(page):
    return page.locator("#list > *").count()


def ranks(page):
    return [int(rank) for rank in page.locator("#list [data-field=rank]").all_text_contents()]


@pytest.mark.parametrize("name", ["images", "table", "text", "evil"])
def test_reports_open_without_errors_and_fit_phones_and_desks(opened, name):
    page = opened(name)
    for width in (360, 768, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.locator("h1").inner_text().startswith("About ")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert shown(page) > 0
        assert page.locator("#controls").is_visible()


def test_scripts_in_the_data_are_text(opened):
    page = opened("evil")
    body = page.locator("body").inner_text()
    for text in HOSTILE[:7]:
        assert body.count(text) >= 4, text
    assert page.title() == HOSTILE[0]
    for select in ("by-label", "by-guess"):
        for value in page.locator(f"#{select} option").evaluate_all("all => all.map(one => one.value)"):
            page.select_option(f"#{select}", value)
        page.select_option(f"#{select}", "")
    page.fill("#query", "<script>")
    assert shown(page) == 9


def test_the_policy_stops_scripts_and_requests_even_if_some_got_in(browser, reports):
    context = browser.new_context()
    page = context.new_page()
    page.goto((reports / "evil.html").as_uri())
    with page.expect_event("requestfailed") as failed:
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.__pwned = 1";
                const image = new Image();
                image.src = "https://example.com/x.png";
                const button = document.createElement("button");
                button.setAttribute("onclick", "window.__pwned = 1");
                document.body.append(script, image, button);
                button.click();
            }"""
        )
    assert failed.value.failure == "csp"
    assert page.evaluate("window.__pwned") is None
    context.close()


def test_search_and_filters_by_keyboard(opened):
    page = opened("text")
    assert (shown(page), page.locator("#status").inner_text()) == (60, "150 in all")
    page.focus("#query")
    page.keyboard.type("NUMBER 14")
    assert page.locator("#status").inner_text() == "12 of 150 match"  # 14, 114 and 140 to 149
    page.keyboard.press("Tab")
    page.keyboard.press("a")
    assert page.evaluate("document.activeElement.id") == "by-label"
    assert set(page.locator("#list .given").all_inner_texts()) == {"a"}
    assert page.locator("#status").inner_text() == "7 of 150 match"
    page.fill("#query", "nothing is like this")
    assert page.locator("#none").is_visible()
    page.focus("#clear")
    page.keyboard.press("Enter")
    assert page.locator("#status").inner_text() == "150 in all"
    page.select_option("#by-kind", "ambiguous")
    assert set(page.locator("#list .badge").all_inner_texts()) == {"ambiguous"}


def test_a_click_on_a_pair_of_classes_shows_its_suspects(opened):
    page = opened("images")
    cell = page.locator(".map a").first
    label, guess, number = (
        cell.get_attribute("data-label"),
        cell.get_attribute("data-guess"),
        cell.inner_text(),
    )
    cell.focus()
    page.keyboard.press("Enter")
    assert page.locator("#by-label").input_value() == label
    assert page.locator("#by-guess").input_value() == guess
    assert shown(page) == int(number)


def test_sorting_by_keyboard_says_so(opened):
    page = opened("table")
    assert ranks(page) == sorted(ranks(page))
    head = page.locator("th[data-sort=index]")
    head.locator("button").focus()
    page.keyboard.press("Enter")
    indices = [int(text.split()[1]) for text in page.locator("#list .place").all_text_contents()]
    assert indices == sorted(indices)
    assert head.get_attribute("aria-sort") == "ascending"
    page.keyboard.press("Enter")
    assert head.get_attribute("aria-sort") == "descending"
    assert page.locator("th[aria-sort]").count() == 1
    page.select_option("#sort", "label")
    labels = page.locator("#list td.given").all_inner_texts()
    assert labels == sorted(labels)
    for key in ("guess", "confidence", "trust"):
        page.select_option("#sort", key)
        assert page.locator(f"th[data-sort={key}]").get_attribute("aria-sort") == "ascending"
    assert ranks(page) == sorted(ranks(page))


def test_more_are_shown_on_demand_and_look_like_the_first(opened):
    page = opened("images")
    total = len(page.evaluate("JSON.parse(document.getElementById('data').textContent).items"))
    assert total > 120
    assert shown(page) == 60
    page.focus("#more")
    page.keyboard.press("Enter")
    assert shown(page) == 120
    assert page.evaluate("document.activeElement.querySelector('[data-field=rank]').textContent") == "61"
    while page.locator("#more").is_visible():
        page.click("#more")
    assert ranks(page) == list(range(1, total + 1))
    forms = page.locator("#list > *").evaluate_all(
        """all => all.map(one => one.cloneNode(true)).map(one => {
            one.removeAttribute("tabindex");
            for (const slot of one.querySelectorAll("[data-field]")) slot.textContent = "";
            one.querySelector("[data-level]").removeAttribute("width");
            one.querySelector("[data-kind]").textContent = "";
            one.querySelector("[data-kind]").className = "";
            one.querySelector("img").removeAttribute("src");
            one.querySelector("img").removeAttribute("alt");
            return one.outerHTML.replace(/\\s+/g, "");
        })"""
    )
    assert len(set(forms)) == 1
    widths = page.locator("#list img").evaluate_all("all => all.map(one => one.naturalWidth)")
    assert set(widths) == {8}


def test_long_texts_unfold(opened):
    page = opened("text")
    button = page.locator(".unfold")
    assert button.count() == 1
    text = page.locator("[data-texts]", has_text="A very long text.")
    folded = text.bounding_box()["height"]
    button.focus()
    page.keyboard.press("Enter")
    assert button.get_attribute("aria-expanded") == "true"
    assert text.bounding_box()["height"] > 3 * folded


def test_the_planner_follows_the_slider(opened):
    page = opened("images")
    page.fill("#budget-number", "10")
    told = page.locator("#budget-found")
    assert "about 10 wrong labels (nearly all of what you look at)" in told.inner_text()
    assert page.locator("#budget-range").input_value() == "10"
    before = page.locator("#marker circle").get_attribute("cx")
    page.focus("#budget-range")
    page.keyboard.press("ArrowRight")
    assert page.locator("#budget-number").input_value() == "11"
    assert page.locator("#marker circle").get_attribute("cx") != before
    page.fill("#budget-number", "")
    assert "you will find about 1 wrong label " in told.inner_text()
    page.fill("#budget-number", "300")
    errors, share = map(int, re.findall(r"\d+", told.inner_text()))
    assert share == round(100 * errors / 300)


def ground(page):
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_dark_follows_the_system_and_the_button(opened):
    light, dark = opened("text", color_scheme="light"), opened("text", color_scheme="dark")
    bright, dim = ground(light), ground(dark)
    assert bright != dim
    light.focus("#theme")
    light.keyboard.press("Enter")
    assert (ground(light), light.locator("#theme").inner_text()) == (dim, "Light")
    dark.click("#theme")
    assert ground(dark) == bright
    dark.reload()
    assert ground(dark) == dim  # the choice was the page's, and nothing was stored


def test_print_shows_a_hundred_suspects_and_no_controls(opened):
    page = opened("text", color_scheme="dark")
    bright = ground(opened("text", color_scheme="light"))
    page.emulate_media(media="print", color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.locator("#list > *:visible").count() == 100
    for hidden in ("#controls", "#theme", "#more", "#planner"):
        assert not page.locator(hidden).is_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(28, 32, 36)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen", color_scheme="light")
    assert (shown(page), ground(page)) == (60, bright)


def test_without_its_script_the_page_can_be_read(opened):
    page = opened("text", java_script_enabled=False)
    assert page.locator("h1").is_visible()
    assert page.locator("#list > *:visible").count() == 100
    assert not page.locator("#controls").is_visible()
    assert "A very long text." in page.locator("[data-texts]", has_text="A very long text.").inner_text()
