"""`cofill report` as its user meets it: one file out, one sentence when it cannot be."""

import json

from cofill.cli._app import run
from cofill.metrics import ResultRecord


def write_record(folder):
    values = {"ours/mse/lab": [0.2, 0.3], "mean/mse/lab": [1.0, 1.1]}
    ResultRecord("evaluation", seeds=[0, 1], values=values).write(folder / "evaluation.json")


def test_the_report_lies_in_the_folder_or_where_it_was_asked(tmp_path, capsys):
    write_record(tmp_path)
    assert run(["report", str(tmp_path)]) == 0
    assert str(tmp_path / "report.html") in capsys.readouterr().out.replace("\n", "")
    target = tmp_path / "other.html"
    assert run(["report", str(tmp_path), "--out", str(target), "--title", "A < B", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == {"report": str(target), "bytes": target.stat().st_size}
    assert "<title>A &lt; B</title>" in target.read_text()


def test_a_report_can_be_made_again(tmp_path, capsys):
    write_record(tmp_path)
    for _ in range(2):
        assert run(["report", str(tmp_path), "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["evaluation.json", "report.html"]


def test_open_shows_the_file(tmp_path, monkeypatch):
    write_record(tmp_path)
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    assert run(["report", str(tmp_path), "--open", "--quiet"]) == 0
    assert shown == [(tmp_path / "report.html").as_uri()]


def test_bad_input_is_one_sentence(tmp_path, capsys):
    write_record(tmp_path)
    for arguments, word in (
        ([str(tmp_path), "--out", str(tmp_path / "x.pdf")], "--out must be an .html file"),
        ([str(tmp_path), "--out", str(tmp_path / "no" / "x.html")], "cannot be written"),
        ([str(tmp_path / "evaluation.json")], "is no folder"),
    ):
        assert run(["report", *arguments]) == 2
        printed = capsys.readouterr().err
        assert word in printed
        assert printed.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["evaluation.json"]
