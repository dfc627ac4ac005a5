"""The page: whole, self-contained, safe whatever the data, and small whatever their number."""

import base64
import dataclasses
import errno
import hashlib
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_audits import HOSTILE, audited, digits, labelled, of_examples, texts, tumours

from icelens.auditing.report import about, suspects, write_report
from icelens.auditing.report.foreign import one_line, shown
from icelens.errors import InputError

LIMIT = 8_000_000


class Page(HTMLParser):
    """The elements of a page with their attributes, its text, and what its scripts and styles hold."""

    def __init__(self, path):
        super().__init__()
        self.elements, self.texts, self.raw, self.inside = [], [], [], None
        self.source = path.read_bytes().decode("utf-8")
        self.feed(self.source)
        self.close()
        self.data = json.loads(next(text for tag, text in self.raw if text.startswith("{")))
        self.text = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.inside = tag

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside in ("script", "style"):
            self.raw.append((self.inside, data))
        else:
            self.texts.append(data)

    def count(self, tag, **attributes):
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return sum(t == tag and wanted.items() <= a.items() for t, a in self.elements)


def page_of(audit, data, tmp_path, **settings):
    path = tmp_path / "report.html"
    write_report(audit, data, path, **settings)
    assert path.stat().st_size < LIMIT
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    return Page(path)


def assert_harmless(page):
    """Nothing but the page's own script runs, and nothing is loaded."""
    assert [a.get("type") for t, a in page.elements if t == "script"] == ["application/json", None]
    allowed = {"html", "head", "meta", "title", "link", "style", "body", "a", "header", "div", "span", "nav",
               "button", "main", "section", "p", "h1", "h2", "h3", "b", "br", "dl", "dt", "dd", "figure",
               "figcaption", "svg", "g", "line", "path", "rect", "circle", "text", "defs",
               "lineargradient", "stop", "form", "label", "input", "output", "table", "thead", "tbody", "tr",
               "tfoot", "th", "td", "ol", "ul", "li", "details", "summary", "select", "option", "template",
               "footer", "bdi", "img", "script"}  # fmt: skip
    assert {tag for tag, _ in page.elements} <= allowed
    for _, attributes in page.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:image/"))


@pytest.mark.parametrize("make", [digits, tumours], ids=["images", "table"])
def test_a_page_of_real_data_is_complete(make, tmp_path):
    audit, data = make()
    page = page_of(audit, data, tmp_path)
    assert_harmless(page)
    assert f"labels in {data.name} are wrong (90 % interval" in page.text.replace("\u00a0", " ")
    for title in ("How much to review", "Confidence", "During training", "Classes", "Suspects", "Limits"):
        assert title in page.text
    issues = audit.suspects()
    assert [item["index"] for item in page.data["items"]] == issues["index"].tolist()
    assert [item["rank"] for item in page.data["items"]] == list(range(1, len(issues) + 1))
    assert f"All {len(issues)} issues" in page.text
    assert "examples.parquet" in page.text
    assert "look before you delete" in page.text


def small_audit(rows, wrong):
    """An audit of a few rows of three classes, of which some are surely wrong and the rest hardly doubted."""
    draw = np.random.default_rng(rows)
    labels, p = np.arange(rows) % 3, np.full((rows, 3), 0.12)
    p[np.arange(rows), labels] = draw.uniform(0.6, 0.9, rows)
    p[np.arange(wrong), labels[:wrong]] = draw.uniform(0.02, 0.3, wrong)
    p[np.arange(wrong), (labels[:wrong] + 1) % 3] = draw.uniform(0.6, 0.96, wrong)
    data = labelled("table", draw.normal(size=(rows, 2)), labels, ["a", "b", "c"], name="small.csv")
    return audited(data, p), data


@pytest.mark.parametrize(("rows", "wrong"), [(60, 6), (60, 1), (300, 29)])
def test_the_numbers_of_a_small_report_add_up(rows, wrong, tmp_path):
    """Read as a stranger does: with a pencil."""
    text = page_of(*small_audit(rows, wrong), tmp_path).text.replace("\u00a0", " ")
    errors, share = map(int, re.search(r"About (\d+) of \d+ labels .*?, (\d+) %\.", text).groups())
    assert f"Wrong labels, estimated {errors} {share} %; 90 % interval" in text
    table = text.partition("Errors of examples")[2].partition("Suspects")[0]
    *classes, total = [float(part) for part in re.findall(r"([\d.]+) of \d+", table)]
    assert len(classes) == 3
    assert sum(classes) == pytest.approx(total, abs=0.2)
    assert round(total) == errors
    shares = [(int(s), float(e) / int(n)) for s, e, n in re.findall(r"(\d+) % ([\d.]+) of (\d+)", table)]
    assert all(said == pytest.approx(100 * part, abs=1) for said, part in shares)
    pairs = text.partition("The most frequent errors")[2].partition("These come to")
    told, of = map(float, re.match(r" ([\d.]+) of the ([\d.]+) errors", pairs[2]).groups())
    parts = [float(found) for found in re.findall(r"→ [abc] ([\d.]+) \d+", pairs[0])]
    assert sum(parts) == pytest.approx(told, abs=0.2)
    assert of == total


def test_pictures_are_written_once(tmp_path):
    audit, data = digits()
    page = page_of(audit, data, tmp_path)
    issues = int(audit.examples["is_issue"].sum())
    assert issues > 100
    assert page.count("li", class_="card tile") == 100 + 1  # and the form that the script clones
    assert [("picture" in item) for item in page.data["items"]] == [False] * 100 + [True] * (issues - 100)
    assert page.source.count("data:image/png") == issues


def test_the_policy_names_the_style_and_the_script_that_are_there(tmp_path):
    page = page_of(*texts(["a", "b"]), tmp_path)
    (policy,) = [a["content"] for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy"]
    kept = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert kept["default-src"] == "'none'"
    assert kept["img-src"] == "data:"
    (css,), (_, script) = ([text for tag, text in page.raw if tag == kind] for kind in ("style", "script"))
    for name, text in (("style-src", css), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert kept[name] == f"'sha256-{digest}'"


def test_the_script_reads_no_html_and_sends_nothing(tmp_path):
    _, script = [text for tag, text in page_of(*texts(["a"]), tmp_path).raw if tag == "script"]
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval", "Function(",
                      "fetch", "XMLHttp", "localStorage", "cookie", "http:", "https:"):  # fmt: skip
        assert forbidden not in script


@pytest.mark.parametrize("evil", HOSTILE)
def test_whatever_is_in_the_data_shows_as_text(evil, tmp_path):
    classes = (evil, f"other {evil}")
    about = {"name": evil, "said": [evil], "versions": {evil: evil}, evil: [evil]}
    audit, data = texts([evil, (evil, evil)], classes=classes, ids=[evil, f"2 {evil}"], name=evil)
    page = page_of(dataclasses.replace(audit, about=about), data, tmp_path, title=evil)
    assert_harmless(page)
    name = one_line(evil)
    assert page.texts.count(one_line(evil, 160)) >= 2  # the title, twice
    assert page.texts.count(name) >= 8  # label or guess in cards, map, pairs and bars
    assert page.texts.count(shown(evil, 4000)) >= 3
    assert page.data["classes"]["0"] == name
    assert page.data["items"][0]["texts"] == [shown(evil, 1000)]
    assert page.data["items"][0]["id"] == one_line(evil, 120)


# pandas takes no half of a character for a value of a table or the name of a column.
@pytest.mark.parametrize("evil", [text for text in HOSTILE if "\ud83d" not in text])
def test_whatever_is_in_a_table_shows_as_text(evil, tmp_path):
    n = 30
    frame = pd.DataFrame({evil: [evil, *["usual"] * (n - 1)], "other": range(n)})
    data = labelled("table", frame, np.arange(n) % 2, (evil, "b"), name=evil)
    page = page_of(audited(data, 1 - np.eye(2)[data.labels] * 0.9), data, tmp_path)
    assert_harmless(page)
    first = page.data["items"][0]
    assert first["index"] == 0
    cell = next(cell for cell in first["cells"] if cell["column"] == one_line(evil))
    assert cell["value"] == one_line(evil, 60)
    assert page.texts.count(one_line(evil, 60)) >= 3


def test_files_that_are_no_pictures_have_a_placeholder(tmp_path):
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    path = pictures / '"><script>window.__pwned=1</script>.svg'.replace("/", "_")
    path.write_text("<svg xmlns='http://www.w3.org/2000/svg'><script>window.__pwned=1</script></svg>")
    data = labelled(
        "image", [str(path), str(pictures / "gone.png")], [0, 1], ["a", "b"], ids=[path.name, "2"]
    )
    out = tmp_path / "report.html"
    write_report(audited(data, 1 - np.eye(2)), data, out)
    page = Page(out)
    assert_harmless(page)
    assert page.text.count("This picture could not be read") == 2
    assert path.name in page.text


def million(classes):
    """A million examples, one in twenty an issue, as quickly as pandas makes them."""
    n, draw = 1_000_000, np.random.default_rng(0)
    labels = draw.integers(0, classes, n)
    is_issue = draw.random(n) < 0.05
    names = [f"class {code}" for code in range(classes)]
    trust = np.where(is_issue, 0.3 * draw.random(n), 1 - 0.3 * draw.random(n))
    data = labelled("text", [("x" * 2_000, "y" * 20_000)] * n, labels, names, name="large")
    examples = pd.DataFrame(
        {
            "id": data.ids,
            "index": np.arange(n),
            "label": pd.Categorical.from_codes(labels, categories=names),
            "guess": pd.Categorical.from_codes(
                np.where(is_issue, (labels + 1) % classes, labels), categories=names
            ),
            "confidence": trust.astype(np.float32),
            "p_label": trust,
            "trust": trust,
            "kind": np.where(is_issue, "mislabelled", ""),
            "is_issue": is_issue,
        }
    )
    return of_examples(examples), data


def test_a_million_rows_and_a_thousand_classes_stay_small(tmp_path):
    audit, data = million(1000)
    started = time.perf_counter()
    page = page_of(audit, data, tmp_path)
    assert time.perf_counter() - started < 20
    assert len(page.data["items"]) == 500
    assert f"The 500 least trusted of {int(audit.examples['is_issue'].sum()):,} issues" in page.text
    assert "Show all: 970 other classes" in page.text
    assert "180 more pairs" in page.text
    assert page.count("table", class_="map") == 0


@pytest.mark.parametrize(
    "text", ["<" * 5000, "\u2028" * 5000, "🦆" * 5000, "&" * 10**6], ids=["signs", "lines", "ducks", "long"]
)
def test_texts_that_grow_when_they_are_escaped_still_fit(text, tmp_path):
    audit, data = texts([(text, text)] * 600)
    page = page_of(audit, data, tmp_path, limit=10**9)
    assert 100 <= len(page.data["items"]) <= 600
    assert f"of {len(text):,} characters" in page.text


def test_many_pictures_fit_by_becoming_smaller(tmp_path, monkeypatch):
    noise = np.random.default_rng(0).integers(0, 256, (120, 120, 120, 3), dtype=np.uint8)
    data = labelled("image", noise, np.arange(120) % 2, ["a", "b"])
    audit = audited(data, 1 - np.eye(2)[data.labels] * 0.99)
    roomy = page_of(audit, data, tmp_path)
    monkeypatch.setattr(suspects, "ROOM", suspects.ROOM / 15)
    page = page_of(audit, data, tmp_path)
    assert len(page.source) < len(roomy.source) / 3
    assert len(page.data["items"]) == 120
    assert page.source.count("data:image/webp") == 120


def test_long_texts_are_cut_and_say_so(tmp_path):
    page = page_of(*texts(["word " * 3000, "short"]), tmp_path)
    long, short = page.data["items"]
    assert len(long["texts"][0]) <= 4000
    assert long["texts"][0].endswith("…")
    assert long["folded"]
    assert long["note"] == "The first 4,000 of 15,000 characters."
    assert (short["folded"], short["note"]) == (False, "")


def test_without_a_history_or_budgets_the_page_leaves_them_out(tmp_path):
    audit, data = texts(["a", "b", "c"])
    bare = dataclasses.replace(audit, history=None, budgets=audit.budgets.head(0), about={})
    page = page_of(bare, data, tmp_path)
    assert "During training" not in page.text
    assert "How much to review" not in page.text
    assert page.data["curve"] is None


@pytest.mark.parametrize("held", [False, True])
def test_what_confidence_and_trust_are_is_said_as_the_run_had_them(held, tmp_path):
    audit, data = texts(["a", "b", "c"])
    page = page_of(dataclasses.replace(audit, about={"held": held}), data, tmp_path)
    start = f"{audit.history[1][0][0]:.4g}"
    for sentences in (about.CONFIDENCE_IS, about.TRUST_FROM, about.CHECKED_BY):
        own, other = (sentences[which].format(start=start) for which in (held, not held))
        assert own in page.text
        assert other not in page.text


def test_where_nothing_is_wrong_the_least_trusted_are_shown(tmp_path):
    audit, data = digits()
    examples = audit.examples.assign(is_issue=False, kind="", trust=np.linspace(1, 0.99, len(audit.examples)))
    page = page_of(of_examples(examples), data, tmp_path)
    assert "No example is listed as an issue. These are the least trusted." in page.text
    assert [item["index"] for item in page.data["items"]] == list(range(1796, 1776, -1))
    assert "not listed" in page.text


def test_one_example_and_one_issue(tmp_path):
    page = page_of(*texts(["only"]), tmp_path)
    assert "The one issue." in page.text
    assert "About 1 of 1 label in data is wrong" in page.text


def test_values_that_are_not_numbers_do_not_break_the_page(tmp_path):
    audit, data = texts(["a", "b", "c"])
    examples = audit.examples.assign(confidence=np.float32("nan"), trust=[0.1, np.nan, 0.2])
    broken = dataclasses.replace(audit, examples=examples)
    page = page_of(broken, data, tmp_path)
    assert [item["trust"] for item in page.data["items"]] == [0.1, 0.2, None]
    assert page.data["items"][0]["confidence"] is None


def test_the_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    audit, data = texts(["a", "b"])
    path = tmp_path / "report.html"
    path.write_text("the old report")

    def full_disk(self, content):
        with self.open("wb") as file:
            file.write(content[:1000])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "write_bytes", full_disk)
        with pytest.raises(OSError, match="No space left"):
            write_report(audit, data, path)
    assert path.read_text() == "the old report"
    assert list(tmp_path.iterdir()) == [path]


def test_the_same_audit_gives_the_same_bytes(tmp_path):
    for name in ("a.html", "b.html"):
        write_report(*tumours(), tmp_path / name)
    assert (tmp_path / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()


def test_limit_and_lengths_are_checked(tmp_path):
    audit, data = texts(["a", "b", "c"])
    page = page_of(audit, data, tmp_path, limit=2)
    assert len(page.data["items"]) == 2
    assert "The 2 least trusted of 3 issues" in page.text
    with pytest.raises(InputError, match="limit must be at least 1, got 0"):
        write_report(audit, data, tmp_path / "no.html", limit=0)
    with pytest.raises(InputError, match="3 examples but the data 1"):
        write_report(audit, texts(["a"])[1], tmp_path / "no.html")


def colours(css):
    """The variables of the light and of the dark theme."""
    blocks = re.findall(r":root[^{]*\{([^}]*)\}", css)
    return [dict(re.findall(r"--([\w-]+): (#\w+);", block)) for block in blocks]


def luminance(colour):
    digits = colour[1:] if len(colour) == 7 else "".join(2 * sign for sign in colour[1:])
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return np.dot([0.2126, 0.7152, 0.0722], linear)


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_text_stands_out_from_its_ground_in_light_and_dark(tmp_path):
    (css,) = [text for tag, text in page_of(*texts(["a"]), tmp_path).raw if tag == "style"]
    light, dark, chosen = colours(css)
    assert dark == chosen
    grounds = {
        "ink": ("page", "card", "well"),
        "soft": ("page", "card", "well"),
        "good-ink": ("page", "card"),
        "bad-ink": ("card", "bad-soft"),
        "torn-ink": ("torn-soft",),
    }
    for theme in (light, dark):
        for ink, behind in grounds.items():
            for ground in behind:
                assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
        assert contrast(theme["edge"], theme["card"]) >= 3
