"""A plain FLARE job to compare cofill's driver with: bytes to every site and back, site to site.

Only FLARE's processes import this module, by the name that `bench.network` puts into a job.
"""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

from nvflare.apis.controller_spec import Task
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable, make_reply

TOPIC = "bench.relay"


class PlainController(Controller):
    """Send bytes to every site and receive as many, for some rounds; then let sites relay."""

    def __init__(self, sites, megabytes, rounds):
        super().__init__(task_check_period=0.05)
        self.sites, self.size, self.rounds = sites, int(megabytes * 1e6), rounds
        self.lock, self.results = threading.Lock(), {}

    def start_controller(self, fl_ctx):
        pass

    def stop_controller(self, fl_ctx):
        pass

    def process_result_of_unknown_task(self, client, task_name, task_id, result, fl_ctx):
        pass

    def _received(self, client_task, fl_ctx):
        result, client_task.result = client_task.result, None
        with self.lock:
            self.results[client_task.client.name] = result

    def _all(self, name, content, fl_ctx):
        self.results = {}
        for site in self.sites:
            data = Shareable()
            data["content"] = content
            data["to"] = self.sites[(self.sites.index(site) + 1) % len(self.sites)]
            task = Task(name, data, result_received_cb=self._received)
            self.send(task, fl_ctx, targets=[site])
        while len(self.results) < len(self.sites):
            time.sleep(0.02)
        return self.results

    def control_flow(self, abort_signal, fl_ctx):
        content = os.urandom(self.size)
        self._all("echo", b"", fl_ctx)  # wait until every site answers
        rounds = []
        for _ in range(self.rounds):
            started = time.monotonic()
            self._all("echo", content, fl_ctx)
            rounds.append(time.monotonic() - started)
        relays = []
        for _ in range(self.rounds):
            results = self._all("relay", self.size.to_bytes(8, "little"), fl_ctx)
            relays.append(max(float(r["seconds"]) for r in results.values()))
        folder = Path(fl_ctx.get_engine().get_workspace().get_run_dir(fl_ctx.get_job_id()))
        (folder / "plain.json").write_text(json.dumps({"rounds": rounds, "relays": relays}))


class PlainExecutor(Executor):
    """Return the bytes, or send as many to the next site."""

    def handle_event(self, event_type, fl_ctx):
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.START_RUN:
            fl_ctx.get_engine().register_aux_message_handler(TOPIC, self._take)

    def _take(self, topic, request, fl_ctx):
        assert request["content"]
        return make_reply(ReturnCode.OK)

    def execute(self, task_name, shareable, fl_ctx, abort_signal):
        reply = make_reply(ReturnCode.OK)
        if task_name == "echo":
            reply["content"] = shareable["content"]
            return reply
        message = Shareable()
        message["content"] = os.urandom(int.from_bytes(shareable["content"], "little"))
        started = time.monotonic()
        fl_ctx.get_engine().send_aux_request(
            targets=[shareable["to"]], topic=TOPIC, request=message, timeout=120.0, fl_ctx=fl_ctx
        )
        reply["seconds"] = time.monotonic() - started
        return reply
