"""What crosses in a run on secret shares is attacked: masks hold, and their absence is seen."""

from dataclasses import replace

import numpy as np
import pytest

from cofill.audit import audit_ledger, read_evidence
from cofill.audit._sent_shares import words_by_place
from cofill.cooperate import PrivateCompletion
from cofill.privacy import BlindedPoints, MaskedRows, SentLog
from cofill.shares import points_of
from cofill.views import MultiView

STAGES = {"masked-rows", "opened-shares", "padded-cells", "blinded-points"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return views, the ledger and what was sent when three sites completed them on shares."""
    rng = np.random.default_rng(0)
    trait = rng.normal(size=(120, 2))
    arrays = {name: trait @ rng.normal(size=(2, 3)) for name in "abc"}
    presence = {name: np.arange(120) % 4 != k for k, name in enumerate(arrays)}
    views = MultiView.from_arrays(arrays, presence=presence)
    model = PrivateCompletion(features=6)
    model.sent = SentLog(tmp_path_factory.mktemp("run") / "sent")
    model.fit_complete(views)
    return views, model.ledger_, model.sent


def evidence_of(views, log):
    return read_evidence([log], views=dict(views))


def audited(run, change=lambda release: release):
    views, ledger, log = run
    evidence = evidence_of(views, log)
    evidence = replace(evidence, sent=tuple(change(release) for release in evidence.sent))
    return {(r.kind, r.sender): r for r in audit_ledger(ledger, evidence).releases}


def test_every_type_that_tells_of_people_is_attacked_and_nothing_is_seen(run):
    releases = audited(run)
    attacked = {kind for (kind, _), release in releases.items() if release.leaks}
    assert attacked == STAGES
    assert {r.individual for r in releases.values() if r.leaks} == {"none seen"}
    for name in "abc":
        # Rows and who has one, while sites learn and while they ask.
        assert len(releases["masked-rows", name].leaks) == 4


def test_rows_without_masks_are_seen(run):
    views, _, log = run
    evidence = evidence_of(views, log)

    def unmask(release):
        if not (isinstance(release, MaskedRows) and release.sender == "a"):
            return release
        everyone, places = evidence.places("a", "learn")
        cells = np.zeros((everyone, 3), np.int64)
        cells[places] = (views["a"].cells * 2**20).astype(np.int64)
        labels = [label for label in release.words if label.startswith("a/target/")]
        opened = {
            label: cells[int(label[-1]) :: len(labels)].view(np.uint64).copy() for label in labels
        }
        return replace(release, words={**release.words, **opened})

    releases = audited(run, unmask)
    assert releases["masked-rows", "a"].individual == "near-total"
    assert releases["masked-rows", "b"].individual == "none seen"


def test_points_without_a_secret_are_seen(run):
    views, _, _ = run

    def plain(release):
        if not (isinstance(release, BlindedPoints) and release.sender == release.origin == "b"):
            return release
        return replace(release, points=points_of(views["b"].ids))

    releases = audited(run, plain)
    assert releases["blinded-points", "b"].individual == "near-total"
    assert releases["blinded-points", "c"].individual == "none seen"


def test_without_the_places_nothing_is_claimed(run):
    views, ledger, log = run
    evidence = replace(evidence_of(views, log), keys={})
    releases = audit_ledger(ledger, evidence).releases
    masked = [release for release in releases if release.kind == "masked-rows"]
    assert {release.individual for release in masked} == {"not attacked"}
    assert all("did not keep" in release.reason for release in masked)


def test_matrices_that_are_not_about_everybody_are_left_out():
    words = np.zeros((4, 2), np.uint64)
    assert (
        words_by_place({"a/0/0/weights": words, "a/0/1/weights": words}, "a", 5, "learn").size == 0
    )
    assert words_by_place({"ab/2": words, "a/2": words, "a": words}, "a", 4, "ask").shape == (4, 4)
