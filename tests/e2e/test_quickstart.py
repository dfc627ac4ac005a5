"""What the quickstart says, done: from the CSV file that it makes to a reviewed, cleaned one."""

import csv
import re
import shlex
import shutil
from pathlib import Path

import pytest
from review_runs import Server

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (extra `test`)")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium (apt install chromium)")

PAGE = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
JUDGED = 12
GONE = "index => document.getElementById('suspect').dataset.index !== index"
COUNTED = "number => document.getElementById('sentence').textContent.startsWith(`${number} reviewed`)"


def commands():
    """Every command of the page, with what the page says that it prints."""
    for number, (kind, code) in enumerate(BLOCKS):
        if kind == "shell" and code.startswith("icelens"):
            printed = next(text for kind, text in BLOCKS[number + 1 :] if kind == "text")
            yield code.strip(), printed


def shape(line):
    """A line without its numbers and the spaces that depend on them."""
    return re.sub(r"\s+", " ", re.sub(r"[+-]?\d[\d,.]*", "#", line)).strip()


def test_the_quickstart_leads_to_a_cleaned_file(tmp_path, command):
    names = {}
    exec(compile(next(code for kind, code in BLOCKS if kind == "python"), "quickstart", "exec"), names)
    given = read(tmp_path / "descriptions.csv")
    done = []
    for line, printed in commands():
        words = shlex.split(line)[1:]
        done.append(words[0])
        if words[0] == "review":
            said = review(words[1], given, names["topics"])
        else:
            code, said, err = command(*words)
            assert code == 0, err
        headline = printed.splitlines()[2 if words[0] == "audit" else 0]  # an audit first tells what it read
        assert shape(headline) in map(shape, said.splitlines()), f"{line} printed\n{said}"
    assert done == ["audit", "review", "apply", "retrain"]
    changed = [new for old, new in zip(given, read(tmp_path / "cleaned.csv"), strict=True) if old != new]
    assert len(changed) > JUDGED / 2
    assert all(row["topic"] == names["topics"][row["description"]] for row in changed)


def read(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def review(folder, given, topics):
    """The first suspects in the browser, as the page says: one at a time, by keys."""
    classes = sorted({row["topic"] for row in given})
    with Server(folder) as server, playwright.sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=CHROMIUM, args=["--headless", "--no-sandbox", "--disable-gpu"]
        )
        page = browser.new_page()
        page.goto(server.address)
        page.get_by_text("One at a time").click()
        for _ in range(JUDGED):
            page.wait_for_selector("#suspect")
            index = page.locator("#suspect").get_attribute("data-index")
            row = given[int(index)]
            right = topics[row["description"]]
            page.keyboard.press("k" if right == row["topic"] else str(classes.index(right) + 1))
            page.wait_for_function(GONE, arg=index)
        page.wait_for_function(COUNTED, arg=JUDGED)
        browser.close()
        return server.stop()[1]
