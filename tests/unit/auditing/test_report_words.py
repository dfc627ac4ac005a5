"""What an audit says in words, and that a user's own words can be said at all."""

import dataclasses
import json
import math
import re

import numpy as np
import pandas as pd
import pytest
from report_audits import HOSTILE, digits, texts

import icelens
from icelens.auditing.evidence import LEAST_GAIN
from icelens.auditing.report.charts import curve
from icelens.auditing.report.foreign import isolated, one_line, script_json, shown
from icelens.auditing.report.words import (
    beside,
    doubt,
    expected,
    headline,
    next_step,
    number,
    percent,
    rate,
    why,
)
from icelens.auditing.result import AMBIGUOUS, MISLABELLED, Estimate


def audit_with(errors, low, high, *, examples=13_000, issues=0, budgets=None):
    one, _ = texts(["a text"])
    rows = pd.concat([one.examples] * examples, ignore_index=True)
    rows["is_issue"] = rows.index < issues
    budgets = pd.DataFrame(budgets if budgets is not None else {"n": [100, 1000], "errors": [87.2, 400.0]})
    return dataclasses.replace(one, examples=rows, estimate=Estimate(errors, low, high), budgets=budgets)


@pytest.mark.parametrize(
    ("estimate", "examples", "sentence"),
    [
        (
            (411.7, 350.2, 479.6),
            13_000,
            "About 412 of 13,000 labels in reviews.csv are wrong (90 % interval 350 to 480), 3.2 %.",
        ),
        ((1.2, 0, 4.4), 150, "About 1 of 150 labels in reviews.csv is wrong (90 % interval 0 to 4), 1 %."),
        (
            (0.3, 0, 3),
            1797,
            "None of 1,797 labels in reviews.csv seems to be wrong (90 % interval 0 to 3).",
        ),
        ((0.9, 0, 1), 1, "About 1 of 1 label in reviews.csv is wrong (90 % interval 0 to 1), 100 %."),
        (
            (3, 1, 5),
            13_000,
            "About 3 of 13,000 labels in reviews.csv are wrong (90 % interval 1 to 5), <0.1 %.",
        ),
    ],
)
def test_the_headline_is_one_sentence(estimate, examples, sentence):
    assert headline(audit_with(*estimate, examples=examples), "reviews.csv") == sentence


def test_a_name_in_the_headline_leaves_the_order_of_the_words_alone():
    said = headline(audit_with(412, 350, 480), "\u202eשלום\u202c.csv")
    assert "\u202e" not in said
    assert "labels in \u2068שלום.csv\u2069 are wrong" in said


@pytest.mark.parametrize(
    ("issues", "beginning"),
    [
        (0, "No label stands out as wrong; look at the 20 least trusted examples, or give"),
        (1, "Look at the one suspect"),
        (50, "Look through the suspects from the top: about 44 of the 50 listed should really be wrong."),
        (500, "Look through the suspects from the top: about 87 of the first 100 should really be wrong."),
    ],
)
def test_the_next_step_says_what_to_expect(issues, beginning):
    assert next_step(audit_with(412, 350, 480, examples=600, issues=issues)).startswith(beginning)


@pytest.mark.parametrize(
    ("found", "part"),
    [
        (5.8, "nearly all of the 6 listed"),
        (5.4, "about 5 of the 6 listed"),
        (0.3, "hardly any of the 6 listed"),
    ],
)
def test_a_part_that_is_rounded_to_all_or_none_is_not_called_a_number(found, part):
    few = audit_with(7.6, 3, 12, examples=60, issues=6, budgets={"n": [6, 60], "errors": [found, 7.6]})
    assert f": {part} should really be wrong." in next_step(few)


@pytest.mark.parametrize("errors", [7.4, 7.6, 8.4, 22.8, 411.7])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.77, 0.97, 1.0])
def test_what_is_said_of_the_list_comes_to_what_the_headline_says(errors, share):
    budgets = {"n": [29, 600], "errors": [share * errors, errors]}
    audit = audit_with(errors, 0.5 * errors, 2 * errors, examples=600, issues=29, budgets=budgets)
    (total,) = re.findall(r"^About (\d+) of 600", headline(audit, "a.csv"))
    (part,) = re.findall(r", (\d+) %", headline(audit, "a.csv"))
    assert int(part) == round(100 * int(total) / 600)
    said = beside(audit)
    if not said:
        assert round(share * errors) == int(total)
        return
    held, told, others, rest = map(int, re.findall(r"\d+", said))
    assert (told, held + others, rest) == (int(total), int(total), 571)
    assert beside(audit_with(errors, 0, 2 * errors, examples=600, issues=0, budgets=budgets)) == ""


def test_a_list_that_should_hold_none_of_them_is_not_told_by_numbers():
    budgets = {"n": [1], "errors": [0.4]}
    assert beside(audit_with(1, 0, 2, examples=80, issues=1, budgets=budgets)) == ""


def test_where_nothing_is_wrong_there_is_nothing_to_review():
    said = next_step(audit_with(0.2, 0, 2, examples=600, issues=0))
    assert said == "There is nothing that you must review; to be sure, look at the 20 least trusted examples."


def test_the_next_step_promises_nothing_where_no_budget_was_estimated():
    audit = audit_with(412, 350, 480, examples=600, issues=500, budgets={"n": [], "errors": []})
    assert next_step(audit) == "Look through the suspects from the top. Correct or drop what you find."
    sure = audit_with(412, 350, 480, examples=600, issues=500, budgets={"n": [100], "errors": [99.6]})
    assert "nearly all of the first 100" in next_step(sure)


def test_errors_between_two_budgets_are_interpolated():
    audit = audit_with(412, 350, 480, examples=20, budgets={"n": [200, 100], "errors": [150.0, 90.0]})
    assert expected(audit, [0, 50, 100, 150, 999]).tolist() == [0, 45, 90, 120, 150]


def example(**changes):
    told = {"label": "politics", "guess": "sport", "p_label": 0.01, "confidence": 0.021, "kind": MISLABELLED}
    return {**told, **changes}


@pytest.mark.parametrize(
    ("changes", "classes", "sentence"),
    [
        (
            {"p_guess": 0.97},
            4,
            "The model is sure of 'sport' (97 %) and gives the label 'politics' 1 %; "
            "confidence ended at 0.02 in training.",
        ),
        (
            {},
            2,
            "The model is sure of 'sport' (99 %) and gives the label 'politics' 1 %; "
            "confidence ended at 0.02 in training.",
        ),
        (
            {"p_guess": 0.6, "p_label": 0.33, "confidence": 0.9},  # which is no certainty, whatever the kind
            4,
            "The model leans to 'sport' (60 %) and gives the label 'politics' 33 %; "
            "confidence ended at 0.90 in training.",
        ),
        (
            {"p_guess": 0.45, "p_label": 0.4, "kind": AMBIGUOUS, "confidence": 0.96},
            4,
            "The model is torn: it gives 'sport' 45 % and the label 'politics' 40 %; "
            "confidence ended at 0.96 in training.",
        ),
        (
            {},
            4,
            "The model says 'sport' and gives the label 'politics' 1 %; "
            "confidence ended at 0.02 in training.",
        ),
        (
            {"guess": "politics", "p_label": 0.38, "kind": AMBIGUOUS, "confidence": 0.7},
            2,
            "The model is torn: it agrees with 'politics' but gives it only 38 %; "
            "confidence ended at 0.70 in training.",
        ),
        (
            {"label": "עברית", "p_label": 0.001, "confidence": math.nan},
            4,
            "The model says 'sport' and gives the label '\u2068עברית\u2069' <1 %; confidence is not known.",
        ),
    ],
)
def test_why_is_one_plain_sentence(changes, classes, sentence):
    assert why(example(**changes), classes) == sentence


def test_numbers_are_written_as_people_write_them():
    assert [percent(p) for p in (0, 0.004, 0.87, 0.996, 1, math.nan)] == [
        "0 %", "<1 %", "87 %", ">99 %", "100 %", "?",
    ]  # fmt: skip
    assert [rate(p) for p in (0, 0.0004, 0.0317, 1)] == ["0 %", "<0.1 %", "3.2 %", "100.0 %"]
    assert [number(x) for x in (25.380001, 1234.5, 1e15, math.nan, math.inf)] == [
        "25.38", "1,234", "1e+15", "missing", "inf",
    ]  # fmt: skip
    assert number(0.123456, 3) == "0.123"


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_shown_can_be_written_and_drives_no_terminal(text):
    for safe in (shown(text, 200), one_line(text)):
        safe.encode()
        assert not any(ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 for sign in safe)


def test_texts_are_cut_and_names_are_one_line():
    assert shown("abcdef", 6) == "abcdef"
    assert shown("abcdefg", 6) == "abcde…"
    assert shown("a\r\nb\rc\td", 20) == "a\nb\nc\td"
    assert one_line("a\n\n b\t c") == "a b c"
    assert one_line("\u202eabc\u2066") == "abc"
    assert one_line(" " * 3000 + "x", 80) == "x"
    assert one_line("x" * 10**6, 80) == "x" * 79 + "…"
    assert isolated("plain") == "plain"


@pytest.mark.parametrize("text", [*HOSTILE, "\u2028", "&amp;"])
def test_json_in_a_script_cannot_end_it_and_says_the_same(text):
    safe = shown(text, 500)
    written = script_json({safe: [safe]})
    assert not set("<>&\u2028\u2029") & set(written)
    assert json.loads(written) == {safe: [safe]}


def test_json_refuses_what_is_no_json():
    with pytest.raises(ValueError, match="Out of range"):
        script_json(math.nan)


def test_a_doubt_is_said_only_where_there_is_reason():
    audit = audit_with(200, 160, 240)
    assert doubt(audit) == ""  # an audit that does not tell
    for about in ({"contradicted": 250, "explained": [180, 230]}, {"contradicted": 0, "explained": [0, 290]}):
        assert doubt(dataclasses.replace(audit, about=about)) == ""
    torn = doubt(dataclasses.replace(audit, about={"contradicted": 250, "explained": [150, 2159.4]}))
    assert "150 to 2,159 would explain" in torn
    # The interval holds all that explains the labels.
    wide = dataclasses.replace(audit_with(97, 15, 270), about={"contradicted": 180, "explained": [21, 267]})
    assert "21 to 267 would explain" in doubt(wide)
    pattern = doubt(dataclasses.replace(audit, about={"contradicted": 6723, "explained": [180, 230]}))
    assert pattern.startswith("The model contradicts 6,723 labels.")
    assert doubt(audit_with(2, 1, 3, examples=40)).startswith("With 40 examples")
    many = audit_with(200, 100, 300, examples=400)
    labels = {"label": [f"class {row // 4}" for row in range(400)]}
    rare = dataclasses.replace(many, examples=many.examples.assign(**labels))
    assert doubt(rare).startswith("With 400 examples of 100 classes, go by the order")


def test_where_nothing_was_learned_nothing_is_promised():
    audit = audit_with(300, 200, 400, examples=1000, issues=345)
    promised = next_step(audit)
    learned = dataclasses.replace(audit, about={"contradicted": 900, "explained": [10, 900], "gain": 12.0})
    assert next_step(learned) == promised
    assert "next to nothing" not in doubt(learned)
    nothing = dataclasses.replace(audit, about={**learned.about, "gain": 9.9})
    assert doubt(nothing).startswith("The model learned next to nothing here")
    assert next_step(nothing).startswith("Look at a few suspects from the top")
    assert beside(nothing) == ""
    assert curve(nothing) is None
    assert curve(learned) is not None
    few = dataclasses.replace(audit_with(3, 1, 5, examples=40, issues=4), about={"gain": 2.0})
    assert next_step(few) == next_step(audit_with(3, 1, 5, examples=40, issues=4))  # they hold no more
    none_listed = dataclasses.replace(audit_with(300, 200, 400, examples=1000), about={"gain": 9.9})
    assert next_step(none_listed) == next_step(audit_with(300, 200, 400, examples=1000))


def test_labels_by_chance_are_told_to_be_that():
    """Columns and labels have nothing to do with each other."""
    draw = np.random.default_rng(0)
    audit = icelens.audit(draw.normal(size=(400, 10)), draw.integers(2, size=400), device="cpu")
    assert audit.about["gain"] < LEAST_GAIN
    assert doubt(audit).startswith("The model learned next to nothing here")


def test_real_digits_have_a_headline():
    audit, data = digits()
    assert headline(audit, data.name).startswith("About ")
