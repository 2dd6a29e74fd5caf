"""`cofill audit` from files to a folder: what it writes, what it refuses, how it ends."""

import json

import numpy as np
import pyarrow as pa
import pytest

from cofill.cli._app import run
from cofill.views import write_table

RNG = np.random.default_rng(0)
CANARY = 773_142.4242
NAME = "CANARY-PERSON"


def table(path, values, *, names=None, first="id", extra=None):
    """Write a table of people, one of whom has a name and values that must never be told."""
    ids = [NAME, *(f"p{k}" for k in range(1, len(values)))] if names is None else names
    columns = {first: ids} | {f"c{k}": values[:, k] for k in range(values.shape[1])}
    write_table(pa.table(columns | (extra or {})), path)
    return str(path)


@pytest.fixture
def files(tmp_path):
    rows = RNG.exponential(size=(60, 3)) * [3, 2, 1]
    rows[0] = CANARY
    codes = rows @ RNG.normal(size=(3, 4))
    rich = ["yes" if r > 3 else "no" for r in rows[:, 0]]
    return {
        "codes": table(tmp_path / "codes.parquet", codes),
        "rows": table(tmp_path / "rows.parquet", rows, extra={"rich": rich}),
        "out": tmp_path / "audit",
    }


def ended(capsys, *words):
    """Run the command; return its exit code, output and error text, in which nobody may be."""
    code = run(["audit", *map(str, words)])
    output = capsys.readouterr()
    for text in (output.out, output.err):
        assert NAME not in text
        assert "773142" not in text
    return code, output.out, output.err


def codes_of(files, *more):
    return ("codes", "--codes", files["codes"], "--rows", files["rows"], "--id", "id", "--out",
            files["out"], "--repeats", "1", "-q", *more)  # fmt: skip


def test_codes_are_audited_into_a_folder(files, capsys, monkeypatch, tmp_path):
    quicken(monkeypatch)
    second = table(tmp_path / "second.parquet", RNG.normal(size=(60, 2)))
    known = table(tmp_path / "known.parquet", RNG.normal(size=(60, 2)))
    public = table(
        tmp_path / "public.parquet",
        RNG.exponential(size=(40, 3)) * [3, 2, 1],
        names=[f"q{k}" for k in range(40)],
    )
    more = ("--attribute", "rich", "--second", second, "--known", known, "--public", public)
    assert ended(capsys, *codes_of(files, *more)) == (0, "", "")
    assert sorted(p.name for p in files["out"].iterdir()) == ["audit.html", "audit.json"]
    record = json.loads((files["out"] / "audit.json").read_text())
    names = {leak["name"] for leak in record["releases"][0]["leaks"]}
    assert {"code inversion, 0 pairs", "inference of rich, all pairs", "linkage, 0 pairs"} <= names
    for name in ("audit.html", "audit.json"):
        text = (files["out"] / name).read_text()
        assert NAME not in text
        assert "773142" not in text.replace(",", "")


def quicken(monkeypatch):
    """Let decoders be ridge regression alone."""
    from cofill.attack import DecoderSettings
    from cofill.nets import FusionSettings

    linear = DecoderSettings(repeats=1, fusion=FusionSettings(hidden=()), draws=100)
    monkeypatch.setattr("cofill.cli._audit._decoders", lambda seed, repeats=1: linear)


def test_what_is_printed_is_the_record_or_a_table(files, capsys, monkeypatch):
    quicken(monkeypatch)
    words = [w for w in codes_of(files) if w != "-q"]
    code, out, _ = ended(capsys, *words, "--json")
    assert code == 0
    assert json.loads(out)["verdict"] in ("considerable", "near-total")
    first, files["out"] = files["out"], files["out"].with_name("again")
    code, out, _ = ended(capsys, *[files["out"] if w == first else w for w in words])
    assert code == 0
    assert "audit.html" in out
    code, _, err = ended(capsys, *codes_of(files))
    assert (code, "exists already" in err) == (2, True)


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        (np.zeros((0, 3)), "has no rows"),
        (np.ones((1, 3)), "at least 10 people, got 1"),
        (np.ones((60, 3)), "must differ between people"),
        (RNG.normal(size=(70, 3)), "got none for 10 of 70 people; the pairs do not match"),
    ],
)
def test_codes_that_cannot_be_audited_end_with_a_sentence(files, capsys, tmp_path, codes, message):
    files["codes"] = table(
        tmp_path / "bad.parquet",
        codes,
        names=[NAME, *(f"p{k}" for k in range(1, 70))][: len(codes)],
    )
    code, _, err = ended(capsys, *codes_of(files))
    assert code == 2
    assert message in err
    assert "\n" not in err.strip()
    assert not files["out"].exists()


def test_public_rows_of_the_same_people_are_refused(files, capsys):
    code, _, err = ended(capsys, *codes_of(files, "--public", files["rows"]))
    assert code == 2
    assert "must be of other people, got 60" in err


@pytest.fixture
def records(tmp_path):
    label = np.arange(90) % 3 == 0
    values = np.clip(RNG.normal(size=(90, 2)) / 6 + 0.3 + 0.3 * label[:, None], 0, 1)
    values[0] = CANARY
    return table(tmp_path / "records.parquet", values, extra={"ill": label.astype(int)})


def mean_of(records, out, *more):
    return ("mean", "--records", records, "--truth", "ill", "--id", "id", "--out", out, "--draws",
            "2000", *more)  # fmt: skip


def test_a_mean_is_audited_before_it_is_released(records, capsys, tmp_path):
    out = tmp_path / "audit"
    one = ("--low", 0, "--high", 1, "--mechanism", "gaussian")
    code, shown, _ = ended(capsys, *mean_of(records, out, *one))
    assert code == 0
    assert "noisy-mean" in shown
    record = json.loads((out / "audit.json").read_text())
    assert len(record["curves"]) == 1
    assert record["releases"][1]["claim"]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert "773142" not in (out / "audit.html").read_text().replace(",", "")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--delta", 0), "delta must be above 0 with Gaussian noise"),
        (("--epsilon", 0), "epsilon must be a finite number above 0"),
        (("--epsilon", -2), "epsilon must be a finite number above 0"),
        (("--budget", 0.5, "--mechanism", "gaussian"), "is refused, because it would bring"),
        (("--mechanism", "salt"), "mechanisms must be among"),
        (("--contributed", "nobody"), "has no column 'nobody'"),
    ],
)
def test_means_that_cannot_be_audited_end_with_a_sentence(records, capsys, tmp_path, more, message):
    out = tmp_path / "audit"
    code, _, err = ended(capsys, *mean_of(records, out, "--low", 0, "--high", 1, *more))
    assert code == 2
    assert message in err
    assert "\n" not in err.strip()
    assert not out.exists()


def test_bounds_must_be_public(records, capsys, tmp_path):
    code, _, err = ended(capsys, *mean_of(records, tmp_path / "audit"))
    assert code == 2
    assert "bounds of a record must be given" in err
    (tmp_path / "bounds.json").write_text('{"c0": [0, 1], "c1": [0, 2]}')
    one = ("--bounds", tmp_path / "bounds.json", "--mechanism", "gaussian", "-q")
    assert ended(capsys, *mean_of(records, tmp_path / "audit", *one)) == (0, "", "")
    (tmp_path / "bounds.json").write_text("[]")
    code, _, err = ended(capsys, *mean_of(records, tmp_path / "other", *one))
    assert (code, "must be JSON with the bounds" in err) == (2, True)


def test_updates_that_cannot_be_audited_end_with_a_sentence(files, capsys):
    words = ("update", "--rows", files["rows"], "--id", "id", "--out", files["out"])
    for more, message in (
        (("--delta", 0), "delta must be in (0, 1)"),
        (("--epsilon", -1), "epsilon must be above 0"),
        (("--widths", "a"), "--widths must be whole numbers"),
    ):
        code, _, err = ended(capsys, *words, *more)
        assert (code, message in err) == (2, True)
    assert not files["out"].exists()


def test_updates_are_audited_with_and_without_noise(files, capsys, monkeypatch):
    from cofill.attack import MatchingSettings
    from cofill.audit import UpdateAuditSettings

    def quick(**settings):
        rest = {"membership": False, "trials": 4, "rows": 1, "steps": 1}
        return UpdateAuditSettings(
            **settings, **rest, matching=MatchingSettings(starts=1, steps=20)
        )

    monkeypatch.setattr("cofill.audit.UpdateAuditSettings", quick)
    words = ("update", "--rows", files["rows"], "--id", "id", "--out", files["out"], "--widths",
             "3", "--json")  # fmt: skip
    code, out, _ = ended(capsys, *words)
    assert code == 0
    verdicts = [r["verdict"]["individual"] for r in json.loads(out)["releases"]]
    assert (verdicts[0], verdicts[-1]) == ("near-total", "none seen")


def test_runs_that_cannot_be_audited_end_with_a_sentence(capsys, tmp_path):
    from cofill.privacy import Ledger, LedgerEntry

    out = tmp_path / "audit"
    code, _, err = ended(capsys, "run", tmp_path / "gone", "--out", out)
    assert (code, "no such folder" in err) == (2, True)
    kit = tmp_path / "kit"
    kit.mkdir()
    ledger = Ledger([LedgerEntry("send", "gossip", "lab", "ward", 3, 9, None, {})])
    ledger.save(kit / "ledger.jsonl")
    code, _, err = ended(capsys, "run", kit, "--out", out)
    assert (code, "'gossip'" in err) == (2, True)
    code, _, err = ended(capsys, "run", kit, "--out", out, "--attribute", "nodot")
    assert (code, "VIEW.COLUMN" in err) == (2, True)
    assert not out.exists()


def test_a_sites_ledger_is_audited(capsys, tmp_path):
    from cofill.privacy import Ledger, LedgerEntry

    ledger = Ledger([LedgerEntry("send", "public-keys", "lab", "ward", 0, 64, None, {})])
    ledger.save(tmp_path / "ledger.jsonl")
    code, out, _ = ended(capsys, "run", tmp_path, "--out", tmp_path / "audit")
    assert code == 0
    assert "nothing" in out


def test_an_interrupted_audit_leaves_nothing(files, capsys, monkeypatch, tmp_path):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("cofill.audit.audit_codes", interrupted)
    before = sorted(tmp_path.iterdir())
    code, _, err = ended(capsys, *codes_of(files))
    assert (code, "nothing was written" in err) == (130, True)
    assert sorted(tmp_path.iterdir()) == before


# --- views ----------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    """Two tables of 120 people; one of them is named, and far from the others."""
    rng = np.random.default_rng(0)
    common = rng.normal(size=(120, 2))
    common[0] = CANARY / 1e5
    return {
        name: table(tmp_path / f"{name}.csv", np.hstack([common, rng.normal(size=(120, 2))]))
        for name in ("lab", "ward")
    }


def views_of(two, out, *more):
    options = [word for name, path in two.items() for word in ("--view", f"{name}={path}")]
    return ("views", *options, "--id", "id", "--out", out, *more)


def quicken_views(monkeypatch):
    """Let few defences be tried, by ridge regression alone."""
    from cofill.attack import DecoderSettings
    from cofill.audit import TrialSettings, ViewAuditSettings
    from cofill.nets import FusionSettings, TrainSettings

    linear = DecoderSettings(folds=2, repeats=1, draws=100, fusion=FusionSettings(hidden=()))
    trial = TrialSettings(encoders=TrainSettings(epochs=20), attack=linear)
    few = {"widths": (0.5,), "epsilons": (30.0,), "bits": ()}
    monkeypatch.setattr(
        "cofill.audit.ViewAuditSettings",
        lambda **settings: ViewAuditSettings(**settings, **few, prices=(1.0,), trial=trial),
    )


def test_defences_of_views_are_tried_before_codes_are_sent(two, capsys, tmp_path, monkeypatch):
    quicken_views(monkeypatch)
    out = tmp_path / "audit"
    words = views_of(two, out, "--growth", 0.4, "--pilot", 20)
    code, shown, _ = ended(capsys, *words)
    assert code == 0
    record = json.loads((out / "audit.json").read_text())
    assert " ".join(record["notes"][0].split()) in " ".join(shown.split())
    assert record["releases"][0]["change"] in " ".join(shown.split())
    assert record["verdict"] in ("considerable", "near-total")
    assert [c["goal"] for c in record["curves"]] == [[0.2, 40.0]] * 3
    assert (record["settings"]["pilot"], record["settings"]["growth"]) == (20, 0.4)
    for name in ("audit.html", "audit.json"):
        text = (out / name).read_text()
        assert NAME not in text
        assert "7.7314" not in text


def test_views_that_cannot_be_audited_end_with_a_sentence(two, capsys, tmp_path):
    out = tmp_path / "audit"
    unknown = [f"q{k}" for k in range(120)]
    strangers = table(tmp_path / "c.csv", RNG.normal(size=(120, 2)), names=unknown)
    names = [NAME, *(f"p{k}" for k in range(1, 120))]
    words = {"id": names, "c0": [("red", "blue", "green")[k % 3] for k in range(120)]}
    write_table(pa.table(words), tmp_path / "words.csv")
    others = {"lab": two["lab"], "other": str(tmp_path / "words.csv")}
    small = table(tmp_path / "few.csv", RNG.normal(size=(30, 2)))
    for tables, more, message in (
        ({"lab": two["lab"]}, (), "at least 2 views, got 1"),
        (two, ("--growth", -1), "growth must be above 0"),
        (two, ("--pilot", 3), "pilot must be from 20 to 56"),
        ({**two, "ward": small}, (), "at least 100 people must be known to all 2 views"),
        ({**two, "ward": str(tmp_path / "gone.csv")}, (), "there is no such file"),
        ({**two, "ward": strangers}, (), "got 0 of 240"),
        (others, (), "view 'other' must have a numeric column"),
    ):
        code, _, err = ended(capsys, *views_of(tables, out, *more))
        assert (code, message in err) == (2, True), err
        assert "\n" not in err.strip()
    assert not out.exists()
