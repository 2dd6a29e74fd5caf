"""Settings that the papers leave open are those that the rules of papers/PROTOCOL.md choose."""

import sys
from pathlib import Path

import pytest

from cofill.federate import VIGAN
from cofill_papers._mean_experiments import _CHOSEN

ROOT = Path(__file__).parents[2]


@pytest.fixture
def rules(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from bench.grids import choose

    yield choose
    for name in [n for n in sys.modules if n.startswith("bench.grids")]:
        del sys.modules[name]


def test_attacks_of_the_tables_train_as_the_rule_chose(rules):
    chosen = rules.choose_growpu()
    assert {
        "optimizer": chosen["opt"],
        "learning_rate": pytest.approx(chosen["lr"]),
        "activation": chosen["act"],
    } == _CHOSEN
    assert (chosen["loss"], chosen["init"], chosen["each"]) == ("logistic", 0, 0)
    assert chosen["reached"]
    assert 1_000 <= chosen["length"] <= 4_000


def test_vigan_trains_as_the_rule_chose(rules):
    chosen = rules.choose_vigan()
    assert VIGAN.training == {
        "batch": chosen["batch"],
        "learning_rate": chosen["lr"],
        "first_moment": 0.5,
    }
    fields = VIGAN.__dataclass_fields__
    assert fields["adversarial"].default == chosen["loss"] == "printed"
    assert fields["weight_ccl"].default / fields["weight_ag"].default == chosen["lam"]
    assert (chosen["gen"], chosen["judge"], chosen["range"]) == ("conv", "patch", "tanh")


def test_no_run_of_the_grids_is_on_the_digits_of_the_tables(rules):
    assert {tuple(r["digits"]) for r in rules.read_lines("growpu")} == {(4, 9), (8, 2)}
