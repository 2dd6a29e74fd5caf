"""The report of a folder: every kind of record has its section, nobody's row is in it."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from cofill.cli._app import run
from cofill.completion._completed import Completed
from cofill.completion._distributions import LEAST, Agreement, _merged, distributions
from cofill.errors import DataError
from cofill.pages import Section
from cofill.privacy import Ledger, LedgerEntry
from cofill.report import SECTIONS as MAKERS
from cofill.report import find_records, report_page, write_report
from cofill.report._releases import releases
from cofill.views import MultiView, View

from .conftest import ATTACK, AUDIT, IDS, SECTIONS


def test_every_kind_of_record_is_recognised(everything):
    found = find_records(everything)
    kinds = {r.kind for r in found.known}
    assert kinds == {
        "completion", "result", "ledger", "audit", "clustering", "attack", "outcome"
    }  # fmt: skip
    assert found.unknown == ("strange.json",)
    assert list(found.damaged) == ["broken.json"]


def test_every_section_is_there_in_order(everything):
    page = report_page(everything)
    assert tuple(s.anchor for s in page.sections) == SECTIONS
    assert "could not be made" not in page.html()


def test_figures_of_the_records_are_shown(report_file):
    text = report_file.read_text()
    words = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    for said in (
        "60 individuals in 2 views",
        "20.50 ± 0.71",  # PSNR over two repeats
        "near-total",
        "claim refuted",
        "2 releases crossed a border",
        "95.0 %",  # the attack
        "strange.json",
        "broken.json",
        "a site with 100 pairs",  # threat model on hover
        "2,880 B",
    ):
        assert said in words, said
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


def test_a_record_that_lacks_something_costs_its_section_only(tmp_path):
    (tmp_path / "audit.json").write_text('{"format": "cofill-audit", "verdict": "small"}')
    outcome = {"run": "r", "experiment": "e", "state": "finished", "metrics": {}}
    (tmp_path / "metrics.json").write_text(json.dumps(outcome))
    made = report_page(tmp_path).html()
    assert "This part could not be made" in made
    assert "Between the machines" in made


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
    made = report_page(tmp_path, sections=(releases,)).html()
    assert "977 other parties" in made
    assert "1,000 releases between 1001 parties" in made
    figure = re.search(r'class="figure">(.*?)</script>', made, flags=re.DOTALL)[1]
    assert len(json.loads(figure)["data"][0]["node"]["label"]) == 25


def test_ones_own_section_can_be_added(everything):
    def mine(records):
        return Section("Mine", f"{len(records.of('audit'))} audits")

    page = report_page(everything, sections=(*MAKERS, mine))
    assert page.sections[-2].title == "Mine"


def test_keys_of_a_kit_are_not_opened(tmp_path):
    kit = tmp_path / "kits" / "north"
    for name in ("startup/fed_client.json", "cofill/identity.json"):
        (kit / name).parent.mkdir(parents=True, exist_ok=True)
        (kit / name).write_text("{")
    (kit / "cofill" / "runs" / "r1").mkdir(parents=True)
    note = {"order": {"run": "r1"}, "state": "running", "next": 1, "steps": 5}
    (kit / "cofill" / "runs" / "r1" / "run.json").write_text(json.dumps(note))
    found = find_records(tmp_path)
    assert [r.kind for r in found.known] == ["run"]
    assert not found.unknown
    assert not found.damaged


def test_an_empty_or_missing_folder_is_one_sentence(tmp_path, capsys):
    with pytest.raises(DataError, match="holds no result"):
        report_page(tmp_path)
    assert run(["report", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_nothing_half_written(everything, tmp_path):
    with pytest.raises(DataError, match="cannot be written"):
        write_report(everything, tmp_path / "no" / "report.html")
    assert not list(tmp_path.iterdir())


def counted(values):
    values = np.asarray(values, dtype=float)
    people = MultiView(
        [View("a", np.arange(len(values)), values[:, None]), View("b", [0], [[1.0]])]
    )
    done = Completed.merge(people, {"b": np.full((len(values), 1), 2.0)})
    return distributions(done)


@pytest.mark.parametrize("seed", range(5))
def test_no_bin_tells_of_fewer_than_three_people(seed):
    rng = np.random.default_rng(seed)
    values = np.concatenate([rng.normal(size=rng.integers(3, 80)), [1e6, -1e6]])
    found = counted(values)["a"]["a_0"]
    assert sum(found["observed"]) == len(values)
    assert all(n == 0 or n >= LEAST for n in found["observed"])
    assert len(found["edges"]) == len(found["observed"]) + 1
    assert not np.isin(np.abs(found["edges"]), np.abs(values)).any()


def test_merging_never_leaves_a_small_count():
    rng = np.random.default_rng(0)
    for _ in range(200):
        counts = rng.integers(0, 5, size=(2, rng.integers(1, 12)))
        groups = _merged(counts)
        if groups is None:
            assert ((counts.sum(axis=1) > 0) & (counts.sum(axis=1) < LEAST)).any()
            continue
        assert [k for group in groups for k in group] == list(range(counts.shape[1]))
        for group in groups:
            total = counts[:, group].sum(axis=1)
            assert ((total == 0) | (total >= LEAST)).all()


def test_rare_categories_are_told_together():
    names = ["x"] * 10 + ["y"] * 5 + ["z", "only"]
    frame = pd.DataFrame({"id": np.arange(len(names)), "kind": names})
    people = MultiView.from_frames({"a": frame}, id="id")
    found = distributions(Completed.merge(people, {}))["a"]["kind"]
    assert "only" not in found["values"]
    assert found["values"][-1] == "other"
    assert min(n for n in found["observed"] if n) >= LEAST
    assert sum(found["observed"]) == 17


def test_agreement_needs_three_people_in_a_cell():
    cells = np.array([[0.0], [0.0], [0.0], [5.0], [5.0], [1.0]])
    truth = MultiView([View("a", np.arange(6), cells)])
    counter = Agreement()
    for _ in range(3):  # the same people, whom several seeds may hide
        counter.add(Completed.merge(truth, {}), truth, {"a": np.ones(6, bool)})
    found = counter.to_json()["views"]["a"]
    assert [count for *_, count in found] == [9]  # three at 0; two people thrice are still two
