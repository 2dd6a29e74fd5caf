"""The site's end in FLARE: a task is a step; its data and its result are sealed messages.

Only FLARE's processes import this module; it is named in the job's configuration.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal
from nvflare.fuel.f3.cellnet.fqcn import FQCN

from cofill.errors import DataError, SettingError
from cofill.network._admission import job_signer
from cofill.network._config import SiteConfig
from cofill.network._faults import RefusedOrderError, fault_for_others, note_fault, public_fault
from cofill.network._job import unpack_order
from cofill.network._kits import Kit
from cofill.network._messages import Message
from cofill.network._order import SITE_CONFIG, RunOrder, schedule_of
from cofill.network._site_runner import SiteRunner
from cofill.network._streams import MessageStreams, remove_files
from cofill.paths import keep_compiled_programs
from cofill.protocol import PROTOCOLS

TASK = "step"


class SiteExecutor(Executor):
    """Runs the steps of one run at one site."""

    def __init__(self, order: str) -> None:
        super().__init__()
        self.order = unpack_order(order)
        self.runner: SiteRunner | None = None
        self.streams: MessageStreams | None = None
        # While the coordinator's process starts; a fault shows when the first step is asked for.
        threading.Thread(target=self._load_protocol, daemon=True, name="cofill-load").start()
        end_with_parent()

    def _load_protocol(self) -> None:
        with suppress(Exception):
            PROTOCOLS.load(self.order.experiment)

    def execute(
        self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal
    ) -> Shareable:
        """Run a step; whatever goes wrong becomes a sentence without anybody's data."""
        kit, reply = None, make_reply(ReturnCode.OK)
        try:
            kit = Kit.read(Path(str(fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT))), "site")
            if task_name != TASK:
                raise SettingError(f"{task_name!r} is no task of cofill; refused")
            if self.runner is None:
                engine: Any = fl_ctx.get_engine()
                app = Path(engine.get_workspace().get_app_dir(fl_ctx.get_job_id()))
                self.runner = _make_runner(kit, self.order, job_signer(kit, app))
            number = shareable.get("number")
            if not isinstance(number, int):
                raise DataError("a step must have a number; refused")
            coordinator = FQCN.join([FQCN.ROOT_SERVER, str(fl_ctx.get_job_id())])
            streams, limits = self._streams(fl_ctx), kit.federation.limits
            mail = streams.fetch(
                shareable.get("mail"),
                coordinator,
                limit=limits.message_bytes,
                total=limits.mail_bytes,
                stopped=lambda: abort_signal.triggered,
            )
            try:
                messages = self.runner.act(number, from_wire(mail))
            finally:
                remove_files(mail)
            streams.withdraw(coordinator)
            reply["messages"] = streams.offer(messages, coordinator)
        except Exception as error:  # noqa: BLE001  nothing may reach FLARE's logs with its values
            why = public_fault(error)
            if kit is not None:
                note_fault(kit, self.order, error)
            self.logger.error(f"step failed: {why}")
            reply["fault"] = fault_for_others(error)
        return reply

    def _streams(self, fl_ctx: FLContext) -> MessageStreams:
        """Return what carries this site's large messages."""
        if self.streams is None:
            engine: Any = fl_ctx.get_engine()
            assert self.runner is not None  # noqa: S101
            self.streams = MessageStreams(engine.get_cell(), self.runner.folder.incoming)
        return self.streams


def _make_runner(kit: Kit, order: RunOrder, submitter: str) -> SiteRunner:
    keep_compiled_programs()
    path = os.environ.get(SITE_CONFIG)
    if path is None:
        raise SettingError("this site was not started by `cofill site`, so it has no site.toml")
    config = SiteConfig.read(Path(path))
    config.check_against(kit.federation, kit.name, Path(path))
    try:
        schedule = schedule_of(order, kit.federation)
    except SettingError as error:
        raise RefusedOrderError(str(error)) from None
    return SiteRunner(schedule, kit.identity, config, kit.home, submitter)


def to_wire(mail: Mapping[tuple[int, str], Message]) -> dict[str, Message]:
    """Return messages under keys that FLARE can carry."""
    return {f"{step}/{sender}": message for (step, sender), message in mail.items()}


def from_wire(mail: Mapping[str, Message]) -> dict[tuple[int, str], Message]:
    """Return what `to_wire` was given; raise a `DataError` for anything else."""
    try:
        messages = {}
        for key, message in mail.items():
            step, _, sender = key.partition("/")
            messages[int(step), sender] = message
        return messages
    except ValueError:
        raise DataError("a step's mail is malformed; refused") from None


def end_with_parent() -> None:
    """End this process when FLARE's own has gone, even in the middle of a long training.

    FLARE's threads answer sites that ask for work. A step has its turn again after half a
    millisecond, not five: between thousands of short products that made up most of its time.
    """
    sys.setswitchinterval(0.0005)
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="cofill-watch").start()
