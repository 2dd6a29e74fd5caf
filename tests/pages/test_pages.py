"""The page toolkit without a browser: what is escaped, what is refused, what is inlined."""

import base64
import hashlib
import json
import re
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from markupsafe import Markup

import cofill.pages as pages
from cofill.errors import SettingError
from cofill.pages import (
    Line,
    Page,
    Quantity,
    Section,
    badge,
    bars,
    bullets,
    choice,
    code,
    density,
    details,
    element,
    flow,
    heading,
    heat_map,
    hint,
    histogram,
    image_rows,
    key_figures,
    lines,
    note,
    paragraph,
    picture,
    plot,
    strong,
    table_html,
)

EVIL = """<script>alert(1)</script>"'&</script><!--"""
FIGURE = bars([EVIL], {EVIL: [(1.0, 0.1)]}, axis=EVIL)
PARTS = {
    "words": EVIL,
    "badge": badge(EVIL, "bad"),
    "bullets": bullets([EVIL]),
    "choice": choice(EVIL, {EVIL: EVIL, "other": EVIL}),
    "code": code(EVIL),
    "details": details(EVIL, EVIL),
    "element": element("p", EVIL, title=EVIL),
    "figures": key_figures([(EVIL, EVIL, EVIL)]),
    "heading": heading(EVIL),
    "hint": hint(EVIL, EVIL),
    "images": image_rows({EVIL: np.zeros((1, 2, 2))}, caption=EVIL),
    "note": note(EVIL),
    "paragraph": paragraph(EVIL, Quantity(1.0, unit=EVIL, words=EVIL)),
    "picture": picture(f"<svg>{EVIL}</svg>", caption=EVIL, alt=EVIL),
    "plot": plot(FIGURE, EVIL, EVIL),
    "strong": strong(EVIL),
    "table": table_html([EVIL, "n"], [[EVIL, 1]], caption=EVIL, hints={EVIL: EVIL}),
}


class Reader(HTMLParser):
    """Notes what a page refers to and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.inside, self.links, self.scripts = False, [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.inside = tag == "script"
        self.links += [v for k, v in attrs if k in ("src", "href", "srcset", "action", "data")]
        if tag == "script":
            self.scripts.append([dict(attrs), ""])

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1][1] += data


@pytest.mark.parametrize("part", PARTS)
def test_no_word_becomes_markup(part):
    page = Page(EVIL, EVIL, [Section(EVIL, PARTS[part], "one", EVIL)], EVIL).html()
    reader = Reader(page)
    scripts = [text for attrs, text in reader.scripts if "type" not in attrs]
    assert not any("alert(1)" in text for text in scripts)
    assert len(scripts) == (2 if part == "plot" else 1)
    assert page.count("<!--") == sum(text.count("<!--") for text in scripts)
    for attrs, text in reader.scripts:
        if attrs.get("type") == "application/json":
            drawn = json.loads(text)["data"][0]
            assert [unescape(word) for word in (*drawn["x"], drawn["name"])] == [EVIL] * 2
            assert "<" not in drawn["x"][0]  # plotly knows some markup of its own
            assert "<" not in text


def test_a_page_asks_for_nothing_and_runs_only_its_own_scripts():
    page = Page("t", "", [Section("s", PARTS["plot"])]).html()
    reader = Reader(page)
    assert [link for link in reader.links if not link.startswith(("#", "data:"))] == []
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert policy.startswith("default-src 'none'")
    assert "unsafe-eval" not in policy
    assert "http" not in policy
    scripts = [text for attrs, text in reader.scripts if "type" not in attrs]
    for text in scripts:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    assert "connect-src" not in policy
    assert "connect-src 'self'" in Page("t", script="1").html()


def test_plotly_is_there_once_and_only_for_plots():
    plots = Markup(PARTS["plot"] * 3)
    with_plots = Page("t", "", [Section("s", plots)]).html()
    assert with_plots.count("plotly.js v") == 1
    assert len(with_plots.encode()) < 5_200_000
    without = Page("t", "", [Section("s", EVIL)]).html()
    assert len(without) < 30_000


def test_headings_anchors_and_labels():
    inner = Section("Inner", "x", "inner")
    page = Page("T", "", [Section("Outer part", "y", parts=[inner])]).html()
    assert 'href="#outer-part"' in page
    assert '<h2 id="outer-part-title">' in page
    assert '<h3 id="inner-title">' in page
    assert page.index('class="skip"') < page.index("<header>") < page.index("<main")
    with pytest.raises(SettingError, match="anchor 'inner'"):
        Page("T", "", [inner, Section("Other", "", parts=[inner])])
    with pytest.raises(SettingError, match="title"):
        Section(" ", "x")


def test_tables_align_numbers_and_say_what_they_leave_out():
    rows = [["a", 1, None], ["b", 2.5, "word"], ["c", Quantity(1, 2), None]]
    page = table_html(["name", "n", "mixed"], rows, most=2, strong_rows=[1])
    assert page.count('class="n"') == 3  # heading and two cells
    assert "<td>–</td>" in page
    assert "1 more rows are not shown" in page
    assert '<tr class="strong">' in page
    with pytest.raises(SettingError, match="3 cells"):
        table_html(["a", "b", "c"], [["x"]])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Quantity(None), "–"),
        (Quantity(float("nan"), 1), "–"),
        (Quantity(-2.5, 0.5, "dB", 1), "−2.5 ± 0.5 dB"),
        (Quantity(float("inf")), "∞"),
        (Quantity(1234567), "1,234,567"),
        (Quantity(0.000012345), "1.234e−05"),
    ],
)
def test_numbers_are_written_for_people(value, shown):
    assert str(value) == shown


def test_figures_check_their_shapes_and_hide_what_is_not_finite():
    with pytest.raises(SettingError, match="2 entries"):
        bars(["a", "b"], {"s": [1]}, axis="")
    with pytest.raises(SettingError, match="1 bins"):
        histogram([0, 1], {"s": [1, 2]}, axis="", unit="")
    with pytest.raises(SettingError, match="same number"):
        image_rows({"a": np.zeros((1, 2, 2)), "b": np.zeros((2, 2, 2))}, caption="")
    drawn = {
        "lines": lines({"a": Line([1, 2], [np.nan, np.inf], [0, 0], [1, 1])}, x_axis="", y_axis=""),
        "heat": heat_map([[np.nan, 1.0]], ["r"], ["a", "b"], scale="s"),
        "density": density([[0, 5]], [0, 1, 2], [0, 1], x_axis="", y_axis=""),
        "flow": flow([("a", "b", "w", 0)]),
    }
    for figure in drawn.values():
        assert "NaN" not in plot(figure, "", "")
        assert "Infinity" not in plot(figure, "", "")
    assert drawn["density"]["data"][0]["z"].tolist()[0][1] == 5
    assert np.isnan(drawn["density"]["data"][0]["z"][0][0])


def test_the_public_names_are_those_listed():
    assert sorted(pages.__all__, key=str.lower) == sorted(set(pages.__all__), key=str.lower)
    for name in pages.__all__:
        assert hasattr(pages, name)
