"""A site that was away when a run finished takes up its end alone."""

import numpy as np
import pytest

from cofill.errors import StoreError

from .conftest import federation_by_row
from .test_by_row import TRAIN, completed, drive


def test_a_site_that_missed_the_end_finishes_alone_later(rows_here, tmp_path):
    federation = rows_here()
    schedule = federation.schedule()
    late_steps = {(step, "b") for step in range(TRAIN[0], schedule.report + 1)}
    office = drive(federation, absent=late_steps)
    office.end()
    assert (office.late, set(office.metrics)) == (("b",), {"a", "c"})
    assert not federation.results("b").exists()
    assert [p.name for p in office.folder.messages.glob("*/*")] == ["coordinator--b.sealed"]
    sent = federation.ledger("a").read_bytes()

    again = federation.office()
    assert again.runner is None
    drive(federation, again, {"b": federation.place("b")})  # nobody else is asked for anything
    again.end()
    assert (again.late, set(again.metrics), again.result) == ((), {"a", "b", "c"}, office.result)
    assert not again.folder.messages.exists()
    assert federation.ledger("a").read_bytes() == sent

    # The same cells as of a site that is back when the model is handed out.
    (tmp_path / "beside").mkdir()
    beside = federation_by_row(tmp_path / "beside")
    drive(beside, absent={(step, "b") for step in range(TRAIN[0], schedule.report - 1)})
    for view in ("u", "v"):
        np.testing.assert_array_equal(
            completed(federation, "b", view), completed(beside, "b", view)
        )


def test_whoever_missed_the_beginning_cannot_take_the_end(rows_here):
    federation = rows_here()
    office = drive(federation, absent={(s, "b") for s in range(TRAIN[0], 99)})
    office.end()
    (federation.base / "b" / "home" / "runs" / federation.order.run / "state.safetensors").unlink()
    with pytest.raises(StoreError, match="has not done step 0"):
        drive(federation, federation.office(), {"b": federation.place("b")})
