"""The demo: only an earlier one is replaced, and every chapter leaves its records."""

import json

import pytest

from cofill.cli._app import run
from cofill.demo import CHAPTERS
from cofill.demo._clinics import _mean_image_errors
from cofill.demo._story import _prepare_folder
from cofill.errors import DataError
from cofill.views import MultiView


def test_only_an_earlier_demo_is_replaced(tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    with pytest.raises(DataError, match="no earlier demo"):
        _prepare_folder(mine)
    assert (mine / "thesis.txt").read_text() == "years of work"
    (mine / ".cofill-demo").touch()
    _prepare_folder(mine)
    assert list(mine.iterdir()) == []


def test_a_file_in_the_way_is_one_sentence_and_code_2(tmp_path, capsys):
    (tmp_path / "demo").write_text("x")
    assert run(["demo", "--out", str(tmp_path / "demo")]) == 2
    assert "no earlier demo" in capsys.readouterr().err


def test_the_mean_image_is_judged_on_the_scale_of_the_images():
    held = {"a": MultiView.from_arrays({"image": [[0.0, 16.0]] * 2, "edge": [[16.0, 16.0]] * 2})}
    test = MultiView.from_arrays({"image": [[0.0, 0.0]], "edge": [[16.0, 16.0]]})
    errors = _mean_image_errors(held, test)
    assert errors == pytest.approx({"x2y": 0.0, "y2x": 255**2 / 2, "all": 255**2 / 4})


@pytest.mark.full
def test_the_story_ends_in_a_report_of_every_chapter(tmp_path, capsys):
    out = tmp_path / "demo"
    assert run(["demo", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    page = (out / "report.html").read_text(encoding="utf-8")
    for chapter in CHAPTERS:
        assert chapter.title in printed
        assert chapter.title in page
        assert (out / chapter.folder).is_dir()
    mean = json.loads((out / "release" / "audit.json").read_text())
    verdicts = {release["kind"]: release for release in mean["releases"]}
    assert "mean" in verdicts
    audit = json.loads((out / "audit" / "audit.json").read_text())
    assert audit["verdict"] == "none seen"
    kinds = {release["kind"] for release in audit["releases"]}
    assert {"masked-rows", "opened-shares", "masked-vector", "model"} <= kinds
    assert not kinds & {"codes", "blinded-ids", "update", "column-summary"}
    codes = json.loads((out / "codes" / "audit.json").read_text())
    assert codes["verdict"] == "near-total"
    assert "completed cells themselves: none seen" in printed
    bars = json.loads((out / "story.json").read_text())["chapters"][-1]["bars"]["series"]
    assert max(bars["from shares (by default)"]) < 0.1 < 0.9 < min(bars["from codes"])
    assert run(["demo", "--out", str(out), "--json"]) == 0  # again, over the earlier one
    facts = json.loads(capsys.readouterr().out)
    assert facts["report"] == str((out / "report.html").resolve())
    assert facts["verdicts"] == {**facts["verdicts"], "audit": "none seen", "codes": "near-total"}
    private, codes = (facts["completion"][f"{m}/mse/all"] for m in ("private", "cooperative"))
    assert private < 1.05 * codes
    assert facts["clinics"]["federated/psnr/all"] > facts["clinics"]["mean/psnr/all"] + 5
