"""A session with the coordinator: lost answers are waited for, errors come out as they are."""

from contextlib import contextmanager, nullcontext

import pytest
from nvflare.fuel.flare_api import api_spec

from cofill.cli import _federation as commands
from cofill.cli._options import SHOWN
from cofill.network import RunOrder, _local, new_run
from cofill.network._config import FederationConfig, Member
from cofill.network._session import FederationError, Session


class Coordinator:
    """Answers from a list; an error in it is raised."""

    def __init__(self, *answers):
        self.answers = list(answers)

    def get_job_status(self, job):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def asking(*answers):
    """Return a session whose coordinator answers so; waiting needs no kit."""
    session = object.__new__(Session)
    session.session = Coordinator(*answers)
    return session


@pytest.fixture(autouse=True)
def _quickly(monkeypatch):
    monkeypatch.setattr("cofill.network._session._POLL_S", 0.01)


def test_a_lost_connection_is_waited_for():
    lost = api_spec.NoConnection("gone")
    session = asking("RUNNING", lost, lost, "RUNNING", lost, "FINISHED:COMPLETED")
    assert session.wait("job") == "FINISHED:COMPLETED"


def test_a_coordinator_that_stays_away_is_given_up(monkeypatch):
    monkeypatch.setattr("cofill.network._session._PATIENCE_S", 0.05)
    session = asking("RUNNING", api_spec.NoConnection("gone"))
    with pytest.raises(api_spec.NoConnection):
        session.wait("job")


def test_a_run_that_does_not_end_is_given_up():
    with pytest.raises(FederationError, match="has not ended after 0 s"):
        asking("RUNNING").wait("job", timeout=0.05)


def test_a_session_is_opened_again_until_sites_are_there_but_its_use_is_not_repeated(
    monkeypatch, tmp_path
):
    opened, closed = [], []

    class Reached(Session):
        def __init__(self):
            pass

        def sites(self):
            if len(opened) == 1:
                raise api_spec.NoConnection("not yet")
            return ["a"]

    @contextmanager
    def open_session(kit):
        opened.append(len(opened))
        try:
            yield Reached()
        except api_spec.NoConnection:
            raise FederationError("the coordinator did not answer") from None
        finally:
            closed.append(len(opened))

    monkeypatch.setattr(_local, "open_session", open_session)
    monkeypatch.setattr(_local, "wait_for_port", lambda *_, **__: None)
    monkeypatch.setattr(_local.LocalFederation, "person", lambda self: None)
    federation = _local.LocalFederation(
        tmp_path, FederationConfig("local", "localhost", 1, (Member("a", "a", ("a",)),), ())
    )
    with (
        pytest.raises(FederationError, match="the run failed"),
        federation.session(),
    ):
        raise FederationError("the run failed")
    assert opened == [0, 1]
    assert closed == [1, 2]


def test_who_waits_is_told_how_to_resume_when_the_coordinator_dies(monkeypatch, tmp_path, capsys):
    federation = FederationConfig("local", "localhost", 1, (Member("a", "a", ("a",)),), ())

    class Dying(Session):
        def __init__(self):
            self.kit = type("SomeKit", (), {"federation": federation})

        def sites(self):
            return ["a"]

        def submit(self, order, sites=()):
            return "job"

        def wait(self, job, **_):
            raise FederationError("the coordinator at localhost:1 did not answer as expected")

    monkeypatch.setattr(commands, "_session", lambda kit: nullcontext(Dying()))
    order = RunOrder(new_run(), "mean", {})
    with pytest.raises(FederationError) as caught:
        commands._submit(tmp_path, order, SHOWN, wait=True)
    told = str(caught.value)
    assert f"cofill federation resume {order.run} --kit {tmp_path}" in told
    assert "did not answer as expected" in told
    assert "\n" not in told
