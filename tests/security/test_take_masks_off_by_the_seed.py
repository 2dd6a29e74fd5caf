"""Whoever knows a run's seed, or gets a saved model, wants to read what sites sent each other."""

import numpy as np
import pytest

from cofill.completion import load_model
from cofill.cooperate import CooperativeReconstruction, PrivateCompletion
from cofill.nets import FusionSettings, TrainSettings
from cofill.privacy import SentLog, blind, encode_releases
from cofill.views import MultiView

X = np.random.default_rng(0).normal(size=(60, 2))
VIEWS = MultiView.from_arrays({"a": X, "b": 2 * X}, presence={"b": np.arange(60) > 9})


def codes() -> CooperativeReconstruction:
    training = TrainSettings(epochs=5)
    return CooperativeReconstruction(fusion=FusionSettings(hidden=()), encoder_training=training)


def shares() -> PrivateCompletion:
    return PrivateCompletion(features=3)


def hidden_releases(model, folder) -> list[bytes]:
    """Return what left sites blinded or under masks, in a run with the default seed."""
    model.sent = SentLog(folder)
    model.fit(VIEWS)
    kinds = ("blinded-ids", "blinded-points", "masked-rows", "codes")
    return [encode_releases([r]) for step in model.sent for r in step.releases if r.kind in kinds]


@pytest.mark.parametrize("make", [codes, shares])
@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_run_with_the_same_seed_shows_no_masks(make, is_asked_for, tmp_path, monkeypatch):
    monkeypatch.setenv("COFILL_SEEDED_SECRETS", "1" if is_asked_for else "")
    sent = hidden_releases(make(), tmp_path / "sites")
    repeated = hidden_releases(make(), tmp_path / "attacker")
    assert len(sent) == len(repeated) >= 2
    same = [one == other for one, other in zip(sent, repeated, strict=True)]
    assert all(same) if is_asked_for else not any(same)


def test_a_saved_model_names_no_token_of_its_run(tmp_path, monkeypatch):
    monkeypatch.delenv("COFILL_SEEDED_SECRETS")
    model = codes().fit(VIEWS)
    model.save(tmp_path / "model")
    secret = next(iter(model.sites_.values())).secret
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert files
    for path in files:
        content = path.read_bytes()
        assert secret not in content
        assert secret.hex().encode() not in content
    loaded = load_model(tmp_path / "model")
    tokens = [blind(VIEWS.ids, one.secret) for one in loaded.sites_.values()]
    assert not np.array_equal(tokens[0], blind(VIEWS.ids, secret))
    # It completes as the model did: its sites have agreed on another one.
    np.testing.assert_allclose(
        loaded.complete(VIEWS).cells["b"], model.complete(VIEWS).cells["b"], rtol=1e-5
    )
