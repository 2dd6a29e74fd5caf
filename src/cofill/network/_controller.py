"""The coordinator's end in FLARE: sends each site its step, forwards messages, never opens one.

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
from nvflare.fuel.f3.cellnet.fqcn import FQCN

from cofill.errors import CofillError, DataError
from cofill.files import write_document
from cofill.network._executor import TASK, end_with_parent, to_wire
from cofill.network._faults import public_fault
from cofill.network._job import unpack_order
from cofill.network._kits import Kit
from cofill.network._order import OUTCOME_FORMAT, schedule_of
from cofill.network._run_coordinator import RunCoordinator
from cofill.network._streams import MessageStreams, remove_files
from cofill.protocol import COORDINATOR

_LOOK_S = 0.02  # between two looks for answers, so that waiting adds little to a short step


class CoordinatorController(Controller):
    """Sequences the steps of one run."""

    def __init__(self, order: str) -> None:
        super().__init__(task_check_period=0.05)
        self.order = unpack_order(order)
        self.run: RunCoordinator | None = None
        self._lock = threading.Lock()
        self._answers: dict[str, Any] = {}
        self._gone: set[str] = set()
        self._stopped = False
        self.streams: MessageStreams | None = None
        end_with_parent()

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Read the kit and what an earlier attempt at this run has left."""
        try:
            kit = Kit.read(Path(str(fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT))), "coordinator")
            schedule = schedule_of(self.order, kit.federation)
            self.run = RunCoordinator(schedule, kit.identity, kit.home)
        except Exception as error:  # noqa: BLE001
            self._fail(error, fl_ctx)

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Run the steps that are left."""
        run = self.run
        if run is None:
            return
        try:
            while run.next <= run.schedule.report:
                if abort_signal.triggered:
                    raise _StoppedError(f"it was stopped before {_what(run)}")
                if COORDINATOR in run.schedule.actors(run.next):
                    run.act()
                else:
                    self._step(run, abort_signal, fl_ctx)
                run.advance()
            run.end()
            self._tell("finished", "", fl_ctx)
        except _StoppedError as error:
            self._stopped = True
            run.note("stopped", str(error))
            self._tell("stopped", str(error), fl_ctx)
        except Exception as error:  # noqa: BLE001
            run.note("failed", public_fault(error))
            self._fail(error, fl_ctx)

    def _step(self, run: RunCoordinator, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Send every site its messages and wait for all answers, or for those there can be."""
        number = run.next
        protocol = run.schedule.protocol
        seconds = run.schedule.federation.limits.step_minutes * 60
        if protocol.may_lack_sites(number) and protocol.patience is not None:
            seconds = min(seconds, protocol.patience)
        with self._lock:
            self._answers = {}
        waiting = self._present(run, fl_ctx)
        tasks = []
        for name in sorted(waiting):
            data = Shareable()
            data["number"] = number
            data["mail"] = self._offer(run, name, fl_ctx)
            task = Task(TASK, data, timeout=0, result_received_cb=self._received)
            self.send(task, fl_ctx, targets=[name])
            tasks.append(task)
        asked, until = len(waiting), time.monotonic() + seconds
        absent: dict[str, str] = {}
        while waiting:
            absent |= self._take_answers(run, waiting)
            absent |= self._lost(waiting)
            if abort_signal.triggered and waiting:
                raise _StoppedError(
                    "it was stopped, or a site's process ended, in "
                    f"{_what(run)}, before {_listed(waiting)} had answered; it can be resumed"
                )
            if time.monotonic() > until:
                absent |= dict.fromkeys(waiting, f"did not answer within {seconds:.0f} s")
                waiting.clear()
            if absent and not protocol.may_lack_sites(number):
                name, why = next(iter(absent.items()))
                raise DataError(f"{_what(run)}: site {name!r} {why}; the run can be resumed")
            time.sleep(_LOOK_S if waiting else 0)
        for name, why in absent.items():
            run.leave_out(name, why)
        for task in tasks:
            self.cancel_task(task, fl_ctx=fl_ctx)
        if len(absent) == asked:
            why = "; ".join(f"site {name!r} {why}" for name, why in absent.items())
            raise DataError(f"{_what(run)}: no site has answered: {why or 'all are lost'}")

    def _offer(self, run: RunCoordinator, name: str, fl_ctx: FLContext) -> dict[str, Any]:
        """Return what a site's task says of the messages for it."""
        engine: Any = fl_ctx.get_engine()
        if self.streams is None:
            self.streams = MessageStreams(engine.get_cell(), run.folder.incoming)
        process = _process(engine.get_client_from_name(name), fl_ctx)
        self.streams.withdraw(process)
        return self.streams.offer(to_wire(run.messages_for(name)), process)

    def _present(self, run: RunCoordinator, fl_ctx: FLContext) -> set[str]:
        """Return the sites that can be asked; note once of each other that it is not there."""
        engine: Any = fl_ctx.get_engine()
        names = set(run.actors)
        there = {client.name for client in engine.get_clients()} & names
        if there < names and not run.schedule.protocol.may_lack_sites(run.next):
            lost = _listed(names - there)
            raise DataError(f"{_what(run)}: {lost} is not in this run; it can be resumed")
        for name in sorted(names - there - self._gone):
            run.leave_out(name, "is not in this run")
            self._gone.add(name)
        return there - self._gone

    def _take_answers(self, run: RunCoordinator, waiting: set[str]) -> dict[str, str]:
        """Hand answers to the post run; return who could not do the step, and why."""
        with self._lock:
            answers, self._answers = self._answers, {}
        absent = {}
        for name, answer in answers.items():
            if name not in waiting:
                continue
            waiting.discard(name)
            if "fault" in answer:
                absent[name] = f"could not do it: {answer['fault']}"
                continue
            try:
                run.receive(name, answer["messages"])
            except DataError as error:
                absent[name] = f"sent what is refused: {error}"
            finally:
                remove_files(answer["messages"])
        return absent

    def _lost(self, waiting: set[str]) -> dict[str, str]:
        """Return the sites that are lost to this run: their processes have gone."""
        gone = {name for name in waiting if self.get_client_disconnect_time(name)}
        self._gone |= gone
        waiting -= gone
        return dict.fromkeys(sorted(gone), "was lost")

    def _received(self, client_task: ClientTask, fl_ctx: FLContext) -> None:
        """Keep a site's answer; FLARE has authenticated its name.

        Its large messages are asked for in a thread of their own: FLARE's is to answer the site.
        """
        result, client_task.result = client_task.result or {}, None
        client, run, step = client_task.client, self.run, int(client_task.task.data["number"])
        assert run is not None  # noqa: S101
        if "messages" not in result:
            fault = result.get("fault") or "its answer is malformed"
            self._answer(step, client.name, {"fault": str(fault)[:1000]})
            return
        names = (step, client.name, _process(client, fl_ctx), result["messages"])
        threading.Thread(target=self._fetch, args=(run, *names), daemon=True).start()

    def _fetch(self, run: RunCoordinator, step: int, name: str, process: str, wire: Any) -> None:
        """Keep the messages of a site's answer once all of them are here."""
        assert self.streams is not None  # noqa: S101
        answer: dict[str, Any] = {"fault": "its messages have not arrived"}
        try:
            messages = self.streams.fetch(
                wire,
                process,
                limit=run.limit,
                total=run.mail_limit,
                stopped=lambda: run.next != step or self._stopped,
            )
            answer = {"messages": messages}
        except CofillError as error:
            answer = {"fault": str(error)}
        finally:
            self._answer(step, name, answer)

    def _answer(self, step: int, name: str, answer: dict[str, Any]) -> None:
        with self._lock:
            if self.run is not None and step == self.run.next:
                self._answers[name] = answer
                return
        remove_files(answer.get("messages", {}))  # its step is over

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
        run, note = self.run, {**self.order.to_json(), "state": state, "why": why}
        note |= {"metrics": {}, "notes": [], "result": {}, "late": []}
        if run is not None:
            note |= {"metrics": run.metrics, "notes": run.all_notes, "result": run.result}
            note["late"] = list(run.late)
        try:
            write_document(folder / "outcome.json", OUTCOME_FORMAT, note)
        except (OSError, CofillError):
            self.log_error(fl_ctx, "the outcome cannot be written to the job's folder")

    def _fail(self, error: Exception, fl_ctx: FLContext) -> None:
        self._tell("failed", public_fault(error), fl_ctx)
        self.system_panic(f"cofill: {public_fault(error)}", fl_ctx)


def _process(client: Client, fl_ctx: FLContext) -> str:
    """Return FLARE's name of a site's process in this run."""
    return FQCN.join([client.get_fqcn() or client.name, str(fl_ctx.get_job_id())])


def _what(run: RunCoordinator) -> str:
    return f"step {run.next} ({run.schedule.name(run.next)})"


def _listed(names: set[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names))


class _StoppedError(Exception):
    """The run was stopped from outside."""
