"""The report of a folder: every kind of record has its section, nobody's row is in it."""

import json
import re

import pytest

from cofill.cli._app import run
from cofill.errors import DataError, StoreError
from cofill.privacy import Ledger, LedgerEntry
from cofill.report import find_records, report_page, write_report

from .conftest import ATTACK, AUDIT, IDS, SECTIONS


def test_every_kind_of_record_is_recognised(everything):
    records = find_records(everything)
    kinds = {r.kind for r in records.known}
    assert kinds == {
        "completion", "result", "ledger", "audit", "clustering", "attack", "outcome"
    }  # fmt: skip
    assert records.unknown == ("strange.json",)
    assert list(records.damaged) == ["broken.json"]


def test_every_section_is_there_in_order(everything):
    page = report_page(everything)
    assert tuple(s.anchor for s in page.sections) == SECTIONS
    assert "could not be made" not in page.html()


def test_figures_of_the_records_are_shown(report_file):
    text = report_file.read_text()
    words = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    for phrase in (
        "60 individuals in 2 views",
        "20.50 ± 0.71",  # PSNR over two repeats
        "near-total",
        "ε ≥ 1.2: refuted",
        "2 releases crossed a border",
        "95.0 %",  # the attack
        "strange.json",
        "broken.json",
        "a site with 100 pairs",  # the threat model
        "2,880 B",
    ):
        assert phrase in words, phrase
    epsilon = re.search(r"lab: ε = ([\d.]+) at δ = 1e-05", words)[1]
    assert float(epsilon) == pytest.approx(1.0, rel=0.02)


def test_nobody_is_in_the_report(report_file, everything):
    text = report_file.read_text()
    assert not any(person in text for person in IDS)
    rows = (everything / "completed" / "clinic.csv").read_text().splitlines()[1:]
    weights = [row.split(",")[2] for row in rows]
    assert not any(weight in text for weight in weights)


def test_small_enough(report_file):
    assert report_file.stat().st_size < 6_000_000


def test_a_story_makes_chapters(everything, tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "audit.json").write_text(json.dumps(AUDIT))
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "audit.json").write_text(json.dumps(AUDIT))
    chapters = [
        {"folder": "two", "title": "The second", "words": ["It comes first."]},
        {"folder": "one", "title": "The first"},
    ]
    story = {"format": "cofill-story", "version": 1, "title": "A tale", "chapters": chapters}
    (tmp_path / "story.json").write_text(json.dumps(story))
    (tmp_path / "attack.json").write_text(json.dumps(ATTACK))
    page = report_page(tmp_path)
    assert page.title == "A tale"
    assert [s.title for s in page.sections] == [
        "Summary", "The second", "The first", "What a released mean gave away"
    ]  # fmt: skip
    assert [p.anchor for p in page.sections[1].parts] == ["the-second-audit"]
    assert "It comes first." in page.html()


def test_what_was_not_sent_does_not_count_as_leaked(tmp_path):
    for name, verdict in (("real", "small"), ("imagined", "near-total")):
        (tmp_path / name).mkdir()
        audit = {**AUDIT, "verdict": verdict, "title": name}
        (tmp_path / name / "audit.json").write_text(json.dumps(audit))
    chapters = [{"folder": "real"}, {"folder": "imagined", "sent": False}]

    def leak(chapters):
        story = {"format": "cofill-story", "version": 1, "chapters": chapters}
        (tmp_path / "story.json").write_text(json.dumps(story))
        html = report_page(tmp_path).html()
        return re.search(r"leak about a person.*?<dd>(.*?)</dd>", html)[1], html

    tile, html = leak(chapters)
    assert tile == "small"
    assert "had they been sent" in html
    assert leak([{"folder": "real"}, {"folder": "imagined"}])[0] == "near-total"


def test_a_record_that_lacks_something_costs_its_section_only(tmp_path):
    (tmp_path / "audit.json").write_text('{"format": "cofill-audit", "verdict": "small"}')
    outcome = {"run": "r", "experiment": "e", "state": "finished", "metrics": {}}
    (tmp_path / "metrics.json").write_text(json.dumps(outcome))
    html = report_page(tmp_path).html()
    assert "This part could not be made" in html
    assert "Between the machines" in html


def test_a_changed_ledger_is_told(tmp_path, everything):
    line = (everything / "ledger.jsonl").read_text().replace("2880", "1")
    (tmp_path / "ledger.jsonl").write_text(line)
    assert "the entry was changed" in report_page(tmp_path).html()


def test_a_thousand_sites_are_told_together(tmp_path):
    sent = [
        LedgerEntry("r", "update", f"site {k}", "coordinator", 9, 1000 - k, None, {})
        for k in range(1000)
    ]
    Ledger(sent).save(tmp_path / "ledger.jsonl")
    html = report_page(tmp_path).html()
    assert "977 other parties" in html
    assert "1,000 releases between 1001 parties" in html
    figure = re.search(r'class="figure">(.*?)</script>', html, flags=re.DOTALL)[1]
    assert len(json.loads(figure)["data"][0]["node"]["label"]) == 25


def test_keys_of_a_kit_are_not_opened(tmp_path):
    kit = tmp_path / "kits" / "north"
    for name in ("startup/fed_client.json", "cofill/identity.json"):
        (kit / name).parent.mkdir(parents=True, exist_ok=True)
        (kit / name).write_text("{")
    (kit / "cofill" / "runs" / "r1").mkdir(parents=True)
    note = {"order": {"run": "r1"}, "state": "running", "next": 1, "at": 1, "steps": 5}
    (kit / "cofill" / "runs" / "r1" / "run.json").write_text(json.dumps(note))
    records = find_records(tmp_path)
    assert [r.kind for r in records.known] == ["run"]
    assert not records.unknown
    assert not records.damaged


def test_an_empty_or_missing_folder_is_one_sentence(tmp_path, capsys):
    with pytest.raises(DataError, match="holds no result"):
        report_page(tmp_path)
    assert run(["report", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_nothing_half_written(everything, tmp_path):
    with pytest.raises(StoreError, match="cannot be written"):
        write_report(everything, tmp_path / "no" / "report.html")
    assert not list(tmp_path.iterdir())
