"""The survey under secure sums: scales as of pooled rows, and nobody's summary or range told."""

import re
from dataclasses import replace

import numpy as np
import pytest

from cofill.errors import DataError, SettingError
from cofill.federate import FederatedCompletion, RoundSettings
from cofill.federate._estimator import _Fit
from cofill.federate._scales import scaling_steps
from cofill.privacy import Columns, MaskedVector
from cofill.protocol import Survey, run_steps
from cofill.views import Feature, Kind, MultiView, Scaler, View

RNG = np.random.default_rng(0)
UNITS = np.array([1e-9, 1.0, 1e12])
LEVELS = np.array([4.0, 1e6, -4.0])


def table(n, seed) -> np.ndarray:
    cells = np.random.default_rng(seed).normal(size=(n, 3)) + LEVELS
    cells[0] = np.nan
    return cells * UNITS


def held_tables(sites="abcd") -> dict[str, MultiView]:
    """Columns of unlike units, one far from 0; sites of unlike sizes."""
    return {
        name: MultiView.from_arrays({"lab": table(10 + 5 * k, k), "ward": np.ones((10 + 5 * k, 1))})
        for k, name in enumerate(sites)
    }


def surveyed(held, steps=None, **settings):
    network = {"width": 2, "blocks": 0}
    estimator = FederatedCompletion(
        network=network, settings=RoundSettings(rounds=1, **{"secure": True, **settings})
    )
    federation = _Fit(estimator, held).federation
    secure = bool(estimator.settings.secure)
    run_steps(scaling_steps(secure=secure) if steps is None else steps, [federation])
    return federation


def without(names, step) -> list:
    """Steps of a survey in which what some sites send in a step is lost."""

    def lose(original):
        def run(parties, inboxes, report_progress):
            results = original.run(parties, inboxes, report_progress)
            return [(party, [r for r in out if r.sender not in names]) for party, out in results]

        return replace(original, run=run) if original.name == step else original

    return [lose(original) for original in scaling_steps(secure=True)]


def test_columns_of_any_scale_are_scaled_as_by_pooled_rows():
    held = held_tables()
    rows = np.concatenate([views["lab"].cells for views in held.values()])
    pooled = Scaler.fit(View("lab", np.arange(len(rows)), rows))
    for site in surveyed(held).sites.values():
        scaler = site.scalers["lab"]
        np.testing.assert_allclose(scaler.center, pooled.center, rtol=1e-14)
        np.testing.assert_allclose(scaler.scale, pooled.scale, rtol=1e-9)
        # Nobody's cell is on the other side of 0, and none is so far from the mean.
        assert (scaler.low[0], scaler.low[1] > 0, scaler.high[2]) == (0.0, True, 0.0)
        assert np.all(np.array(scaler.low) <= pooled.low)
        assert np.all(np.array(scaler.high) >= pooled.high)


def test_only_masked_words_leave_a_site_and_no_site_tells_its_range():
    federation = surveyed(held_tables())
    kinds = {e.kind for e in federation.ledger if e.sender != "coordinator"}
    assert kinds == {"columns", "public-keys", "sealed-shares", "masked-vector", "revealed-shares"}
    # The scales are the same whoever has which rows.
    held = held_tables()
    turned = {name: held[other] for name, other in zip("abcd", "dcba", strict=True)}
    sent = [
        next(s.scalers["lab"] for s in surveyed(views).sites.values()) for views in (held, turned)
    ]
    assert sent[0] == sent[1]


def test_what_a_site_adds_is_hidden_and_changes_from_run_to_run():
    words = []
    for _ in range(2):
        steps = without((), "mask")
        federation = surveyed(held_tables(), steps[:7])  # up to the masked vectors
        words.append({r.sender: r.words for r in federation.inboxes["coordinator"]})
        assert all(isinstance(r, MaskedVector) for r in federation.inboxes["coordinator"])
    for name in "abcd":
        assert (words[0][name] != words[1][name]).all()


@pytest.mark.parametrize("step", ["share", "mask", "reveal"])
def test_a_site_that_leaves_the_survey_is_survived_and_scales_as_the_others(step):
    held = held_tables()
    federation = surveyed(held, without(("b",), step))
    there = held if step == "reveal" else {n: v for n, v in held.items() if n != "b"}
    expected = surveyed(there).sites["a"].scalers
    assert {name: site.scalers == expected for name, site in federation.sites.items()} == (
        dict.fromkeys("abcd", True)
    )
    notes = federation.coordinator.notes
    assert notes == (() if step == "reveal" else ("survey: site 'b' did not answer; left out",))


def test_too_few_sites_end_the_survey_in_one_sentence():
    with pytest.raises(DataError, match=r"^survey: no secure sum: .*got 2.*'a' did not answer"):
        surveyed(held_tables(), without(("a", "b"), "mask"))


def test_images_end_at_the_power_of_two_that_nobody_passes():
    def images(low, high):
        return MultiView.from_arrays({"i": RNG.uniform(low, high, size=(4, 2, 2))})

    for highest, end in ((15.5, 16.0), (0.9, 1.0), (255.0, 256.0)):
        held = {"a": images(0, highest), "b": images(0, 0.3 * highest), "c": images(0, highest)}
        scaler = surveyed(held).sites["b"].scalers["i"]
        assert (set(scaler.center), set(scaler.scale)) == ({0.0}, {end})
        assert (set(scaler.low), set(scaler.high)) == ({0.0}, {end})
    scaler = surveyed(dict.fromkeys("abc", images(-1000, 3000))).sites["a"].scalers["i"]
    assert (scaler.low[0], scaler.high[0]) == (-1024.0, 4096.0)
    with pytest.raises(DataError, match=r"pixels of 'i' must lie within ±2\^32"):
        surveyed(dict.fromkeys("abc", images(0, 1e12)))


@pytest.mark.parametrize("secure", [False, True])
def test_declared_bounds_are_taken_and_nothing_of_the_range_is_asked(secure):
    held = {n: MultiView.from_arrays({"i": RNG.uniform(0, 9, size=(4, 2, 2))}) for n in "abc"}
    federation = surveyed(held, secure=secure, bounds={"i": (-1, 10)})
    scaler = federation.sites["a"].scalers["i"]
    assert (scaler.center[0], scaler.scale[0], scaler.low[0], scaler.high[0]) == (-1, 11, -1, 10)
    with pytest.raises(DataError, match=r"site 'a': column .* outside of the declared bounds 0 to"):
        surveyed(held, secure=secure, bounds={"i": (0, 1)})
    with pytest.raises(SettingError, match="bounds of 'i' must be finite, the lower one first"):
        RoundSettings(bounds={"i": (1, 0)})
    features = {"lab": (Feature("age"), Feature("sex", Kind.BINARY, ("f", "m")), Feature("rate"))}
    columns = Columns(sender="c", receiver="a", features=features, shapes={})
    assert Survey(columns, {}).code(3).flags == 4
    assert Survey(columns, {"lab/age": (0, 120)}).code(3).flags == 2


def test_sites_with_very_few_rows_and_cells_too_large_are_kept_out():
    held = held_tables("abc")
    lonely = MultiView.from_arrays({"lab": [[5.0, 1e9, 7.0]] * 2, "ward": np.ones((2, 1))})
    scalers = surveyed({**held, "lonely": lonely}).sites["lonely"].scalers
    assert scalers == surveyed(held).sites["a"].scalers
    far = MultiView.from_arrays({"lab": np.full((4, 3), 1e40), "ward": np.ones((4, 1))})
    with pytest.raises(DataError, match="cells of 'lab' must lie within") as caught:
        surveyed({**held, "far": far})
    assert not re.search(r"1e\+?40", str(caught.value))
