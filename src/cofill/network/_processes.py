"""Processes: a party's FLARE process under a supervisor that leaves none of them behind.

FLARE starts a process per party, and from it one per run in a session of its own. The supervisor
adopts what its children leave behind, ends all of it when it is told to stop, and the processes
below end by themselves when the supervisor is killed.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import os
import runpy
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cofill.errors import CofillError, SettingError
from cofill.network._kits import Kit, needs_extra
from cofill.network._order import SITE_CONFIG, SITE_KIT

_MODULES = {
    "coordinator": ("nvflare.private.fed.app.server.server_train", "fed_server.json"),
    "site": ("nvflare.private.fed.app.client.client_train", "fed_client.json"),
}
_LARGEST_STREAM = "NVFLARE_STREAMING_MAX_BLOB_SIZE"
# Bytes in one task, answer or file of FLARE's own, such as results. FLARE copies them some times,
# so large messages do not travel in them.
_LARGEST_BLOB = 64 * 2**20
_PATIENCE_S = 3.0  # between asking a process to end and killing it
_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # options of Linux's prctl


class ProcessError(CofillError, RuntimeError):
    """A party's process ended by itself."""


def serve(kit: Kit, config: Path | None, *, ready: Callable[[], None] | None = None) -> None:
    """Run a party until this process is told to stop; raise if FLARE's process ends by itself."""
    try:
        import nvflare  # noqa: F401
    except ImportError:
        raise SettingError(needs_extra()) from None
    with _alone(kit), _stop_signals() as stopped:
        _prctl(_SET_SUBREAPER, 1)  # orphans become this process's children
        kit.prepare()
        log = kit.home / "console.txt"
        process = _start(_command(kit), log, cwd=kit.folder, env=party_environment(kit, config))
        try:
            if ready is not None:
                ready()
            while not stopped() and process.poll() is None:
                time.sleep(0.1)
            ended = process.poll()
        finally:
            end_tree(os.getpid(), keep_root=True)
    if ended is not None and not stopped():
        raise ProcessError(
            f"{kit.kind} {kit.name!r}: FLARE's process ended by itself (code {ended}); see {log}"
        )


def _command(kit: Kit) -> list[str]:
    module, config = _MODULES[kit.kind]
    options = ["secure_train=true", "config_folder=config"]
    if kit.kind == "site":
        options += [f"uid={kit.name}", f"org={kit.member.organisation}", "heart_beat_interval=5"]
    else:
        options += ["org=cofill"]
    words = ["-m", str(kit.folder), "-s", config, "--set", *options]
    return [sys.executable, "-u", "-c", _boot("KILL", f"run_module({module!r})"), *words]


def party_environment(kit: Kit, config: Path | None) -> dict[str, str]:
    """Return the environment of a party's processes, in which FLARE finds its limits.

    A task or an answer says in its first frame how large it is. FLARE refuses it there, before it
    is received, or where it goes on beyond the limit.

    Memory comes in pages of 2 MiB where the system has them: a message of many megabytes asks for
    many pages on its way (`python -m bench network` compares).
    """
    memory = {"MALLOC_ARENA_MAX": "4", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
    environment = {**memory, **os.environ, _LARGEST_STREAM: str(_LARGEST_BLOB)}
    if config is None:
        return environment
    places = {SITE_CONFIG: str(config.resolve()), SITE_KIT: str(kit.folder)}
    return {**environment, **places}


def start_party(arguments: Sequence[str], log: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start a `cofill` command that serves a party, as a process of its own."""
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", _boot("TERM", "run_command()"), *arguments]
    # Parties share this machine: threads of all of them would wait for each other's turns.
    return _start(command, log, env={"OPENBLAS_NUM_THREADS": "1", **os.environ, **environment})


def _start(command: Sequence[str], log: Path, **options: Any) -> subprocess.Popen[bytes]:
    """Start our own interpreter in a session of its own; what it says goes to a file."""
    options |= {"stdin": subprocess.DEVNULL, "stderr": subprocess.STDOUT}
    with log.open("wb") as output:
        process: Any = subprocess.Popen(  # noqa: S603  no word of it is anybody's input
            command, stdout=output, start_new_session=True, **options
        )
    return process


def _boot(ending: str, then: str) -> str:
    """Return a program that ends with this process, then does something.

    The child sets this itself: between fork and exec nothing may run in a process with threads.
    """
    return (
        f"from cofill.network import _processes as p; p.end_with({os.getpid()}, 'SIG{ending}'); "
        f"p.{then}"
    )


def end_with(parent: int, ending: str) -> None:
    """Have the kernel send this process a signal when its parent has gone."""
    _prctl(_SET_DEATH_SIGNAL, signal.Signals[ending])
    if os.getppid() != parent:
        sys.exit(1)


def run_module(name: str) -> None:
    """Run one of FLARE's programs in this process."""
    runpy.run_module(name, run_name="__main__", alter_sys=True)


def run_command() -> None:
    """Run a `cofill` command in this process."""
    main = importlib.import_module("cofill.cli").main  # above this package: only in a new process
    main()


def end_tree(root: int, *, keep_root: bool = False, patience: float = _PATIENCE_S) -> None:
    """End a process and all below it: asked first, then killed; adopted ones included."""
    import psutil

    try:
        top = psutil.Process(root)
    except psutil.NoSuchProcess:
        return
    for _ in range(5):
        processes = top.children(recursive=True) if top.is_running() else []
        if not keep_root:
            processes.append(top)
        if not processes:
            return
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.terminate()
        _, alive = psutil.wait_procs(processes, timeout=patience)
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(alive, timeout=patience)
        patience = 0.5


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_port(port: int, *, timeout: float, alive: Callable[[], None]) -> None:
    """Wait until somebody listens on a port of this machine; `alive` raises when hope is lost."""
    until = time.monotonic() + timeout
    while True:
        alive()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
            return
        if time.monotonic() > until:
            raise ProcessError(f"nobody listens on port {port} after {timeout:.0f} s")
        time.sleep(0.1)


@contextmanager
def _alone(kit: Kit) -> Iterator[None]:
    """Refuse to run one kit twice at once."""
    with (kit.home / "running.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise SettingError(
                f"--kit {kit.folder} is running already; stop that process first"
            ) from None
        yield


@contextmanager
def _stop_signals() -> Iterator[Callable[[], bool]]:
    """Give a function that says whether somebody has asked this process to stop."""
    asked: list[int] = []
    before = {
        number: signal.signal(number, lambda got, _: asked.append(got))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    }
    try:
        yield lambda: bool(asked)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
