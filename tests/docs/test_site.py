"""The built site: links lead somewhere, nothing comes from another host, and all there is stands in it."""

import html.parser
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from filelock import FileLock
from test_docs import MODULES

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}


class Page(html.parser.HTMLParser):
    """The links, the anchors and what is loaded of a page."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if found.get(LOADED.get(tag)) and found.get("rel") not in ("index", "search", "next", "prev"):
            self.loads.append(found[LOADED[tag]])


@pytest.fixture(scope="session")
def site(tmp_path_factory):
    """The folder of the built site: that of ICELENS_SITE, or built once for all workers."""
    if given := os.environ.get("ICELENS_SITE"):
        return Path(given)
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    with FileLock(shared / "site.lock"):
        if not (shared / "site").exists():
            command = [sys.executable, "-m", "sphinx", "-W", "-n", "-q", "-d", shared / "trees"]
            answer = subprocess.run(
                [*command, ROOT / "docs", shared / "part"], capture_output=True, text=True, check=False
            )
            assert answer.returncode == 0, answer.stderr[-4000:]
            (shared / "part").rename(shared / "site")
    return shared / "site"


@pytest.fixture(scope="session")
def pages(site):
    found = {path: Page(path) for path in sorted(site.rglob("*.html"))}
    assert len(found) > 30
    return found


def is_outside(link):
    return bool(urlsplit(link).scheme or urlsplit(link).netloc)


def test_every_page_and_notebook_is_built(site):
    sources = [*ROOT.glob("docs/**/*.md"), *NOTEBOOKS]
    assert len(NOTEBOOKS) == 3
    for source in sources:
        assert (site / source.relative_to(ROOT / "docs")).with_suffix(".html").exists(), source


def test_links_and_pictures_lead_somewhere(pages):
    checked = 0
    for path, page in pages.items():
        for link in [*page.links, *page.loads]:
            if is_outside(link):
                continue
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.is_file(), f"{path.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].anchors, f"{path.name}: {link}"
            checked += 1
    assert checked > 1000


def test_nothing_is_loaded_from_another_host(site, pages):
    for path, page in pages.items():
        assert not [link for link in page.loads if is_outside(link) and not link.startswith("data:")], path
    sheets = sorted(site.rglob("*.css"))
    assert sheets
    for sheet in sheets:
        assert not re.findall(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//[^)]*", sheet.read_text()), sheet


def test_links_to_other_sites_are_whole(pages):
    outside = {link for page in pages.values() for link in page.links if is_outside(link)}
    assert len(outside) > 10
    for link in outside:
        parts = urlsplit(link)
        assert parts.scheme in ("http", "https"), link
        assert re.fullmatch(r"[\w-]+(\.[\w-]+)+", parts.netloc), link


def test_every_public_name_is_described(site):
    _, _, packed = (site / "objects.inv").read_bytes().partition(b"using zlib.\n")
    described = {line.split()[0] for line in zlib.decompress(packed).decode().splitlines()}
    for module in map(importlib.import_module, MODULES):
        own = [name for name, value in vars(module).items() if inspect.getmodule(value) is module]
        for name in getattr(module, "__all__", own):
            value = getattr(module, name)
            if name.startswith("_") or not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            spellings = {f"icelens.{name}", f"{module.__name__}.{name}", f"{value.__module__}.{name}"}
            assert spellings & described, f"{module.__name__}.{name} is on no page of docs/reference"


def test_notebooks_are_kept_without_outputs_and_shown_with_them(site):
    for path in NOTEBOOKS:
        cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
        assert not any(cell["outputs"] or cell["execution_count"] for cell in cells), path.name
        shown = (site / "notebooks" / path.name).with_suffix(".html").read_text()
        assert shown.count('class="cell_output') >= 4, path.name
        assert re.search(r"cleaned\.\w+", shown), path.name
    assert (site / "notebooks" / "images.html").read_text().count('src="../_images/') == 2


@pytest.mark.skipif(shutil.which("chromium") is None, reason="there is no chromium (apt install chromium)")
def test_a_browser_asks_no_other_host_and_has_no_complaint(site):
    playwright = pytest.importorskip("playwright.sync_api")
    complaints = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        page = browser.new_page(viewport={"width": 390, "height": 800})
        page.on("request", lambda asked: complaints.extend(re.findall(r"^(?:https?|wss?):.*", asked.url)))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        for name in ("index", "math", "losses", "notebooks/images", "reference/icelens"):
            page.goto(f"file://{site}/{name}.html")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, f"{name} is too wide"
        browser.close()
    assert complaints == []
