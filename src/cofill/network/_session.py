"""What a person with a kit asks of the coordinator: run, status, results, stop, resume."""

from __future__ import annotations

import json
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from cofill.errors import CofillError, SettingError
from cofill.files import read_document, write_document
from cofill.network._job import unpack_order, write_job
from cofill.network._kits import Kit, needs_extra
from cofill.network._order import OUTCOME_FORMAT, RunOrder

_ORDER_FORMAT = "cofill.order"
_POLL_S = 0.5  # between two questions whether a run has ended
_PATIENCE_S = 30.0  # without an answer, in which a lost connection may be made again


class FederationError(CofillError, RuntimeError):
    """The coordinator cannot be reached, or a run has failed."""


@dataclass(frozen=True)
class RunState:
    """A run as FLARE lists it."""

    run: str
    job: str
    status: str
    submitted: str
    duration: str

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return _has_ended(self.status)

    @property
    def completed(self) -> bool:
        """Whether it went through."""
        return self.status == "FINISHED:COMPLETED"


class Session:
    """An open session with the coordinator."""

    def __init__(self, session: Any, kit: Kit) -> None:
        self.session, self.kit = session, kit

    def sites(self) -> list[str]:
        """Return the names of the sites that are connected."""
        return sorted(_client_names(self.session.check_status("server")))

    def submit(self, order: RunOrder, sites: Collection[str] = ()) -> str:
        """Order a run, or the same one again, and return FLARE's name for it.

        `sites` are those that take part; all of them unless stated.
        """
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / order.run
            write_job(order, self.kit, folder, sites)
            job = self.session.submit_job(str(folder))
        # Remembered here too: a coordinator that was killed has no outcome to resume from.
        orders = self.kit.home / "orders"
        orders.mkdir(exist_ok=True)
        write_document(orders / f"{order.run}.json", _ORDER_FORMAT, order.to_json())
        return job

    def runs(self) -> list[RunState]:
        """Return all runs, the latest attempt of each, newest first."""
        latest: dict[str, RunState] = {}
        jobs = self.session.list_jobs(detailed=False)
        for job in sorted(jobs, key=lambda j: j.get("submit_time", ""), reverse=True):
            names = (job.get(key, "?") for key in ("job_name", "job_id", "status"))
            times = (str(job.get(key, "")) for key in ("submit_time", "duration"))
            state = RunState(*names, *times)
            latest.setdefault(state.run, state)
        return list(latest.values())

    def find(self, run: str) -> RunState:
        """Return a run by its name."""
        known = self.runs()
        for state in known:
            if state.run == run:
                return state
        listed = ", ".join(s.run for s in known[:5]) or "none"
        raise SettingError(f"there is no run {run!r}; the latest are: {listed}")

    def order(self, run: str) -> RunOrder:
        """Return what a run was ordered with."""
        kept = self.kit.home / "orders" / f"{run}.json"
        if kept.exists():
            return RunOrder(**read_document(kept, _ORDER_FORMAT))
        outcome = self.outcome(self.find(run).job)
        return RunOrder(outcome["run"], outcome["experiment"], outcome["settings"])

    def outcome(self, job: str) -> dict[str, Any]:
        """Return how a run that has ended went: state, reason, metrics."""
        refused = self._refusals(job)
        with tempfile.TemporaryDirectory() as scratch:
            place = self.session.download_job_result(job, scratch)
            for path in Path(place).rglob("outcome.json"):
                outcome = read_document(path, OUTCOME_FORMAT)
                if outcome["state"] == "failed":  # sites that refused are why others waited in vain
                    return {**outcome, "why": "; ".join([*refused, outcome["why"]])}
                return {**outcome, "notes": [*refused, *outcome["notes"]]}
            for path in Path(place).rglob("config_fed_server.json"):
                config = json.loads(path.read_text(encoding="utf-8"))
                order = unpack_order(config["workflows"][0]["args"]["order"])
                why = "the coordinator's process ended before it could say why"
                why = "; ".join(refused) or why
                return {**order.to_json(), "state": "failed", "why": why, "metrics": {}}
        raise FederationError("the coordinator has no result of this run")

    def _refusals(self, job: str) -> list[str]:
        """Return what sites said that did not let a job in, a sentence each."""
        details = self.session.get_job_meta(job).get("job_deploy_detail") or []
        answers = [str(detail).partition(": ") for detail in details]
        names = self.kit.federation.names
        return [words[:1000] for name, _, words in answers if name in names and words != "OK"]

    def stop(self, run: str) -> None:
        """Stop a run; what sites have completed in other runs stays."""
        state = self.find(run)
        if state.ended:
            raise SettingError(f"run {run} has ended already ({state.status})")
        self.session.abort_job(state.job)

    def wait(
        self, job: str, *, timeout: float | None = None, look: Callable[[], None] | None = None
    ) -> str:
        """Wait until a job has ended and return its status; `look` may raise to give up.

        A coordinator that does not answer is asked again for half a minute: connections are lost
        and made again while runs of hours go on.
        """
        from nvflare.fuel.flare_api.api_spec import NoConnection

        until = None if timeout is None else time.monotonic() + timeout
        heard = time.monotonic()
        while True:
            if look is not None:
                look()
            try:
                status = str(self.session.get_job_status(job))
                heard = time.monotonic()
            except NoConnection:
                if time.monotonic() > heard + _PATIENCE_S:
                    raise
                status = ""
            if _has_ended(status):
                return status
            if until is not None and time.monotonic() > until:
                raise FederationError(f"the run has not ended after {timeout:.0f} s")
            time.sleep(_POLL_S)


@contextmanager
def open_session(kit: Kit, *, timeout: float = 10.0) -> Iterator[Session]:
    """Log in at the coordinator with a person's kit."""
    try:
        from nvflare.fuel.flare_api import api_spec
        from nvflare.fuel.flare_api.flare_api import new_secure_session
    except ImportError:
        raise SettingError(needs_extra()) from None
    where = f"{kit.federation.address}:{kit.federation.port}"
    interrupted: list[int] = []
    try:
        # FLARE prints what it does.
        with redirect_stdout(StringIO()), _interrupts_later(interrupted):
            session = new_secure_session(
                kit.name, str(kit.folder), timeout=timeout, auto_login_max_tries=1
            )
    except api_spec.AuthenticationError:
        raise SettingError(
            f"the coordinator at {where} does not accept the kit of {kit.name}"
        ) from None
    except Exception as error:  # noqa: BLE001  FLARE raises many kinds
        if interrupted:
            raise KeyboardInterrupt from None
        raise FederationError(
            f"the coordinator at {where} cannot be reached ({type(error).__name__}); is it running?"
        ) from None
    try:
        if interrupted:
            raise KeyboardInterrupt
        yield Session(session, kit)
    except api_spec.AuthorizationError:
        raise SettingError(f"{kit.name} may not do this; its role is {_role(kit)!r}") from None
    except (api_spec.NoConnection, api_spec.SessionClosed, api_spec.InternalError) as error:
        raise FederationError(
            f"the coordinator at {where} did not answer as expected ({type(error).__name__})"
        ) from None
    finally:
        late: list[int] = []
        with redirect_stdout(StringIO()), _interrupts_later(late):
            session.close()
        if late:
            raise KeyboardInterrupt


@contextmanager
def _interrupts_later(asked: list[int]) -> Iterator[None]:
    """Hold Ctrl-C back: FLARE's session leaves threads behind when cut off while it opens."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _has_ended(status: str) -> bool:
    return status.startswith("FINISHED") or status in ("FAILED", "ABANDONED")


def _role(kit: Kit) -> str:
    return next((p.role for p in kit.federation.people if p.name == kit.name), "?")


def _client_names(status: Any) -> set[str]:
    """Return the clients that FLARE's status names, wherever it names them."""
    if not isinstance(status, dict | list):
        return set()
    inner = status.values() if isinstance(status, dict) else status
    names = {name for value in inner for name in _client_names(value)}
    here = status.get("client_name") if isinstance(status, dict) else None
    return names | {here} if isinstance(here, str) else names
