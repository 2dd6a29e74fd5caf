"""The coordinator's end in FLARE: sends each site its step, forwards parcels, never opens one.

Only FLARE's processes import this module; it is named in the job's configuration.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from cofill.errors import CofillError, DataError
from cofill.network._executor import TASK, end_with_parent, to_wire
from cofill.network._identity import write_json
from cofill.network._kits import Kit
from cofill.network._order import RunOrder
from cofill.network._place import Route, plain_fault
from cofill.network._post import PostOffice
from cofill.protocol import COORDINATOR

__all__ = ["CoordinatorController"]

_LOOK_S = 0.02


class CoordinatorController(Controller):
    """Sequences the steps of one run."""

    def __init__(self, order: dict) -> None:
        super().__init__(task_check_period=0.05)
        self.order = order
        self.office: PostOffice | None = None
        self._lock = threading.Lock()
        self._answers: dict[str, Any] = {}
        end_with_parent()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Read the kit and what an earlier attempt at this run has left."""
        from cofill.network._experiments import experiment_of

        try:
            kit = Kit.read(Path(str(fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT))), "coordinator")
            order = RunOrder(**self.order)
            route = Route(experiment_of(order, kit.federation), kit.federation)
            self.office = PostOffice(route, kit.identity, kit.home)
        except Exception as error:  # noqa: BLE001
            why = plain_fault(error)
            self._tell("failed", why, fl_ctx)
            self._fail(why, fl_ctx)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the steps that are left."""
        office = self.office
        if office is None:
            return
        try:
            while office.next <= office.route.report:
                if COORDINATOR in office.route.actors(office.next):
                    office.act()
                else:
                    self._step(office, abort_signal, fl_ctx)
                office.advance()
            office.end()
            self._tell("finished", "", fl_ctx)
        except _StoppedError as error:
            office.note("stopped", str(error))
            self._tell("stopped", str(error), fl_ctx)
        except Exception as error:  # noqa: BLE001
            why = plain_fault(error)
            office.note("failed", why)
            self._tell("failed", why, fl_ctx)
            self._fail(why, fl_ctx)

    def _step(self, office: PostOffice, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Send every site its parcels and wait for all answers."""
        number, waiting = office.next, set(office.route.actors(office.next))
        seconds = office.route.federation.limits.step_minutes * 60
        with self._lock:
            self._answers = {}
        for name in sorted(waiting):
            data = Shareable()
            data["number"] = number
            data["mail"] = to_wire(office.mail(name))
            task = Task(TASK, data, timeout=seconds, result_received_cb=self._received)
            self.send(task, fl_ctx, targets=[name])
        until = time.monotonic() + seconds
        what = f"step {number} ({office.route.name(number)})"
        while waiting:
            with self._lock:
                answers, self._answers = self._answers, {}
            for name, answer in answers.items():
                if name in waiting:
                    if "fault" in answer:
                        raise DataError(f"site {name!r} could not do {what}: {answer['fault']}")
                    office.receive(name, answer["parcels"])
                    waiting.discard(name)
            if not waiting:
                return
            names = ", ".join(repr(n) for n in sorted(waiting))
            gone = [n for n in sorted(waiting) if self.get_client_disconnect_time(n)]
            if gone:
                raise DataError(
                    f"site {gone[0]!r} was lost in {what}; resume the run when it is back"
                )
            if abort_signal.triggered:
                raise _StoppedError(
                    f"it was stopped, or a site's process ended, in {what}, before {names} had "
                    "answered; it can be resumed"
                )
            if time.monotonic() > until:
                raise DataError(
                    f"{names} did not answer {what} within {seconds // 60} minutes; resume the run "
                    "when the site is back"
                )
            time.sleep(_LOOK_S)

    def _received(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Keep a site's answer; FLARE has authenticated its name."""
        result = client_task.result
        name = client_task.client.name
        client_task.result = None
        answer: dict[str, Any]
        if result is not None and isinstance(result.get("parcels"), dict):
            answer = {"parcels": result["parcels"]}
        else:
            fault = None if result is None else result.get("fault")
            answer = {"fault": str(fault)[:1000] if fault else "its answer is malformed"}
        with self._lock:
            self._answers[name] = answer

    def process_result_of_unknown_task(
        self,
        client: Client,
        task_name: str,
        client_task_id: str,
        result: Shareable,
        fl_ctx: FLContext,
    ) -> None:
        """Leave late answers alone: their step is over."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing is left to do; what was done is on disk."""

    def _tell(self, state: str, why: str, fl_ctx: FLContext) -> None:
        """Put the outcome where the submitter's `results` finds it."""
        engine: Any = fl_ctx.get_engine()
        folder = Path(engine.get_workspace().get_run_dir(fl_ctx.get_job_id()))
        metrics = {} if self.office is None else self.office.metrics
        note = {**self.order, "state": state, "why": why, "metrics": metrics}
        try:
            write_json(folder / "outcome.json", note)
        except (OSError, CofillError):
            self.log_error(fl_ctx, "the outcome cannot be written to the job's folder")

    def _fail(self, why: str, fl_ctx: FLContext) -> None:
        self.system_panic(f"cofill: {why}", fl_ctx)


class _StoppedError(Exception):
    """The run was stopped from outside."""
