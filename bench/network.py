"""Time what cofill's network driver adds to FLARE: rounds, messages between sites, intersection.

Three sites and a coordinator run as processes on this machine with mutual TLS. cofill's rounds
carry a model to every site and an update back, through gate, ledger, encryption and disk; plain
FLARE carries as many bytes in such a federation, as FLARE's own scripts start it (``flare``) and
with large pages of memory, which cofill's processes ask for (``flare_large_pages``). Between sites,
cofill's bytes are encrypted end to end and stored at the coordinator; plain FLARE's are a message
that the coordinator relays. Each figure is the median of some rounds. Private set intersection is
openmined-psi's, both ends in this process.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]


def views(sites):
    from cofill.views import MultiView

    return MultiView.from_arrays({name: np.ones((5, 2)) for name in sites})


def allow_bench(federation, as_flare):
    """Let kits name the bench's own classes beside cofill's; streams as either has them."""
    for name in (*federation.federation.names, "coordinator"):
        path = federation.kit(name) / "local" / "resources.json"
        resources = json.loads(path.read_text())
        resources["class_allow_list"].append("bench.")
        del resources["app_validator"]  # it admits cofill's job only
        path.write_text(json.dumps(resources))
        path = path.with_name("comm_config.json")
        options = json.loads(path.read_text())
        if as_flare:
            options = {key: value for key, value in options.items() if "streaming" not in key}
        path.write_text(json.dumps(options))


@contextmanager
def started_federation(environment, *, as_flare=False):
    """Give three sites and a coordinator that run, with these variables of the environment."""
    from cofill.network import write_local

    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        with tempfile.TemporaryDirectory() as base:
            federation = write_local(Path(base) / "out", views("abc"))
            allow_bench(federation, as_flare)
            try:
                for name in ("coordinator", *federation.federation.names):
                    federation.start(name)
                yield federation
            finally:
                federation.stop()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def time_steps(federation, experiment, megabytes, rounds):
    """Return the seconds of each step of a protocol that carries bytes, at the coordinator."""
    from cofill.network import RunOrder, new_run

    order = RunOrder(new_run(), experiment, {"megabytes": megabytes, "rounds": rounds})
    with federation.session() as opened:
        job = opened.submit(order)
        opened.wait(job, timeout=500, look=federation.check)
        outcome = opened.outcome(job)
    assert outcome["state"] == "finished", outcome["why"]
    return [
        line["seconds"] for line in federation.run_folder("coordinator", order.run).read_times()
    ]


def time_cofill(federation, megabytes, rounds):
    steps = time_steps(federation, "echo", megabytes, rounds)
    round_seconds = np.reshape(steps[: 3 * rounds], (rounds, 3)).sum(axis=1)
    relays = time_steps(federation, "relay", megabytes, rounds)
    relay_seconds = np.reshape(relays[: 2 * rounds], (rounds, 2)).sum(axis=1)
    return round_seconds[1:], relay_seconds[1:]


def time_flare(federation, megabytes, rounds):
    """Return the seconds of rounds and relays of the same sizes over plain FLARE."""
    names = list(federation.federation.names)
    args = {"sites": names, "megabytes": megabytes, "rounds": rounds}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "plain"
        (folder / "app" / "config").mkdir(parents=True)
        meta = {"name": "plain", "min_clients": len(names), "resource_spec": {}}
        meta["deploy_map"] = {"app": ["server", *names]}
        server = {
            "format_version": 2,
            "server": {"task_request_interval": 0.05},
            "workflows": [{"id": "plain", "path": "bench.plain.PlainController", "args": args}],
            "components": [],
        }
        executor = {"path": "bench.plain.PlainExecutor", "args": {}}
        client = {
            "format_version": 2,
            "executors": [{"tasks": ["echo", "relay"], "executor": executor}],
            "task_result_filters": [],
            "task_data_filters": [],
            "components": [],
        }
        for path, content in (
            (folder / "meta.json", meta),
            (folder / "app" / "config" / "config_fed_server.json", server),
            (folder / "app" / "config" / "config_fed_client.json", client),
        ):
            path.write_text(json.dumps(content))
        with federation.session() as opened:
            job = opened.session.submit_job(str(folder))
            status = opened.wait(job, timeout=500, look=federation.check)
            assert status == "FINISHED:COMPLETED", status
            downloaded = opened.session.download_job_result(job, scratch)
            (path,) = Path(downloaded).rglob("plain.json")
            seconds = json.loads(path.read_text())
    return np.array(seconds["rounds"][1:]), np.array(seconds["relays"][1:])


def time_intersection(count):
    """Return the seconds of a private set intersection of two lists that share half."""
    import private_set_intersection.python as psi

    client_ids = [f"person {k}" for k in range(count)]
    server_ids = [f"person {k}" for k in range(count // 2, count + count // 2)]
    started = time.perf_counter()
    client, server = psi.client.CreateWithNewKey(True), psi.server.CreateWithNewKey(True)
    setup = server.CreateSetupMessage(1e-9, count, server_ids, psi.DataStructure.RAW)
    answer = server.ProcessRequest(client.CreateRequest(client_ids))
    shared = client.GetIntersection(setup, answer)
    seconds = time.perf_counter() - started
    assert len(shared) == count - count // 2
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="where to write the record")
    parser.add_argument("--quick", action="store_true", help="small sizes, for a smoke run")
    parser.add_argument("--megabytes", type=float, nargs="+", default=[1, 50], help="sizes")
    parser.add_argument("--rounds", type=int, default=4, help="how many, the first not counted")
    options = parser.parse_args()
    try:
        import nvflare  # noqa: F401
    except ImportError:  # the bench's environment has no FLARE, the project's has
        python = ROOT / ".venv" / "bin" / "python"
        os.execv(python, [str(python), "-m", "bench.network", *sys.argv[1:]])
    from importlib.metadata import version

    from bench.carrying import register

    from cofill.metrics import Recorder

    register()

    sizes, rounds, ids = tuple(options.megabytes), options.rounds, 100_000
    if options.quick:
        sizes, rounds, ids = (1,), 3, 500
    settings = {"megabytes": list(sizes), "rounds": rounds, "sites": 3, "ids": ids}
    settings["nvflare"] = version("nvflare")
    recorder = Recorder("bench_network", seeds=[0], settings=settings)
    folders = [str(ROOT / "bench" / "hook"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)
    os.environ["COFILL_BENCH"] = "1"
    # As FLARE's own scripts start it, and with the memory settings of cofill's processes.
    usual = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}
    ways = {
        "cofill": (time_cofill, {}),
        "flare": (time_flare, usual),
        "flare_large_pages": (time_flare, {}),
    }
    for method, (measured, environment) in ways.items():
        as_flare = measured is time_flare
        with started_federation(environment, as_flare=as_flare) as federation:
            for megabytes in sizes:
                each, relays = measured(federation, megabytes, rounds)
                size = f"{megabytes:g} MB"
                recorder.add(method, "round_s", size, [float(np.median(each))])
                rate = megabytes / float(np.median(relays))
                recorder.add(method, "site_to_site_mb_s", size, [rate])
                print(
                    f"{method:20}{size:>7}: a round {np.median(each):.3f} s "
                    f"({each.min():.3f} to {each.max():.3f}); site to site {rate:.1f} MB/s",
                    flush=True,
                )
    seconds = time_intersection(ids)
    recorder.add("psi", "seconds", f"{ids} ids", [seconds])
    print(f"intersection of {ids:,} × {ids:,} ids: {seconds:.1f} s")
    recorder.note("load_at_end", os.getloadavg()[0])
    if options.out:
        recorder.finish().write(options.out)


if __name__ == "__main__":
    main()
