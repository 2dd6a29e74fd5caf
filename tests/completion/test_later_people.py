"""People who come after the fit: one of them, with other columns, without a view, from a file."""

import json
import stat

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import cofill
from cofill import codec
from cofill.completion import METHODS, load_model, make
from cofill.errors import DataError, SettingError, StoreError
from cofill.impute import TableModel
from cofill.nets import FusionSettings, TrainSettings
from cofill.views import MultiView, View

POOLED = pytest.param(
    "pooled",
    marks=pytest.mark.skipif(
        codec._STORABLE.get("TableModel") is not TableModel, reason="its model is not storable"
    ),
)
SAVED = ["mean", "cooperative", POOLED]


def people(n: int = 90) -> dict[str, pd.DataFrame]:
    """A clinic and a lab that know different measures of one trait."""
    rng = np.random.default_rng(0)
    trait = rng.normal(size=n)
    clinic = pd.DataFrame(
        {
            "person": np.arange(n),
            "age": np.rint(50 + 10 * trait).astype(int),
            "weight": (70 + 5 * trait).round(1),
            "smoker": (trait + 0.1 * rng.normal(size=n) > 0).astype(int),
        }
    )
    lab = pd.DataFrame(
        {
            "person": np.arange(n),
            "marker": 2 * trait + 0.1 * rng.normal(size=n),
            "group": np.array(["low", "mid", "top"])[np.digitize(trait, [-0.5, 0.5])],
        }
    )
    clinic.loc[::6, "weight"] = np.nan
    return {"clinic": clinic[: n - 15], "lab": lab[15:]}


def views_of(**frames) -> MultiView:
    return MultiView.from_frames(frames, id="person")


@pytest.fixture(scope="module")
def fitted():
    """Return each method fitted, small enough to train in no time."""
    small = FusionSettings(
        hidden=(4,), weight_decays=(0.1,), members=1, fold_members=1, folds=2, steps=20
    )
    settings = {
        "pooled": {"effort": "quick"},
        "cooperative": {"fusion": small, "encoder_training": TrainSettings(epochs=2)},
    }
    views = views_of(**people())
    return {
        name: make(name, **settings.get(name, {})).fit(views)
        for name in ("mean", "cooperative", "pooled")
    }


ALL = ["mean", "cooperative", "pooled"]


@pytest.mark.parametrize("method", ALL)
def test_one_person_who_is_in_one_view_is_completed_in_all(fitted, method):
    new = pd.DataFrame({"person": [900], "age": [62], "weight": [76.0], "smoker": [1]})
    done = fitted[method].complete(views_of(clinic=new))
    assert done.source.names == ("clinic", "lab")
    pd.testing.assert_frame_equal(done.to_frames("pandas")["clinic"], new)
    lab = done.to_frames("pandas")["lab"]
    assert lab["person"].tolist() == [900]
    assert lab["group"][0] in ("low", "mid", "top")
    assert any("view 'lab' is not there" in note for note in done.notes)
    if method != "mean":
        assert lab["marker"][0] > 1


@pytest.mark.parametrize("method", ALL)
def test_a_category_has_the_meaning_it_had_at_the_fit(fitted, method):
    """One person's table has one category, whose position says nothing."""
    done = [
        fitted[method].complete(views_of(lab=pd.DataFrame({"person": [1], "group": [group]})))
        for group in ("low", "top")
    ]
    assert [d.table("lab")["group"].to_pylist() for d in done] == [["low"], ["top"]]
    if method == "pooled":  # networks as small as these have not learned so much
        ages = [d.cells["clinic"][0, 0] for d in done]
        assert ages[0] < ages[1]
    binary = views_of(clinic=pd.DataFrame({"person": [1, 2], "smoker": [1, 1]}))
    assert fitted[method].complete(binary).table("clinic")["smoker"].to_pylist() == [1, 1]


@pytest.mark.parametrize("method", ALL)
def test_columns_in_another_order_missing_and_more(fitted, method):
    new = pd.DataFrame(
        {"note": ["x", "y"], "weight": [71.5, np.nan], "person": [8, 5], "age": [40, 41]}
    )
    done = fitted[method].complete(views_of(clinic=new))
    frame = done.to_frames("pandas")["clinic"]
    assert list(frame.columns) == ["note", "weight", "person", "age", "smoker"]
    pd.testing.assert_frame_equal(frame[["note", "person", "age"]], new[["note", "person", "age"]])
    assert frame["weight"][0] == 71.5
    assert frame["weight"].notna().all()
    assert frame["smoker"].isin([0, 1]).all()
    words = " ".join(done.notes)
    assert "has no value of 'smoker'" in words
    assert "does not know 'note'; passed through" in words


@pytest.mark.parametrize("method", ALL)
def test_an_unseen_category_is_kept_and_tells_nothing(fitted, method):
    new = pd.DataFrame({"person": [1, 2], "group": ["odd", None], "marker": [0.5, 0.5]})
    done = fitted[method].complete(views_of(lab=new))
    assert done.table("lab")["group"].to_pylist()[0] == "odd"
    assert done.origin("lab")[0].tolist() == [0, 0]
    np.testing.assert_array_equal(done.cells["clinic"][0], done.cells["clinic"][1])
    assert done.table("lab")["group"].to_pylist()[1] in ("low", "mid", "top")
    assert any("'group' has values in 1 rows that the model never saw" in n for n in done.notes)
    alone = fitted[method].complete(views_of(lab=pd.DataFrame({"person": [1], "group": ["odd"]})))
    assert alone.table("lab").to_pylist()[0]["group"] == "odd"
    assert not np.isnan(alone.cells["clinic"]).any()


@pytest.mark.parametrize("method", ["cooperative", "pooled"])
def test_draws_of_one_person(fitted, method):
    new = views_of(lab=pd.DataFrame({"person": [1], "group": ["odd"], "marker": [1.0]}))
    for done in fitted[method].draw(new, 2):
        assert done.table("lab").to_pylist() == [{"person": 1, "group": "odd", "marker": 1.0}]
        assert not np.isnan(done.cells["clinic"]).any()


@pytest.mark.parametrize("method", ALL)
def test_arrays_by_the_names_of_their_columns(fitted, method):
    new = MultiView([View("lab", [3], [[1.5]], ["marker"])])
    done = fitted[method].complete(new)
    assert done.cells["lab"][0, 0] == 1.5
    assert done.views.is_complete


WRONG = {
    "another view": (View("x", [1], [[1.0]]), "fitted on the views clinic, lab"),
    "no such column": (View("lab", [1], [[1.0]]), "other features than at fit"),
    "texts for numbers": (pd.DataFrame({"age": ["old", "new"]}), "the model learned numbers"),
    "numbers for texts": (pd.DataFrame({"group": [1.5, 2.5]}), "the model learned str"),
    "texts for truth": (pd.DataFrame({"smoker": ["no", "yes"]}), "the model learned int"),
    "times for numbers": (
        pd.DataFrame({"age": pd.to_datetime(["2020-01-01", "2020-01-02"])}),
        "the model learned int64",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_does_not_fit_is_one_sentence(fitted, case):
    wrong, words = WRONG[case]
    if isinstance(wrong, pd.DataFrame):
        name = "lab" if "group" in wrong else "clinic"
        views = views_of(**{name: wrong.assign(person=[1, 2])})
    else:
        views = MultiView([wrong])
    with pytest.raises(DataError, match=words) as caught:
        fitted["mean"].complete(views)
    assert "\n" not in str(caught.value)


def test_a_column_that_was_passed_through_is_not_overwritten(fitted):
    rows = pd.DataFrame({"person": range(2), "marker": [1.0, 2.0], "group": ["low", "top"]})
    views = MultiView.from_frames({"lab": rows}, id="person", ignore=["group"])
    with pytest.raises(DataError, match="'group' was passed through"):
        fitted["mean"].complete(views)


# --- saved ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", SAVED)
def test_a_saved_model_completes_alike(fitted, method, tmp_path):
    model = fitted[method]
    model.save(tmp_path / "model")
    loaded = cofill.load_model(tmp_path / "model")
    assert type(loaded) is type(model)
    assert loaded.get_params() == model.get_params()
    new = views_of(clinic=pd.DataFrame({"person": [7, 9], "age": [33, 70]}))
    one, other = model.complete(new), loaded.complete(new)
    for name in one.cells:
        np.testing.assert_array_equal(one.cells[name], other.cells[name])
        assert one.table(name).equals(other.table(name))
    assert one.notes == other.notes
    loaded.save(tmp_path / "again")
    first, second = ((tmp_path / f / "model.safetensors").read_bytes() for f in ("model", "again"))
    assert first == second


@pytest.mark.parametrize("method", SAVED)
def test_only_the_owner_can_read_a_model(fitted, method, tmp_path):
    fitted[method].save(tmp_path / "model")
    modes = [stat.S_IMODE(p.stat().st_mode) for p in sorted(tmp_path.rglob("*"))]
    assert modes == [0o700, 0o600, 0o600]
    about = json.loads((tmp_path / "model" / "model.json").read_text())
    assert about["method"] == method
    assert about["views"]["lab"]["columns"] == {"marker": "numeric", "group": "categorical"}


def test_a_model_is_never_written_over(fitted, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "kept.txt").write_text("kept")
    with pytest.raises(DataError, match="exists already and is left as it is"):
        fitted["mean"].save(tmp_path / "model")
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["kept.txt"]
    with pytest.raises(NotFittedError):
        make("mean").save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("method", [m.name for m in METHODS if not m.facts.get("saves", True)])
def test_a_method_that_cannot_be_saved_leaves_nothing(method, tmp_path):
    views = views_of(**people(40))
    small = FusionSettings(hidden=(4,), members=1, fold_members=1, folds=2, steps=2)
    settings = {"federated": {"rounds": 1}, "private": {"features": 8, "min_overlap": 5}}
    settings["central"] = {"settings": small}
    model = make(method, **settings.get(method, {})).fit(views)
    with pytest.raises(StoreError, match=r"cannot be saved: \w+ is no type") as caught:
        model.save(tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_changed_and_foreign_models_are_refused(fitted, tmp_path):
    folder = tmp_path / "model"
    fitted["mean"].save(folder)
    learned, about = folder / "model.safetensors", folder / "model.json"
    whole, words = learned.read_bytes(), about.read_bytes()

    def refused(pattern: str) -> None:
        with pytest.raises(StoreError, match=pattern) as caught:
            load_model(folder)
        assert "\n" not in str(caught.value)
        learned.write_bytes(whole)
        about.write_bytes(words)

    for at in range(0, len(whole), max(1, len(whole) // 60)):
        changed = bytearray(whole)
        changed[at] ^= 1
        learned.write_bytes(changed)
        refused("model.safetensors")
    learned.write_bytes(whole[: len(whole) // 2])
    refused("cannot be read")
    about.write_bytes(words.replace(b'"mean"', b'"knn"'))
    refused("was changed after it was saved")
    about.write_bytes(words.replace(b'"mean"', b'"means"'))
    with pytest.raises(SettingError, match="there is no method 'means'; did you mean 'mean'"):
        load_model(folder)
    about.write_bytes(words.replace(b'"version": 1', b'"version": 2'))
    refused("must be of version 1; use the cofill that wrote it")
    about.write_bytes(b"{}")
    refused("must be a JSON object of format 'cofill.model'")
    learned.unlink()
    refused("must be a readable file")
    codec.save(learned, {"about": words}, format="cofill.model")
    refused("no complete model")
    with pytest.raises(StoreError, match="is no folder of a model"):
        load_model(tmp_path)
    with pytest.raises(StoreError, match="is no folder of a model"):
        load_model(tmp_path / "nowhere")
